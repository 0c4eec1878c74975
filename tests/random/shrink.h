#pragma once
// Makes a failing case smaller.

#include <string>

namespace tunesmith::test {

/// Leaves out fields and halves sizes as long as the case fails, for a minute at most. Each attempt is a process of its own.
/// Returns the line of the smallest case that fails.
std::string shrunk(const std::string& line, const std::string& device);

}  // namespace tunesmith::test
