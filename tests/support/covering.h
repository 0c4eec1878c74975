#pragma once
// Leaves out cases that would only repeat combinations that others have. A compiled kernel costs 0.1 to 2 s of a core.

#include <cstddef>
#include <string>
#include <vector>

#include "tests/templates/softmax/cases.h"

namespace tunesmith::test {

/// Returns the indices of cases, ascending, in which each of these occurs that occurs in any case:
/// - each value of each field of a problem;
/// - each pair of an operation and a variant;
/// - each pair of a variant and a field of the problem, with its value if that is a flag or a string, such as a dtype;
/// - each pair of a variant and a value of the configuration;
/// - each pair of a group, such as an architecture, and a variant, an operation or a dtype. `groups`: one for each case, or
/// none.
///
/// Returns all indices if the environment variable TUNESMITH_ALL_CASES is set.
std::vector<std::size_t> covering_indices(const std::vector<Case>& cases, const std::vector<std::string>& groups = {});

/// Returns the cases at covering_indices().
std::vector<Case> covering(const std::vector<Case>& cases);

}  // namespace tunesmith::test
