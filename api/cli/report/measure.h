#pragma once
// Times a plan on its device, and a copy of the same number of bytes in the same run.

#include <functional>
#include <optional>

#include "jit/device.h"

namespace tunesmith::cli {

struct Measurement {
  double median_us = 0, mad_us = 0;  ///< median and median absolute deviation
  double copy_median_us = 0;         ///< device copy with the same traffic; 0: no memory for its buffers
  int samples = 0;
};

/// Times `launch` and the copy alternately and flushes the last-level cache before each. Returns nullopt on the host
/// executor, whose times mean nothing.
std::optional<Measurement> measure(Device& device, const std::function<void(Stream)>& launch, double bytes);

}  // namespace tunesmith::cli
