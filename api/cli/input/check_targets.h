#pragma once
// --check-targets: class indices of a run that are none.

#include <string>
#include <vector>

#include "templates/op.h"

namespace tunesmith::cli {

/// The problem with the option that --check-targets stands for. Throws Error(invalid_argument) for an operation without it.
Problem with_checked_targets(const Op& op, Problem problem);

/// Names the first target that is neither a class nor ignored, and its row; empty when there is none. `arrays` after the
/// run.
std::string bad_targets(const Problem& problem, const std::vector<HostArray>& arrays);

}  // namespace tunesmith::cli
