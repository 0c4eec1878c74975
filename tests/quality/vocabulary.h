#pragma once
// Words that the sources must not use because the field has a standard term.

#include <string>
#include <string_view>
#include <vector>

namespace tunesmith {

/// A word or phrase in lower case, and what to write instead.
struct AvoidedPhrase {
  std::string_view phrase;
  std::string_view instead;
};

/// Lists all avoided phrases.
const std::vector<AvoidedPhrase>& avoided_phrases();

/// Returns one line per avoided phrase in a file: "jit/a.h:3: 'copy engine'; write: TMA".
///
/// Compares whole words regardless of case, also within identifiers (judge_result, JudgeResult). Finds phrases that continue
/// on the next line of a comment.
std::vector<std::string> avoided_phrases_in(std::string_view path, std::string_view contents);

}  // namespace tunesmith
