#pragma once
// Draws strides: padded, permuted, repeated, overlapping. Reads only descriptions.

#include "templates/op.h"
#include "tests/random/chance.h"

namespace tunesmith::test {

/// Returns whether the field holds strides of arrays.
inline bool is_stride(std::string_view field) { return field.find("stride") != std::string_view::npos; }

/// Adds strides of some arrays to the fields of a problem.
void draw_layout(Chance& chance, const Op& op, Fields& given);

}  // namespace tunesmith::test
