#pragma once
// How long a plan takes on its device, beside a copy of as many bytes in the same run.

#include <functional>
#include <optional>

#include "jit/device.h"

namespace tunesmith::cli {

struct Measurement {
  double median_us = 0, mad_us = 0;  ///< median and median absolute deviation
  double copy_median_us = 0;         ///< device copy with the same traffic; 0: no memory for its buffers
  int samples = 0;
};

/// Times `launch` and the copy in turns, the last-level cache flushed before each. nullopt on the host executor, which
/// never claims a speed.
std::optional<Measurement> measure(Device& device, const std::function<void(Stream)>& launch, double bytes);

}  // namespace tunesmith::cli
