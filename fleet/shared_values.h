#pragma once
// Tunings, binaries and generations on the server: sealed when written, verified when read.

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fleet/client.h"
#include "fleet/credentials.h"
#include "fleet/protocol/server_keys.h"
#include "fleet/protocol/tuning_codec.h"

namespace tunesmith::fleet {

/// How a write treats a value that exists.
enum class Overwrite : std::uint8_t {
  unusable,  ///< replaces it only if this host cannot use it: the first usable value wins
  always,
};

/// Result of a write. `present` is the value that won, if it was another one.
template <typename Row>
struct Written {
  bool is_stored = false;
  std::optional<Row> present;
};

/// Immutable; thread-safe. All calls that take a client throw RemoteError.
class SharedValues {
 public:
  SharedValues(const RemoteUrl& url, Credentials credentials);

  const ServerKeys& keys() const { return keys_; }
  const Credentials& credentials() const { return credentials_; }
  /// Binaries are machine code: without trusted keys, none is loaded, and without a signing key, none is written.
  bool may_load_binaries() const { return credentials_.trust.required(); }
  bool may_write_binaries() const { return credentials_.signing.has_value(); }
  /// Hosts that trust keys and have none of their own write nothing, because nobody would read it.
  bool may_write_tunings() const { return may_write_binaries() || !credentials_.trust.required(); }

  // Reading the bytes of a value.
  std::variant<SharedTuning, Refusal> open_tuning(std::string_view bytes, const TuningKey& key) const;
  /// Reads a tuning whose key is known only to the value: for listings.
  std::variant<SharedTuning, Refusal> open_tuning(std::string_view bytes) const;
  std::variant<BinaryRecord, Refusal> open_binary(std::string_view bytes, const std::string& fingerprint) const;
  std::variant<Generation, Refusal> open_generation(std::string_view bytes, const std::string& name) const;

  // Writing. Values expire ttl_days after the last write, renewal or, in mode rw, first hit of a host.
  Written<SharedTuning> write(Client& client, const SharedTuning& tuning, Overwrite overwrite, Deadline deadline) const;
  Written<BinaryRecord> write(Client& client, const BinaryRecord& binary, Overwrite overwrite, Deadline deadline) const;
  /// Returns the sealed bytes.
  std::string seal_generation(const Generation& generation, const std::string& name) const;
  void renew(Client& client, const std::string& server_key, Deadline deadline) const;
  /// Returns the seconds until a value expires, as an argument of a command.
  std::string ttl_s() const { return std::to_string(std::int64_t{86400} * ttl_days_); }

 private:
  std::string seal_tuning(const SharedTuning& tuning) const;
  Label label(Kind kind, std::string key) const { return {kind, name_space_, std::move(key)}; }

  const std::string name_space_;
  const int ttl_days_;
  const ServerKeys keys_;
  const Credentials credentials_;
};

}  // namespace tunesmith::fleet
