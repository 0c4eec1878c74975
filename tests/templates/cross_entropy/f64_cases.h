#pragma once
// Problems and configurations of cross-entropy in f64 for the kernel tests.

#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns the losses and gradients of cross_entropy_problems() and strided_cross_entropy_problems() with logits of f64:
/// every option, layout and reduction.
std::vector<Problem> f64_cross_entropy_problems();

/// Returns a loss in each variant that `device` supports, with and without a gradient, with adjacent columns and others, and
/// gradients from lse.
std::vector<Case> f64_cross_entropy_variants(const DeviceInfo& device);

}  // namespace tunesmith::test
