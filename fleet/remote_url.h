#pragma once
// The one URL that configures the remote cache, such as
//   rediss://reader@cache.example:6380/0?ns=prod&mode=ro&generation=prod-17&ca=ca.pem&password_file=secret&trust=keys.pub

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tunesmith::fleet {

struct RemoteUrl {
  enum class Transport : std::uint8_t { tcp, tls, unix_socket };

  Transport transport = Transport::tcp;  ///< redis://, rediss:// or redis+unix:
  std::string host;                      ///< of tcp and tls
  int port = 6379;
  std::filesystem::path socket;  ///< of unix_socket
  std::string user;              ///< of the server's access list; empty: the default user
  int database = 0;
  std::string name_space = "default";   ///< ns: fleets with different names share nothing
  bool read_only = false;               ///< mode=ro: never writes
  std::string generation;               ///< only tunings of this generation are used; empty: all
  std::filesystem::path ca;             ///< certificates that sign the server's; empty: the system's
  std::filesystem::path password_file;  ///< its first line; passwords are never part of the URL
  std::filesystem::path trust;          ///< public keys; binaries and tunings must be signed by one of them
  std::filesystem::path sign;           ///< private key that signs what this host writes; its public key is trusted
  std::chrono::milliseconds connect{100}, record{50}, binary{250};  ///< connect_ms, get_ms, binary_ms: time limits
  int ttl_days = 90;                                                ///< values expire when unused this long

  bool has_keys() const { return !trust.empty() || !sign.empty(); }
  /// Returns the address without options, for messages.
  std::string address() const;
};

/// Throws Error(invalid_argument) that names the part, its value and what is allowed.
RemoteUrl parse_remote_url(std::string_view text);

}  // namespace tunesmith::fleet
