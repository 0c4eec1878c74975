#pragma once
// Tuning records, binaries and generations as payloads of values.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/remote_store.h"

namespace tunesmith::fleet {

/// The identity of a tuning record: all fields of its key.
std::string key_bytes(const TuningKey& key);
/// The identity of a family: the fields of a key without n_cols and rows_bucket.
std::string family_bytes(const TuningKey& key);

// Decoding returns nothing for bytes that are not exactly one encoded object, and for one with impossible values: it does
// not matter who wrote them.
std::string encode(const SharedTuning& tuning);
std::optional<SharedTuning> decode_tuning(std::string_view bytes);

std::string encode(const BinaryRecord& binary);
std::optional<BinaryRecord> decode_binary(std::string_view bytes);

/// All tunings of a deployment, and the SHA-256 of its binaries by fingerprint.
struct Generation {
  std::vector<SharedTuning> tunings;
  std::map<std::string, std::string> binaries;
};
std::string encode(const Generation& generation);
std::optional<Generation> decode_generation(std::string_view bytes);

}  // namespace tunesmith::fleet
