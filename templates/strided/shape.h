#pragma once
// A problem over a strided dimension as plain numbers, and values derived from them. Internal to templates/.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tunesmith/types.h"

namespace tunesmith::strided {

/// An array of the shape (rows, cols, inner). Strides in elements, alignment of the base address in bytes.
struct Array {
  std::string_view name;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, col_stride = 0, inner_stride = 0;
  std::int64_t alignment = 0;

  /// Returns whether neighbouring positions, of all rows if a row has one, are adjacent.
  bool adjacent_positions(std::int64_t inner) const noexcept { return (inner > 1 ? inner_stride : row_stride) == 1; }
};

struct Shape {
  std::int64_t rows = 0, cols = 0, inner = 1;
  int inputs = 1;
  std::array<Array, 4> in;
  Array out;
  int more_outputs = 0;
  std::array<Array, 3> more_out;
  bool in_place = false;
  double scale = 1;
  bool logarithm = false;
  bool safe = false;
  bool writes = true;        ///< an array of this shape; else `out` equals in[0]
  int max_vector = 16;       ///< elements per vector; fewer where each position takes many registers
  int more_registers = 0;    ///< per position, in addition to a softmax's
  int reduction_bytes = 12;  ///< shared memory per position for the reductions over threads: a float and a pair of floats
  int part_bytes = 16;       ///< of the partial of a slice of the columns, per position

  // Of a user's program for each position.
  bool is_program = false;
  bool computes_in_f64 = false;  ///< a row program with an array of f64, which may be any
  int stages = 1;                ///< of reductions; a pass over the inputs for each, unless columns are resident
  int column_sums = 0;           ///< outputs that are sums over all positions, one for each column
  int totals = 0;                ///< outputs that are sums over all positions and columns
  int program_registers = 0;     ///< per position: of partial results, values of a row, and elements

  bool backward() const noexcept { return !is_program && inputs == 2; }
  bool sums_rows() const noexcept { return column_sums > 0 || totals > 0; }
  /// Returns the widest type of the inputs; of the outputs.
  DType input() const noexcept { return widest(in.data(), inputs); }
  DType output() const noexcept;
  /// Returns whether elements are f64, and values and sums double.
  bool wide() const noexcept { return input() == DType::f64 || computes_in_f64; }
  /// Returns the elements per vector: neighbouring positions of a column, at most 16 bytes of the widest dtype and
  /// max_vector.
  int vector() const noexcept;
  /// Returns the number of vectors of one column, over all rows.
  std::int64_t vectors() const noexcept { return rows * (inner / vector()); }
  /// Returns the bytes read and written.
  std::int64_t traffic_bytes() const noexcept;
  /// Returns the bytes of one vector of one column, of all inputs.
  std::int64_t vector_bytes() const noexcept { return vector() * input_bytes(); }
  /// Returns the bytes of an element of all inputs; of all outputs of this shape.
  std::int64_t input_bytes() const noexcept;
  std::int64_t output_bytes() const noexcept;
  /// Returns the registers of a vector of one column, of all inputs.
  std::int64_t input_words() const noexcept;
  /// Returns the bucket of the number of positions, capped where every GPU is full.
  std::int64_t rows_bucket() const noexcept;
  /// Returns everything except rows and cols that affects the generated source or the fastest configuration.
  std::string problem_class() const;

 private:
  static DType widest(const Array* arrays, int count) noexcept;
};

/// Throws Error(invalid_argument) if two elements of an output share an address.
void check_output(const Array& array, std::int64_t rows, std::int64_t cols, std::int64_t inner);
/// Gives both alignments the smaller one. Throws Error(invalid_argument) if dtypes or strides differ.
void complete_in_place(const Array& input, std::int64_t& input_alignment, const Array& output,
                       std::int64_t& output_alignment);

}  // namespace tunesmith::strided
