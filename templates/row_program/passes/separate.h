#pragma once
// Reductions that are faster in two stages where a row stays on the chip. Internal to templates/.

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Options of kernels with their rows on the chip. Both are for few columns in each thread.
struct OnChip {
  bool moments_at_once = false;  ///< moments of a row stay one reduction (row/reductions/moments.cuh)
  bool plain_sums = false;       ///< sums without compensation (plain_sums.h)
};

/// Returns an equal program for rows on the chip. Each lse of a row is its maximum and then a sum of exponentials, and each
/// moments its mean and then the mean of squared deviations: one exchange between threads more, a third of the arithmetic,
/// and exponentials and deviations that the outputs use again are computed once. Rows that are read once for each stage keep
/// the single reduction.
Program with_separate_stages(const Program& program, OnChip kernel = {});

}  // namespace tunesmith::row_program
