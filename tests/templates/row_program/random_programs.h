#pragma once
// Random well-typed row programs, and inputs for them.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns the text of a correct program: up to 3 inputs [row, col], arrays of other kinds, numbers, reductions of up to 3
/// stages, groups, and outputs of all types. Equal seeds give equal texts.
std::string random_program(std::uint64_t seed);

/// One row of each input, as values of the inputs' types (f32 where they have none): mostly between -2 and 2, with zeros,
/// equal values and, if `special`, infinities and NaN.
std::vector<std::vector<double>> random_inputs(const Program& program, std::int64_t cols, std::uint64_t seed, bool special);

/// Returns the numbers of a program: defaults, or small values.
std::vector<double> numbers_of(const Program& program);

}  // namespace tunesmith::row_program
