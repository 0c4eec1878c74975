#pragma once
// Output of `tunesmith tune`.

#include <string>
#include <vector>

#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {

/// Prints the facts of one result (tuning_facts()) and the fastest trials.
void print(const Problem& problem, const Json& result);

/// Returns a line for each problem. Problems without a result failed and are omitted.
std::string results_table(const std::vector<Problem>& problems, const std::vector<Json>& results);

}  // namespace tunesmith::cli
