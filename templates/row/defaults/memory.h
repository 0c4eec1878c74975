#pragma once
// Loads in flight that a device's memory needs. Internal to templates/row.

#include "tunesmith/device_info.h"

namespace tunesmith::row {

/// Returns the bytes that a multiprocessor must have in flight, latency times bandwidth: 28 kB on an H100, 40 kB on an H200.
inline double bytes_in_latency(const DeviceInfo& device) noexcept {
  constexpr double latency_ns = 1100;  // of a busy memory
  return latency_ns * device.memory_gb_per_s / device.sm_count;
}

/// Returns whether kernels that were tuned on an H100 have too few loads in flight for this memory.
inline bool needs_more_loads(const DeviceInfo& device) noexcept { return bytes_in_latency(device) > 32 << 10; }

}  // namespace tunesmith::row
