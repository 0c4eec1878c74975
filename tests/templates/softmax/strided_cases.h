#pragma once
// Problems over a dimension that is not the last, for the kernel tests of the softmax family.

#include <cstdint>
#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns problems of the four operations: few and many positions, vectors of every width, addresses aligned to one element
/// only, padded and permuted strides, broadcast inputs, in place, scaled, safe, all pairs of dtypes, one column.
/// There are at least `positions` positions, for the edge cases of the inputs.
std::vector<Problem> strided_problems(std::int64_t positions);

}  // namespace tunesmith::test
