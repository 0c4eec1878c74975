#pragma once
// The gradient of a row program, which is a row program. Internal to templates/.

#include <string>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns the text of the program that computes the gradient of a scalar function of the outputs.
///
///   inputs    the program's inputs that the gradient needs, and d<output> for each output with a gradient: the derivative
///             with respect to that output, of its kind; of its type, or of the first input's if the output is quantized
///   outputs   d<input> for each [row, col], [row] and [row, col/N] input of a floating-point type, of its type (f32 for
///             e4m3 and e5m2); `colsum d<input>` for each [col] input
///
/// Values of the forward program are computed again. Numbers and [] inputs get no gradient. Rounding has the derivative 1
/// (as if it were the identity), floor, round and comparisons 0. max, min and their reductions pass the derivative to the
/// argument; a reduction to the lowest column of equal ones. abs has the derivative 0 at 0, max(a, b) at a == b the
/// derivative of b.
///
/// Throws Error(invalid_argument) if a value with a gradient is a result of a monoid, if no output has a gradient, or if the
/// gradient exceeds a limit of programs.
std::string gradient_text(const Program& program);

}  // namespace tunesmith::row_program
