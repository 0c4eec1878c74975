#pragma once
// Fields of problems whose columns need not be adjacent: arrays of the shape (rows, cols, inner), reduced over `cols`.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tunesmith/row_fields.h"

namespace tunesmith {

/// Strides of one array of such a problem, in elements.
struct ColumnStrides {
  const std::optional<std::int64_t>& row;
  const std::optional<std::int64_t>& col;  ///< absent: inner
  std::int64_t inner;
};

/// Returns the properties of the field `inner`.
constexpr FieldFacts inner_facts() {
  FieldFacts facts;
  facts.meaning = "positions of a column: arrays are (rows, cols, inner), and each position is a row of its own";
  facts.range = {1, max_cols};
  return facts;
}

/// Returns the properties of a stride between columns.
constexpr FieldFacts col_stride(std::string_view meaning, std::int64_t inner) {
  FieldFacts facts;
  facts.meaning = meaning;
  facts.range = {0, std::int64_t{1} << 50};
  facts.follows = {"inner", inner};
  return facts;
}
/// Returns the properties of a stride between positions.
constexpr FieldFacts inner_stride(std::string_view meaning) {
  FieldFacts facts;
  facts.meaning = meaning;
  facts.range = {0, std::int64_t{1} << 50};
  return facts;
}

/// Gives an array the shape (rows, cols, inner) and its strides.
constexpr void set_strided_shape(ArrayFacts& facts, const std::int64_t& rows, const std::int64_t& cols,
                                 const std::int64_t& inner, const ColumnStrides& strides) {
  facts.shape = {size(rows), size(cols), size(inner)};
  facts.strides = {strides.row.value_or(row_elements(cols, inner)), strides.col.value_or(inner), strides.inner};
}

}  // namespace tunesmith
