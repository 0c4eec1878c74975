#pragma once
// The functions of row programs on single values, in float64 or long double. Internal to templates/.

#include <array>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns the number of operands of an operation. round_to and uniform have one.
int operand_count(Operation operation) noexcept;

/// Reports whether the operands may be exchanged.
bool is_commutative(Operation operation) noexcept;

/// Applies a function other than a leaf, round_to and uniform. Booleans are 0 and 1. The result is not rounded to the type
/// of arithmetic. Real: double or long double.
template <typename Real>
Real apply(Operation operation, const std::array<Real, 3>& operands) noexcept;

}  // namespace tunesmith::row_program
