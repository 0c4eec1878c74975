#pragma once
// Sample tunings and binaries.

#include "cache/remote_store.h"

namespace tunesmith::fleet {

TuningKey sample_key(std::int64_t n_cols, std::int64_t rows_bucket = 4096);
SharedTuning sample_tuning(std::int64_t n_cols, int seed = 1);
/// Its image is half random, half text, like machine code.
BinaryRecord sample_binary(const std::string& fingerprint, std::size_t image_bytes, int seed = 1);

}  // namespace tunesmith::fleet
