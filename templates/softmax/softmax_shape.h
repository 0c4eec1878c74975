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

  /// Elements per vector: 16 bytes of the wider dtype where rows allow it, less where only that is aligned in both arrays.
  int vector() const noexcept;
  /// Rows may start between two vectors, but at the same place in x and y, so that one shift aligns both.
  bool shifted() const noexcept;
  std::int64_t vectors_per_row() const noexcept { return (cols + (shifted() ? vector() - 1 : 0) + vector() - 1) / vector(); }
  /// Of x.
  std::int64_t vector_bytes() const noexcept { return vector() * size_of(input); }
  /// Read plus written.
  std::int64_t traffic_bytes() const noexcept { return rows * cols * (size_of(input) + size_of(output)); }

 private:
  std::int64_t widest_vector() const noexcept;
  std::int64_t aligned_vector() const noexcept;
};

}  // namespace tunesmith::softmax
