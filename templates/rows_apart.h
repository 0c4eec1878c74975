#pragma once
// Strides of arrays that are written. Internal to templates/.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace tunesmith
