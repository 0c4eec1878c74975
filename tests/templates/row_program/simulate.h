#pragma once
// Evaluates a row program in f32, as a kernel does.

#include <cstdint>
#include <span>
#include <vector>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns a row of each output, rounded to the type of the output; the terms of column sums are not rounded. Each operation
/// is rounded to f32; sums are added in vectors of 8 and then compensated.
std::vector<std::vector<double>> simulate(const Program& program, std::int64_t rows, std::int64_t cols, std::int64_t row,
                                          const std::vector<double>& numbers,
                                          const std::vector<std::vector<double>>& inputs);

}  // namespace tunesmith::row_program
