#pragma once
// Writes the graph of a row program as a text. Internal to templates/.

#include <string>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns a text that parses to the same graph. Names of definitions are kept where the graph has them; other values that
/// occur more than once are named t1, t2, ...
///
/// Throws Error(invalid_argument) if the text would be longer than a program may be, which takes a monoid with values that
/// occur many times.
std::string text_of(const Program& program);

}  // namespace tunesmith::row_program
