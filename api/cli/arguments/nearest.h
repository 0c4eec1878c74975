#pragma once
// "did you mean": the nearest of the words that would have been right.

#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::cli {

/// The allowed word with the least edit distance to `word`; empty when none is near (more than a third of the letters
/// differ, and more than two).
std::string nearest(std::string_view word, const std::vector<std::string>& allowed);

/// "; did you mean 'rows'?" or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& allowed);

/// "a, b, c".
std::string listed(const std::vector<std::string>& words);

}  // namespace tunesmith::cli
