#pragma once
// Arrays with one element for each column, such as weights: the host's part of row/columns.cuh. Internal to templates/.

#include <string>

#include "templates/row/config.h"
#include "templates/row/shape.h"

namespace tunesmith::row {

struct Columns {
  bool present = false;
  DType dtype = DType::f32;
  std::int64_t alignment = 0;  ///< bytes, of the address

  /// Elements that one load takes in rows of this shape.
  int vector(const Shape& shape) const noexcept;
  /// The type that RowFeatures names: "Columns<tunesmith::bf16, 8>" or "NoColumns".
  std::string type(const Shape& shape) const;
  /// The array as a part of KeyParts::problem_class: ",weight=bf16:8", or nothing.
  std::string problem_class(const std::string& name, const Shape& shape) const;
};

/// Returns whether a kernel with its rows on the chip loads arrays of columns while it reduces rows, instead of after the
/// stores of each vector: where threads have registers left, or `always`. On an H200, rows with weights take 0.82 to 0.99 of
/// the time (row_program/NOTES.md, "Weights are loaded before the reductions").
bool loads_columns_early(const TypedConfig& config, const Shape& shape, bool always = false);
/// Returns the type of an array of columns that is loaded early.
std::string loaded_early(std::string columns_type);

}  // namespace tunesmith::row
