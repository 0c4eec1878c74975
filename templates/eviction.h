#pragma once
// When loads may use the L2 policy evict_last. Internal to templates/.

#include <cstdint>

#include "tunesmith/device_info.h"

namespace tunesmith {

/// Returns whether loads of arrays of this size may use evict_last: on sm_80 and later, from four times L2.
///
/// There they take 0.98 to 1.005 of the time of plain loads. Their lines outlive the kernel, so for smaller arrays the time
/// depends on what an earlier kernel left: an in-place copy of 19 MB takes 14.1 us on an H100 if no lines were kept before
/// and 17.7 us if lines of other arrays were, with plain loads 16.9 us (bench/NOTES.md, "After a reset, evict_last gains
/// what programs do not get").
inline bool suits_evict_last(std::int64_t traffic_bytes, const DeviceInfo& device) {
  return device.arch.number() >= 80 && traffic_bytes >= 4 * device.l2_bytes;
}

}  // namespace tunesmith
