#pragma once
// Launches of a random case besides the verification: wrong addresses, and the same launch in a captured graph.

#include <string>

#include "jit/executable.h"
#include "tests/random/case.h"

namespace tunesmith::test {

/// Launches with a null, misaligned or overlapping address must throw an error that names the array, and write nothing.
/// Returns what is wrong.
std::string check_addresses(const ParsedProblem& problem, const Executable& executable, Device& device, std::uint64_t seed);

/// Launches twice, and in a captured graph on a GPU, and compares bit by bit unless sums are in any order. Returns what is
/// wrong.
std::string check_repeats(const ParsedProblem& problem, const Executable& executable, Device& device, std::uint64_t seed,
                          bool graph);

}  // namespace tunesmith::test
