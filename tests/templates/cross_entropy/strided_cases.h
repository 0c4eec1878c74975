#pragma once
// Problems over a dimension that is not the last, for the kernel tests of cross-entropy.

#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns losses and gradients from lse: few and many positions, vectors of every width, addresses aligned to one element
/// only, padded and permuted strides, broadcast logits, in place, every option alone and many together. There are at least
/// 25 positions, for the edge cases of the inputs.
std::vector<Problem> strided_cross_entropy_problems();

/// Returns a loss in each variant that `device` supports, with and without a gradient and with every kind of partial sums.
std::vector<Case> strided_cross_entropy_variants(const DeviceInfo& device);

}  // namespace tunesmith::test
