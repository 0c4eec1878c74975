#pragma once
// Problems of attention for the kernel tests.

#include <string>
#include <vector>

#include "tests/support/cases.h"

namespace tunesmith::test {

/// Returns problems with every option alone and all together, odd lengths, head dims and groups, both layouts, strides and
/// misaligned bases, few queries, fully masked queries, and packed sequences, some of them empty. With `tensor_cores`, only
/// 16-bit problems.
std::vector<Problem> attention_problems(bool tensor_cores);

/// Returns one configuration of each valid variant, the default first, and `more` others.
std::vector<Case> attention_cases(const std::vector<Problem>& problems, const DeviceInfo& device, std::size_t more,
                                  std::uint64_t seed);

}  // namespace tunesmith::test
