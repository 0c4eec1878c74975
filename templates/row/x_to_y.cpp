#include "templates/row/x_to_y.h"

#include <algorithm>

#include "tunesmith/error.h"

namespace tunesmith::row {

void complete_in_place(const RowsInPlace& input, const RowsInPlace& output) {
  if (input.dtype != output.dtype || input.stride != output.stride)
    throw Error(ErrorCode::invalid_argument, "in_place is 1, but ", input.name, " (", name(input.dtype), ", row stride ",
                input.stride, ") and ", output.name, " (", name(output.dtype), ", row stride ", output.stride,
                ") differ; both must agree");
  input.alignment = output.alignment = std::min(input.alignment, output.alignment);
}

}  // namespace tunesmith::row
