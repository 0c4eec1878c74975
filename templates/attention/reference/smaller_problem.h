#pragma once
// Problems that run the same binary as a large one. Internal to templates/.

#include "templates/attention/settings.h"

namespace tunesmith::attention {

/// Returns a problem with the same source on few rows, ragged in every direction. `problem` is complete.
AttentionProblem smaller_problem(const AttentionProblem& problem);

/// Returns strides with gaps for the small problem, if `tensor`, which has this side's shape in the large one, is not
/// contiguous: its own strides would reach as far as the large array. They allow the same accesses and broadcast the same
/// dimensions.
AttentionArrayStrides narrow_strides(const Settings& large, const Settings& small, Side side, const Tensor& tensor);
/// Returns the alignment that allows the same accesses, and no wider ones: sizes of 1 in either problem hide a stride.
std::int64_t narrow_alignment(const Settings& large, Side side, const Tensor& tensor);

}  // namespace tunesmith::attention
