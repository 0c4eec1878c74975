#pragma once
// Checks of a random case that need no compiler: parsing, keys, configurations, sources, launch plans.

#include <optional>
#include <string>

#include "tests/random/case.h"

namespace tunesmith::test {

struct Checked {
  std::string failure{};       ///< empty: all is right
  ParsedProblemPtr problem{};  ///< nullptr: the problem is invalid, as it should be, or a check failed
  Config config{};             ///< complete
};

/// Returns whether both have the same source but for comments.
bool same_code(const SourceParts& a, const SourceParts& b);

/// `sources`: also renders, which takes milliseconds.
Checked check_description(const RandomCase& random_case, const DeviceInfo& device, bool sources);

}  // namespace tunesmith::test
