#pragma once
// Splits the text of a row program into tokens. Internal to templates/.

#include <string_view>
#include <vector>

#include "templates/row_program/language/diagnostic.h"

namespace tunesmith::row_program {

enum class TokenKind : std::uint8_t {
  name,
  number,
  symbol,
  end_of_statement,  ///< `;`, or the end of a line on which a statement can end
  end_of_text,
};

struct Token {
  TokenKind kind = TokenKind::end_of_text;
  std::string_view text;
  double number = 0;
  Place place;
};

/// Returns the tokens of a text; the last one is end_of_text. A line continues inside brackets and after an operator or a
/// comma. Throws Error(invalid_argument) for a character or a number that the language does not have.
std::vector<Token> tokens_of(const SourceText& source);

}  // namespace tunesmith::row_program
