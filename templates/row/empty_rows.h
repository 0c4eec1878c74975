#pragma once
// Rows without columns. Internal to templates/.

#include <cstdint>

namespace tunesmith::row {

/// Returns the shape that kernels are made for. Rows without columns have no elements: zero columns are treated
/// as zero rows of `cols` columns, and nothing is launched.
template <typename Shape>
constexpr Shape without_empty_rows(Shape shape, std::int64_t cols = 1) {
  if (shape.cols > 0) return shape;
  shape.rows = 0;
  shape.cols = cols;
  return shape;
}

}  // namespace tunesmith::row
