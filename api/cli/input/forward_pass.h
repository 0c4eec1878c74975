#pragma once
// Computes the forward results that a backward pass needs, unless files contain them.

#include <vector>

#include "api/cli/input/arrays.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

/// Fills o and lse of an attention_backward problem by running attention on the other inputs; does nothing for other
/// problems, or if files give both. Throws Error(invalid_argument) if a file gives only one of them.
void run_forward_pass(Engine& engine, const Problem& problem, const std::vector<HostArray>& arrays, const InputFiles& files);

}  // namespace tunesmith::cli
