#pragma once
// From the text of a row program to its graph. docs/row-programs.md describes the language. Internal to templates/.

#include <string_view>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Limits of a program.
struct Limits {
  static constexpr int full_inputs = 4, full_outputs = 3;
  static constexpr int other_arrays = 6;  ///< of each kind; inputs and outputs together
  static constexpr int numbers = 8;
  static constexpr int stages = 3;
  static constexpr int components = 4;  ///< of a monoid
  static constexpr int carried = 2;     ///< values of topk in addition to the one that decides
};

/// Parses and checks a program, its monoids included (check_associativity()). `file` is its name in errors.
///
/// Throws Error(invalid_argument) with file, line, column, what is wrong and what is allowed, followed by the source line
/// and a line with a caret.
Program parse(std::string_view text, std::string_view file = "program");

/// Returns the program for a problem of this dtype (f64, f32, f16 or bf16): arrays and conversions of type `float` get it.
/// Constants keep the digits of f64 if the program computes in f64, and are rounded to f32 otherwise.
Program with_dtype(const Program& program, Type dtype);

}  // namespace tunesmith::row_program
