#pragma once
// Problems that read rows x and write rows y (describe_x_to_y in tunesmith/row_fields.h): their shape, and arrays in place.
// Internal to templates/.

#include <string_view>

#include "templates/row/shape.h"

namespace tunesmith::row {

/// The fields of an array of rows that may be in place.
struct RowsInPlace {
  std::string_view name;
  DType dtype;
  std::int64_t stride;
  std::int64_t& alignment;
};

/// Throws Error(invalid_argument) unless both dtypes are f64, or none: kernels compute in one precision. `name`: of the
/// second one's field.
void check_wide(DType dtype, std::string_view name, DType other);
/// Gives both arrays the smaller alignment. Throws Error(invalid_argument) if their dtypes or strides differ.
void complete_in_place(const RowsInPlace& input, const RowsInPlace& output);

/// The part of complete() that concerns x and y.
template <typename Problem>
void complete_x_to_y(Problem& p) {
  if (p.in_place)
    complete_in_place({"x", p.dtype, *p.x_row_stride, p.x_alignment}, {"y", p.output(), *p.y_row_stride, p.y_alignment});
}

template <typename Problem>
Shape x_to_y_shape(const Problem& p) {
  Shape shape;
  shape.rows = p.rows;
  shape.cols = p.cols;
  shape.input = p.dtype;
  shape.output = p.output();
  shape.in[0] = {*p.x_row_stride, p.x_alignment};
  shape.out = {*p.y_row_stride, p.y_alignment};
  shape.in_place = p.in_place;
  return shape;
}

}  // namespace tunesmith::row
