#pragma once
// C++ and CUDA source as tokens: what its meaning depends on, without comments, blanks and line breaks.

#include <string>
#include <string_view>

namespace tunesmith {

/// Returns the tokens of a source one per line, with a blank line after each preprocessor directive. Equal texts mean equal
/// programs, except for what __LINE__ and the stringizing operator make of them.
///
/// Comments, white space, line breaks, line continuations and #line directives are left out. Literals stay as written. The
/// end of a directive counts, and so does the blank between the name of a macro and a parenthesis. Accepts any text: an
/// unfinished comment or literal ends with the source.
std::string tokens_of(std::string_view source);

/// Returns a digest over the tokens: 32 hex digits.
std::string token_digest(std::string_view source);

}  // namespace tunesmith
