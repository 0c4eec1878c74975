#pragma once
// "did you mean": the allowed name that is nearest to the typed one.

#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::cli {

/// Returns the allowed name that is nearest to `typed`; empty if none is near.
std::string nearest(std::string_view typed, const std::vector<std::string>& allowed);

/// "; did you mean 'rows'?" or nothing.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& allowed);

/// "; did you mean 'rows'? Allowed: rows, cols", or "; allowed: rows, cols".
std::string suggestion(std::string_view typed, const std::vector<std::string>& allowed);

/// "a, b, c".
std::string listed(const std::vector<std::string>& names);

}  // namespace tunesmith::cli
