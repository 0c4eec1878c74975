#pragma once
// Tests the laws of a program's monoids. Internal to templates/.

#include <string_view>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Tries each monoid in float64 on random and special values: combine(combine(x, y), z) = combine(x, combine(y, z)),
/// combine(x, y) = combine(y, x) (threads own columns that are not neighbours) and combine(identity, x) = x, within the
/// rounding errors of f32. x, y and z are results of combining a few terms, as the operands of the reduction in the program
/// give them: a component whose operand is a constant has only this constant in a term.
///
/// Throws Error(invalid_argument) with the place of the monoid in `text`, the law and the counterexample.
void check_associativity(const Program& program, std::string_view text, std::string_view file = "program");

}  // namespace tunesmith::row_program
