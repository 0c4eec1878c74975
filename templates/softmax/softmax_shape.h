#pragma once
// A normalized softmax problem as plain numbers, and what follows from them. Internal to templates/softmax.

#include <cstdint>

#include "templates/op.h"

namespace tunesmith::softmax {

struct Shape {
  std::int64_t rows, cols;
  DType input, output;
  std::int64_t x_row_stride, y_row_stride;  ///< elements
  std::int64_t x_alignment, y_alignment;    ///< bytes, of the base addresses
  bool in_place;

  /// Reads the fields that normalize() has filled in.
  explicit Shape(const Problem& problem);

  /// Elements per vector: at most 16 bytes of the wider dtype, and every row of both arrays starts at a multiple of it.
  int vector() const noexcept;
  std::int64_t vectors_per_row() const noexcept { return (cols + vector() - 1) / vector(); }
  /// Bytes of one vector of the wider dtype.
  std::int64_t traffic_bytes() const noexcept { return rows * cols * (size_of(input) + size_of(output)); }
};

}  // namespace tunesmith::softmax
