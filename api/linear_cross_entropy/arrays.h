#pragma once
// The check of the arrays of a launch of linear cross-entropy. Internal.

#include "tunesmith/linear_cross_entropy.h"

namespace tunesmith {

/// Throws Error(invalid_argument) if an array is null, misaligned, overlaps with an output, or is not part of the problem.
void check_arrays(const LinearCrossEntropyProblem& problem, const LinearCrossEntropyArrays& arrays,
                  std::size_t workspace_bytes);

}  // namespace tunesmith
