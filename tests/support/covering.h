#pragma once
// Leaves out cases that would only repeat combinations that others have. A compiled kernel costs 0.1 to 2 s of a core.

#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/cases.h"

namespace tunesmith::test {

/// Returns indices, ascending, of sets of features that have each feature that any of them has. Takes the set that adds
/// most, as long as any adds something; all if the environment variable TUNESMITH_ALL_CASES is set (`make test-release`).
std::vector<std::size_t> covering_features(const std::vector<std::vector<std::string>>& sets);

/// Returns the indices of cases, by covering_features(), in which each of these occurs that occurs in any case:
/// - each value of each field of a problem;
/// - each pair of an operation and a variant;
/// - each pair of a variant and a field of the problem, with its value if that is a flag or a string, such as a dtype;
/// - each pair of a variant and a value of the configuration;
/// - each pair of a group, such as an architecture, and a variant, an operation or a dtype. `groups`: one for each case, or
/// none.
std::vector<std::size_t> covering_indices(const std::vector<Case>& cases, const std::vector<std::string>& groups = {});

/// Returns the cases at covering_indices().
std::vector<Case> covering(const std::vector<Case>& cases);

/// Returns each `parts`-th case from `part` on: a large set as several tests, which CTest and
/// scripts/gpu_tests.sh run in different processes.
template <class Each>
std::vector<Each> part_of(const std::vector<Each>& cases, std::size_t part, std::size_t parts) {
  std::vector<Each> chosen;
  for (std::size_t i = part; i < cases.size(); i += parts) chosen.push_back(cases[i]);
  return chosen;
}

}  // namespace tunesmith::test
