#pragma once
// Strides of arrays that are written. Internal to templates/.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/launch.h"
#include "tunesmith/array_info.h"
#include "tunesmith/error.h"

namespace tunesmith {

/// Throws Error(invalid_argument) if rows of `width` elements share memory. `dimensions`: stride and extent of each other
/// dimension.
inline void check_rows_apart(std::string_view name, std::int64_t width,
                             std::vector<std::pair<std::int64_t, std::int64_t>> dimensions) {
  for (const auto& [stride, extent] : dimensions)
    if (extent == 0) return;
  std::ranges::sort(dimensions);
  std::int64_t inner = width;
  for (const auto& [stride, extent] : dimensions) {
    if (extent == 1) continue;
    if (stride < inner)
      throw Error(ErrorCode::invalid_argument, "a stride of ", name, " is ", stride, ", and rows of ", name,
                  " would share memory; it must be at least ", inner);
    inner = stride * extent;
  }
}

/// Describes the gaps of an array, the smallest that all of it has.
inline void describe_gaps(const ArrayInfo& array, LaunchPlan::Pointer& pointer) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;
  for (std::size_t d = 0; d < array.shape.size(); ++d)
    if (array.shape[d] > 1) dimensions.emplace_back(array.strides[d], array.shape[d]);
  std::ranges::sort(dimensions);
  std::int64_t block = 1;
  for (auto it = dimensions.begin(); it != dimensions.end(); ++it) {
    const std::int64_t period = it->first;
    const bool repeats = std::all_of(it, dimensions.end(), [&](const auto& outer) { return outer.first % period == 0; });
    if (repeats && block < period) {
      pointer.period_bytes = period * size_of(array.dtype);
      pointer.block_bytes = block * size_of(array.dtype);
      return;
    }
    block += period * (it->second - 1);
  }
}

}  // namespace tunesmith
