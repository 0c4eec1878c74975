#pragma once
// Where packed sequences start is trusted by kernels; what a file says is looked at first.

#include <vector>

#include "templates/op.h"

namespace tunesmith::cli {

/// Throws Error(invalid_argument) that names the first entry of cu_seqlens_q or cu_seqlens_kv that is no start of a sequence
/// of the problem: they begin with 0, do not fall, leave no sequence longer than seq_q or seq_kv, and end within total_q or
/// total_kv. Nothing for problems without these arrays.
void check_starts(const Problem& problem, const std::vector<HostArray>& arrays);

}  // namespace tunesmith::cli
