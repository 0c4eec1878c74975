#pragma once
// Problems of attention's backward pass for the kernel tests.

#include <string>
#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns the problems of attention_problems(), with gradients of lse, sinks and ALiBi slopes where they have them, and
/// problems with strided and misaligned gradients, and with a mask_mod. With `tensor_cores`, only 16-bit problems.
std::vector<Problem> backward_problems(bool tensor_cores);

/// Returns one configuration of each valid variant, the default first, and `more` others.
std::vector<Case> backward_cases(const std::vector<Problem>& problems, const DeviceInfo& device, std::size_t more,
                                 std::uint64_t seed);

}  // namespace tunesmith::test
