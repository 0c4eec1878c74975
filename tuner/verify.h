#pragma once
// Verifies a configuration on this device: poisoned outputs and workspaces, canaries around outputs, edge-case rows, two
// runs (for races).

#include <functional>
#include <span>

#include "tuner/build.h"

namespace tunesmith {

/// Changes inputs after fill_inputs() has made edge cases.
using ChangeInputs = std::function<void(std::span<const HostArray> arrays)>;

/// Runs a verification problem on `executable` built for it and compares with float64. Two runs must agree bit for
/// bit. first_failure names what went wrong (a canary, an unwritten output, a difference between runs, an element).
CheckResult verify(const ParsedProblem& verification_problem, const Executable& executable, Device& device,
                   std::uint64_t seed, const ChangeInputs& change = {});

}  // namespace tunesmith
