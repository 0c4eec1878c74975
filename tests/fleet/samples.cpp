#include "tests/fleet/samples.h"

#include <random>

namespace tunesmith::fleet {

TuningKey sample_key(std::int64_t n_cols, std::int64_t rows_bucket) {
  return {"softmax", "x=bf16,y=bf16,align=16", n_cols, rows_bucket, "NVIDIA H200 sm_90a 132", "0123abcd", "events,v1"};
}

SharedTuning sample_tuning(std::int64_t n_cols, int seed) {
  SharedTuning tuning;
  TuningRecord& record = tuning.record;
  record.key = sample_key(n_cols);
  record.config = "variant=block,threads=" + std::to_string(32 * seed);
  record.median_us = 12.5 + seed;
  record.mad_us = 0.125;
  record.default_median_us = 14.75 + seed;
  record.bytes = 1e9;
  record.problem = "softmax rows=4096,cols=" + std::to_string(n_cols);
  record.effort = "full";
  record.provenance = {{"driver", "580.1"}, {"host time", "1 = one\nline two\\"}};
  record.created_unix_s = 1700000000 + seed;
  for (int i = 0; i < 20; ++i)
    tuning.trials.push_back({"variant=block,threads=" + std::to_string(32 * i), "timed", 20.0 + i, 0.25, 30, ""});
  return tuning;
}

BinaryRecord sample_binary(const std::string& fingerprint, std::size_t image_bytes, int seed) {
  BinaryRecord binary;
  binary.fingerprint = fingerprint;
  binary.source_hash = "source-" + fingerprint;
  binary.options = "-arch=sm_90a";
  binary.arch = "sm_90a";
  binary.toolchain = "NVRTC 13";
  binary.op = "softmax";
  binary.resources = {{"kernel", "registers=32"}};
  std::mt19937 random(static_cast<unsigned>(seed));
  binary.image.resize(image_bytes);
  for (std::size_t i = 0; i < image_bytes; ++i) binary.image[i] = static_cast<char>(i % 2 == 0 ? random() : i / 64);
  return binary;
}

}  // namespace tunesmith::fleet
