#pragma once
// Finds statements, brackets and words in the text of templates, as clang-format writes them. Internal to templates/.

#include <cstddef>
#include <string_view>

namespace tunesmith::scan {

using Position = std::size_t;
inline constexpr Position nowhere = std::string_view::npos;

bool in_word(char c);
bool is_blank(char c);
/// Returns the first position at or after `at` that is neither blank nor in a comment nor in a preprocessor line.
Position skip_blanks(std::string_view text, Position at);
std::string_view word_at(std::string_view text, Position at);
/// Returns the next position of `word` as a whole word in code, from `at` on.
Position find_word(std::string_view text, std::string_view word, Position at);
/// Returns the position after the bracket that closes the one at `at`.
Position after_bracket(std::string_view text, Position at);
/// Returns the position of the first of `ends` outside of brackets, from `at` on. A bracket that closes more than it opened
/// ends the search, too. Template arguments are brackets: clang-format writes spaces around the comparison only.
Position find_outside(std::string_view text, Position at, std::string_view ends);
/// Returns the end of the statement that begins after blanks at `at`.
Position end_of_statement(std::string_view text, Position at);
std::string_view trimmed(std::string_view text);

}  // namespace tunesmith::scan
