#pragma once
// A normalized problem over rows as plain numbers, and what follows from them. Internal to templates/.

#include <array>
#include <cstdint>
#include <string>

#include "templates/row/options.h"

namespace tunesmith::row {

/// One array of rows.
struct Rows {
  std::int64_t stride = 0;     ///< elements
  std::int64_t alignment = 0;  ///< bytes, of the base address
};

struct Shape {
  std::int64_t rows = 0, cols = 0;
  DType input = DType::f32, output = DType::f32;
  int inputs = 1;  ///< arrays that are read: x, or dy and y
  std::array<Rows, 2> in;
  Rows out;
  bool in_place = false;
  bool writes = true;  ///< rows: else only a few numbers come of each, and out is that of in
  bool logarithm = false;
  bool streams = false;             ///< the operation has kernels for rows that stream through shared memory (pipeline)
  int more_registers = 0;           ///< of a thread, for what an operation does next to the row
  bool keeps_exponentials = false;  ///< in place of the elements that wait, where those are floats: else they are made twice
  int widest = 16;  ///< elements of a vector at most: a configuration's choice for rows that start between two vectors
  Options options;

  bool backward() const noexcept { return inputs == 2; }
  /// Elements per vector: 16 bytes of the widest dtype where rows allow it, less where only that is aligned in all arrays.
  int vector() const noexcept;
  /// Rows may start between two vectors, but at the same place in every array, so that one shift aligns all.
  bool shifted() const noexcept;
  /// Alignment, in elements, of the position from which the columns of a shifted row are counted: a 128-byte line of the
  /// first input, so that a warp touches as few lines as possible; a vector for short rows. 0: not shifted.
  int line() const noexcept;
  /// Elements of the mask that one load takes.
  int mask_vector() const noexcept { return shifted() ? 1 : static_cast<int>(options.mask_vector(vector())); }
  std::int64_t vectors_per_row() const noexcept { return (cols + (shifted() ? line() - 1 : 0) + vector() - 1) / vector(); }
  /// What waits on the chip for one element: of all inputs, widened where a mask is added.
  std::int64_t resident_element_bytes() const noexcept;
  /// Rows differ in how many columns take part.
  bool ragged() const noexcept { return options.causal || options.valid_cols; }
  /// Read plus written, masks not counted.
  std::int64_t traffic_bytes() const noexcept {
    return rows * cols * (inputs * size_of(input) + (writes ? size_of(output) : 0));
  }
  /// What changes the generated text or which configuration is fast, but for rows and cols.
  std::string problem_class() const;

 private:
  std::int64_t widest_vector() const noexcept;
  std::int64_t aligned_vector() const noexcept;
};

}  // namespace tunesmith::row
