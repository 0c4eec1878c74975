#include "templates/row/x_to_y.h"

#include <algorithm>

#include "tunesmith/error.h"

namespace tunesmith::row {

void check_wide(DType dtype, std::string_view name, DType other) {
  if ((dtype == DType::f64) == (other == DType::f64)) return;
  throw Error(ErrorCode::invalid_argument, name, " is ", tunesmith::name(other), ", but dtype is ", tunesmith::name(dtype),
              "; allowed: ", dtype == DType::f64 ? "f64" : "f32, f16, bf16");
}

void complete_in_place(const RowsInPlace& input, const RowsInPlace& output) {
  if (input.dtype != output.dtype || input.stride != output.stride)
    throw Error(ErrorCode::invalid_argument, "in_place is 1, but ", input.name, " (", name(input.dtype), ", row stride ",
                input.stride, ") and ", output.name, " (", name(output.dtype), ", row stride ", output.stride,
                ") differ; both must agree");
  input.alignment = output.alignment = std::min(input.alignment, output.alignment);
}

}  // namespace tunesmith::row
