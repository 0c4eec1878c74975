#pragma once
// Targets of a run that are neither a class nor ignore_index.

#include <string>
#include <vector>

#include "templates/op.h"

namespace tunesmith::cli {

/// Names the first invalid target and its row; empty if there is none. `arrays` come from a finished run with check_targets
/// = 1.
std::string bad_targets(const Problem& problem, const std::vector<HostArray>& arrays);

}  // namespace tunesmith::cli
