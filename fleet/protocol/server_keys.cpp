#include "fleet/protocol/server_keys.h"

#include <charconv>

#include "core/hash.h"
#include "fleet/protocol/tuning_codec.h"

namespace tunesmith::fleet {

std::string ServerKeys::tunings(const TuningKey& key) const { return prefix_ + "t:" + hash_hex(family_bytes(key)); }
std::string ServerKeys::lease(const TuningKey& key) const { return prefix_ + "l:" + hash_hex(key_bytes(key)); }

std::string field(const TuningKey& key) { return std::to_string(key.n_cols) + "," + std::to_string(key.rows_bucket); }

std::optional<FieldNumbers> parse_field(std::string_view text) {
  FieldNumbers numbers;
  const char* const end = text.data() + text.size();
  const auto [comma, failure] = std::from_chars(text.data(), text.data() + text.size(), numbers.n_cols);
  if (failure != std::errc() || comma == end || *comma != ',') return std::nullopt;
  const auto [rest, second_failure] = std::from_chars(comma + 1, end, numbers.rows_bucket);
  if (second_failure != std::errc() || rest != end) return std::nullopt;
  return numbers;
}

}  // namespace tunesmith::fleet
