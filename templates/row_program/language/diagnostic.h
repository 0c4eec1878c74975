#pragma once
// Errors of a program's text: place, message, source line, caret. Internal to templates/.

#include <string>
#include <string_view>

#include "templates/row_program/language/program.h"
#include "tunesmith/error.h"

namespace tunesmith::row_program {

/// The text of a program and the name that errors give it.
struct SourceText {
  std::string_view text;
  std::string_view file;

  /// Throws Error(code): `file:line:column: message`, the source line, and a caret below the column.
  [[noreturn]] void fail(Place place, const std::string& message, ErrorCode code = ErrorCode::invalid_argument) const;
};

}  // namespace tunesmith::row_program
