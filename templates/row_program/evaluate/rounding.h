#pragma once
// Rounding to the element types of row programs, in float64. Internal to templates/.

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Returns the value of `type` that is nearest to `value`, ties to even, denormals included.
///
/// f64, f32, f16 and bf16 overflow to infinity as conversions of IEEE 754 do. e4m3 (largest 448), e5m2 (57344), i8 and i32
/// saturate, infinities included, as cvt with .satfinite and .sat does. NaN stays NaN, and is 0 in i8 and i32. A boolean is
/// not rounded.
double round_to_type(Type type, double value) noexcept;
/// Rounds once, to the element type.
double round_to_type(Type type, long double value) noexcept;

}  // namespace tunesmith::row_program
