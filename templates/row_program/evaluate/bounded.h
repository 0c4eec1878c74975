#pragma once
// Values in float64, each with a bound on the error that a kernel in f32 may make; and values in long double, with one for
// kernels in f64. Internal to templates/.
//
// The bound is a running error bound (Wilkinson; Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3).
// With u = 2^-24, an operation in f32 computes f(a + da, b + db)(1 + d), |d| <= k u: k = 1 for arithmetic, and
// function_error() for other functions. Given |da| <= A and |db| <= B, the result differs from f(a, b) by at most the change
// of f over these intervals plus k u |f| and half of the smallest denormal number. A kernel may also fuse a product and a
// sum, reassociate a sum, or store an intermediate value. Each adds at most another rounding of the same size; four times
// each rounding is allowed for that. The factor is applied where a rounding occurs and not at the end, so that a
// discontinuity (a comparison, a rounding to fp8) within the bound contributes one step and not four.
//
// For kernels in f64, u = 2^-53, and the evaluation in long double has roundings of its own, of 2^-64 or less in each
// operation: 2^-11 of the kernel's, and its functions have at most 2 units in their last place, as the kernel's have. A
// kernel has at most two roundings for each that is counted (its own, and a stored or reassociated value), so that four
// times each rounding covers both sides: 2 + 2^-10 <= 4. Where an evaluation accumulates many terms, its roundings are added
// (evaluation_rounding()). long double has a wider exponent than f64, as float64 has than f32: overflow of the kernel is in
// range here.
//
// A result that is then rounded to the type of an output is right if it lies between the rounded ends of the interval, which
// is an error of at most the bound and half a unit of the type (accepts()).

#include <cmath>
#include <limits>
#include <type_traits>

#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// An interval value - bound .. value + bound. A boolean is 0 or 1; with a bound of 1 it may be either.
template <typename Real>
struct BoundedOf {
  Real value = 0, bound = 0;
};
using Bounded = BoundedOf<double>;

/// The bound of a value that may be anything, NaN included.
inline constexpr double anything = std::numeric_limits<double>::infinity();

/// The arithmetic of the kernels whose results an evaluation in Real bounds: f32 for double, f64 for long double.
template <typename Real>
struct Arithmetic {
  static constexpr Real unit = 0x1p-24;            ///< relative error of a rounding
  static constexpr Real half_denormal = 0x1p-150;  ///< absolute error of a rounding to a denormal number
  static constexpr Real most = 0x1.ffffffp127;     ///< from here numbers round to infinity
  static constexpr Real whole = 0x1p24;            ///< integers up to here are exact
  static constexpr Type type = Type::f32;
};
template <>
struct Arithmetic<long double> {
  static constexpr long double unit = 0x1p-53L, half_denormal = 0x1p-1075L, most = 0x1.fffffffffffff8p1023L, whole = 0x1p53L;
  static constexpr Type type = Type::f64;
};

/// Returns the rounding error of an evaluation that adds `terms` terms with this sum of magnitudes. In float64 it is far
/// below a kernel's in f32, and not counted.
template <typename Real>
Real evaluation_rounding(Real terms, Real magnitude) noexcept {
  if constexpr (sizeof(Real) > sizeof(double))
    return std::isfinite(magnitude) ? terms * magnitude * std::numeric_limits<Real>::epsilon() : 0;
  else
    return 0;
}

/// The error of a function in a kernel: (constant + of_argument |x|) unit |f(x)| + absolute.
template <typename Real>
struct FunctionError {
  Real constant = 1, of_argument = 0, absolute = Arithmetic<Real>::half_denormal;
};

/// Returns the error that kernels may make in an operation. Device functions are tested against this table.
///   exp      2 units in the last place, and exp2(x log2(e)) with a rounded product; results below 2^-126 are 0
///   sigmoid  an exponential, a sum and a quotient
///   others   2 units in the last place, as CUDA's mathematical functions
/// In f64 exp and sigmoid have denormal results.
template <typename Real = double>
FunctionError<Real> function_error(Operation operation) noexcept;

/// Returns the error that is allowed for a rounding of a kernel: four times |result| unit `roundings` and the denormal
/// spacing.
template <typename Real>
Real allowed_rounding(Real result, std::type_identity_t<Real> roundings = 1) noexcept;

/// Applies a function other than a leaf, round_to and uniform. `nonnegative`: the kernel's operand of a square root cannot
/// be negative, because it is a sum of squares, for example.
template <typename Real>
BoundedOf<Real> apply(Operation operation, const BoundedOf<Real>& a, const std::type_identity_t<BoundedOf<Real>>& b,
                      const std::type_identity_t<BoundedOf<Real>>& c, bool nonnegative) noexcept;

/// Rounds to an element type and back; f32 is the type of the kernel's arithmetic.
template <typename Real>
BoundedOf<Real> round_to_type(Type type, const BoundedOf<Real>& value) noexcept;

/// Makes results beyond the range of the kernel's arithmetic infinite, and uncertain ones `anything`.
template <typename Real>
BoundedOf<Real> in_range(Real value, Real bound) noexcept;

/// Reports whether an element of an output is right: `result` lies between the rounded ends of the interval.
template <typename Real>
bool accepts(Type type, double result, const BoundedOf<Real>& expected) noexcept;

}  // namespace tunesmith::row_program
