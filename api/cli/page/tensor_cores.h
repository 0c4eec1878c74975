#pragma once
// The peak rate of the tensor cores of a recorded GPU.

#include <optional>

#include "cache/cache.h"

namespace tunesmith::cli {

struct TensorCores {
  double tflops = 0;     ///< dense f16 or bf16 with f32 sums, all multiprocessors
  double clock_mhz = 0;  ///< the highest clock, at which `tflops` holds
};

/// Returns the peak of the GPU that the record was measured on; nullopt for other dtypes, for architectures that are not in
/// the table, and for records without a clock.
std::optional<TensorCores> tensor_cores(const TuningRecord& record);

}  // namespace tunesmith::cli
