#pragma once
// Problems and configurations of the cross-entropy family for the kernel tests.

#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns problems with different shapes, dtypes, strides and gradients, every option alone and many together, for all
/// operations of the family. They have few rows, including all edge-case rows.
std::vector<Problem> cross_entropy_problems();

/// Returns a loss in each variant that `device` supports, with and without a gradient, with one and with several blocks per
/// row.
std::vector<Case> cross_entropy_variants(const DeviceInfo& device);

}  // namespace tunesmith::test
