#pragma once
// Splits C++ and CUDA source into tokens, without comments and white space, so that digests depend only on its meaning.

#include <string>
#include <string_view>

namespace tunesmith {

/// Returns the tokens of a source, one per line, with a blank line after each preprocessor directive. Sources with equal
/// tokens are equal programs, except for __LINE__ and the stringizing operator.
///
/// Omits comments, white space, line continuations and #line directives; keeps literals unchanged. Keeps the end of a
/// directive, and the blank between a macro's name and a parenthesis. Accepts any text: an unfinished comment or literal
/// ends with the source.
std::string tokens_of(std::string_view source);

/// Returns the digest of the tokens: 32 hex digits.
std::string token_digest(std::string_view source);

}  // namespace tunesmith
