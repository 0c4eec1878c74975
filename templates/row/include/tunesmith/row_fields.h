#pragma once
// Field properties that operations over rows share.

#include <cstdint>
#include <limits>

#include "tunesmith/describe.h"

namespace tunesmith {

inline constexpr std::int64_t max_cols = std::numeric_limits<std::int32_t>::max();

/// Row stride of an output: rows must not overlap.
constexpr FieldFacts output_stride(std::string_view meaning, std::int64_t cols) {
  FieldFacts facts;
  facts.meaning = meaning;
  facts.range = {cols};
  facts.follows = {"cols", cols};
  return facts;
}

/// Row stride of an input: 0 repeats one row.
constexpr FieldFacts input_stride(std::string_view meaning, std::int64_t cols) {
  FieldFacts facts = output_stride(meaning, cols);
  facts.zero_too = true;
  return facts;
}

/// Returns the elements of a contiguous row of `inner` positions; the largest number if that overflows.
constexpr std::int64_t row_elements(std::int64_t cols, std::int64_t inner) noexcept {
  std::int64_t elements = 0;
  return __builtin_mul_overflow(cols, inner, &elements) ? std::numeric_limits<std::int64_t>::max() : elements;
}

/// Returns the properties of a row stride in a problem whose columns are not adjacent: strides may be in any order.
constexpr FieldFacts strided_row(FieldFacts facts, std::int64_t cols, std::int64_t inner) {
  facts.range = {0, std::int64_t{1} << 50};
  facts.zero_too = false;
  facts.follows = {"cols * inner", row_elements(cols, inner)};
  return facts;
}

/// Describes the fields of a problem that reads rows x and writes rows y. The problem has the members
///   rows, cols, dtype, out_dtype, x_row_stride, y_row_stride, x_alignment, y_alignment, in_place, and output().
/// `min_cols`: 0 if rows may be empty. `choices`: the element types.
template <typename Problem, DescriptionVisitor Visitor>
constexpr void describe_x_to_y(Problem& p, Visitor& v, std::int64_t min_cols = 1, Choices choices = float_dtypes) {
  v.field("rows", p.rows, {.meaning = "number of rows", .range = {0}, .required = true, .runtime = true});
  v.field("cols", p.cols,
          {.meaning = "number of columns; kernels are specialized for it", .range = {min_cols, max_cols}, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type of x", .choices = choices});
  v.field("out_dtype", p.out_dtype, {.meaning = "element type of y", .choices = choices, .follows = {"dtype", p.dtype}});
  FieldFacts x_stride = input_stride("elements from one row of x to the next; 0: one row for all", p.cols);
  FieldFacts y_stride = output_stride("elements from one row of y to the next", p.cols);
  if constexpr (requires { p.strided(); }) {
    if (p.strided()) {
      x_stride = strided_row(x_stride, p.cols, p.inner);
      y_stride = strided_row(y_stride, p.cols, p.inner);
    }
  }
  v.field("x_row_stride", p.x_row_stride, x_stride);
  v.field("y_row_stride", p.y_row_stride, y_stride);
  v.field("x_alignment", p.x_alignment, alignment_facts("bytes that the address of x is a multiple of", p.dtype));
  v.field("y_alignment", p.y_alignment, alignment_facts("bytes that the address of y is a multiple of", p.output()));
  v.field("in_place", p.in_place, {.meaning = "y is x"});
}

/// The array x of such a problem.
template <typename Problem>
constexpr ArrayFacts x_facts(const Problem& p, std::string_view meaning) {
  return {.name = "x",
          .dtype = p.dtype,
          .shape = {size(p.rows), size(p.cols)},
          .strides = {p.x_row_stride.value_or(p.cols), 1},
          .alignment = &p.x_alignment,
          .meaning = meaning};
}

/// The array y of such a problem; `x` is the address of x.
template <typename Problem>
constexpr ArrayFacts y_facts(const Problem& p, const void* x, std::string_view meaning) {
  return {.name = "y",
          .role = Role::output,
          .dtype = p.output(),
          .shape = {size(p.rows), size(p.cols)},
          .strides = {p.y_row_stride.value_or(p.cols), 1},
          .alignment = &p.y_alignment,
          .in_place_of = p.in_place ? "x" : "",
          .in_place = &p.in_place,
          .shares = x,
          .meaning = meaning};
}

}  // namespace tunesmith
