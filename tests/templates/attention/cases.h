#pragma once
// Problems of attention that the kernel tests go through.

#include <string>
#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Every option alone and all together, odd lengths, head dims and groups, both layouts, strides and misaligned bases, few
/// queries and fully masked ones, packed sequences with empty ones among them. `tensor_cores`: 16-bit problems only.
std::vector<Problem> attention_problems(bool tensor_cores);

/// One configuration of each variant that is valid, the default first, and `more` others.
std::vector<Case> attention_cases(const std::vector<Problem>& problems, const DeviceInfo& device, std::size_t more,
                                  std::uint64_t seed);

}  // namespace tunesmith::test
