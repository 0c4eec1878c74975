#pragma once
// Finds sums that need no compensation. Internal to templates/.

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Vectors of a row in a thread, at most, for plain sums and for moments around a pivot.
inline constexpr int few_vectors = 32;
/// Roundings that a term goes through: plain float additions of a vector of 16 elements, of `few_vectors` of them, of lanes,
/// of warps, and of the blocks of a cluster; and the multiplication by a reciprocal that makes a sum a mean.
inline constexpr double plain_sum_roundings = 15 + few_vectors + 5 + 5 + 4 + 3;

/// Reports whether plain sums are accurate enough: arrays [row, col] have at most 16 bits, and no output has more. Outputs
/// of f32 next to outputs [row, col] of 8 bits are their scales.
bool allows_plain_sums(const Program& program);

}  // namespace tunesmith::row_program
