#pragma once
// Problems and configurations of the cross-entropy family that the kernel tests go through.

#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Shapes, dtypes, strides and gradients of the loss; every option alone and many together, in turns; the other operations
/// of the family. Few rows, all awkward ones among them.
std::vector<Problem> cross_entropy_problems();

/// A loss in each variant that `device` has, with and without a gradient, on rows that are shared and rows that are not.
std::vector<Case> cross_entropy_variants(const DeviceInfo& device);

}  // namespace tunesmith::test
