#pragma once
// Reductions that are faster in two stages where a row stays on the chip. Internal to templates/.

#include "templates/row_program/program.h"

namespace tunesmith::row_program {

/// Returns an equal program in which each lse of a row is its maximum and then a sum of exponentials, and each moments its
/// mean and then the mean of squared deviations: one exchange between threads more, a third of the arithmetic, and
/// exponentials and deviations that the outputs use again are computed once. Rows that are read once for each stage keep the
/// single reduction.
Program with_separate_stages(const Program& program);

}  // namespace tunesmith::row_program
