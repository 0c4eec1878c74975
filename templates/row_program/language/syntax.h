#pragma once
// The statements of a row program as they are written, before names and types are checked. Internal to templates/.

#include <optional>
#include <string_view>
#include <vector>

#include "templates/row_program/language/diagnostic.h"

namespace tunesmith::row_program {

struct Name {
  std::string_view text;
  Place place;
};

/// Part of an expression; operands are indices into Syntax::expressions.
struct Expression {
  enum class Form : std::uint8_t {
    number,
    name,
    call,      ///< text(operands...)
    operation  ///< text is the operator: "-" or "!" of one operand, "?" of three, others of two
  };
  Form form = Form::number;
  std::string_view text;
  double number = 0;
  std::vector<int> operands;
  int depth = 1;  ///< levels of nesting
  Place place;
};

struct Dimensions {
  Kind kind = Kind::scalar;
  int group = 0;  ///< N of [row, col/N], or k of [row, k]
  Place place;
};

struct Statement {
  enum class Form : std::uint8_t {
    definition,  ///< name [: type] = expression
    input,       ///< in names : type dimensions
    number,      ///< num names [: type] [= expression]
    function,    ///< fn name(parameters) = expression
    monoid,      ///< monoid name((parameters), (parameters)) = (expressions) identity (expressions)
    reduction,   ///< reducer[group] names = expressions, of `called` for reduce
    output,      ///< out name : type dimensions = expression, or colsum
  };
  Form form = Form::definition;
  Name keyword;             ///< empty for a definition
  std::vector<Name> names;  ///< defined here
  std::optional<Name> type;
  std::optional<Dimensions> dimensions;
  std::vector<Name> parameters;  ///< of a monoid: first the left ones, then the right ones
  Name called;
  std::vector<int> expressions, identity;
  Place value_place;  ///< of the first expression
};

struct Syntax {
  std::vector<Expression> expressions;
  std::vector<Statement> statements;
};

/// Parses a text. Throws Error(invalid_argument) for what is not a sequence of statements.
Syntax syntax_of(const SourceText& source);

/// Reports whether a word can start a statement, and so cannot be the name of a value.
bool is_keyword(std::string_view word);
/// Returns all of these words.
std::vector<std::string_view> keywords();

}  // namespace tunesmith::row_program
