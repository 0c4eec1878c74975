#pragma once
// The form of every value on the server: its kind, its key, the signature, and the compressed payload.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fleet/signing.h"

namespace tunesmith::fleet {

enum class Kind : std::uint8_t { tuning = 1, binary = 2, generation = 3, job = 4 };

/// The most bytes of a value on the server, and of its payload.
inline constexpr std::size_t max_value_bytes = std::size_t{8} << 20, max_payload_bytes = std::size_t{64} << 20;

/// The expected properties of a value. A value contains its own key, so values cannot be swapped on the server.
struct Label {
  Kind kind = Kind::tuning;
  std::string name_space;
  std::string key;

  bool operator==(const Label&) const = default;
};

struct Value {
  std::string payload;
  std::int64_t created_unix_s = 0;
  std::string signer;  ///< public key; empty: not signed
};

/// Why a value is not used.
enum class Refusal : std::uint8_t {
  damaged,    ///< cut, changed, too large, or not a value of this version
  swapped,    ///< of another key, kind or namespace
  untrusted,  ///< not signed, or by a key that is not trusted, or the signature is wrong
};
std::string_view name(Refusal refusal) noexcept;

/// Which signatures count.
struct Trust {
  std::vector<std::string> public_keys;  ///< empty: unsigned values are taken, too
  bool required() const { return !public_keys.empty(); }
};

/// Seconds since 1970, as a value states when it was created.
std::int64_t unix_seconds();

/// Signed if `key` is given. Throws Error(invalid_argument) for a payload above the limits.
std::string seal(const Label& label, std::string_view payload, std::int64_t created_unix_s, const SigningKey* key);
/// Verifies size, digest, label and, if trust is required, the signature, in this order; then decompresses.
std::variant<Value, Refusal> unseal(std::string_view bytes, const Label& label, const Trust& trust);

}  // namespace tunesmith::fleet
