#pragma once
// The error of the remote cache, by kind, so that metrics can count them and callers can tell a closed connection from a
// hung one.

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tunesmith::fleet {

enum class Failure : std::uint8_t {
  resolve,   ///< the host name has no address
  connect,   ///< no connection
  tls,       ///< the handshake or a TLS record failed
  auth,      ///< user or password rejected
  timeout,   ///< the deadline passed
  closed,    ///< the server closed the connection
  protocol,  ///< not the Redis protocol, or a reply above its size limit
  rejected,  ///< the server answered with an error: LOADING, READONLY, OOM, NOPERM, ...
};

inline constexpr std::array<std::string_view, 8> failure_names{"resolve", "connect", "tls",      "auth",
                                                               "timeout", "closed",  "protocol", "rejected"};
constexpr std::string_view name(Failure failure) noexcept { return failure_names.at(static_cast<std::size_t>(failure)); }

class RemoteError : public std::runtime_error {
 public:
  RemoteError(Failure failure, const std::string& message) : std::runtime_error(message), failure_(failure) {}
  Failure failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

}  // namespace tunesmith::fleet
