#pragma once
// Values in float64, each with a bound on the error that a kernel in f32 may make. Internal to templates/.
//
// The bound is a running error bound (Wilkinson; Higham, "Accuracy and Stability of Numerical Algorithms", section 3.3).
// With u = 2^-24, an operation in f32 computes f(a + da, b + db)(1 + d), |d| <= k u: k = 1 for arithmetic, and
// function_error() for other functions. Given |da| <= A and |db| <= B, the result differs from f(a, b) by at most the change
// of f over these intervals plus k u |f| and half of the smallest denormal number. A kernel may also fuse a product and a
// sum, reassociate a sum, or store an intermediate value, none of which adds more than another rounding of the same size;
// four times each rounding is allowed for that. The factor is applied where a rounding occurs and not at the end, so that a
// discontinuity (a comparison, a rounding to fp8) within the bound contributes one step and not four.
//
// A result that is then rounded to the type of an output is right if it lies between the rounded ends of the interval, which
// is an error of at most the bound and half a unit of the type (accepts()).

#include <limits>

#include "templates/row_program/program.h"

namespace tunesmith::row_program {

/// An interval value - bound .. value + bound. A boolean is 0 or 1; with a bound of 1 it may be either.
struct Bounded {
  double value = 0, bound = 0;
};

/// The bound of a value that may be anything, NaN included.
inline constexpr double anything = std::numeric_limits<double>::infinity();

/// From here f32 rounds to infinity.
inline constexpr double most_f32 = 0x1.ffffffp127;

/// The error of a function in f32: (constant + of_argument |x|) 2^-24 |f(x)| + absolute.
struct FunctionError {
  double constant = 1, of_argument = 0, absolute = 0x1p-150;
};

/// Returns the error that kernels may make in an operation. Device functions are tested against this table.
///   exp      2 units in the last place, and exp2(x log2(e)) with a rounded product; results below 2^-126 are 0
///   sigmoid  an exponential, a sum and a quotient
///   others   2 units in the last place: those of CUDA's mathematical functions
FunctionError function_error(Operation operation) noexcept;

/// Returns the error that is allowed for a rounding in f32: four times |result| 2^-24 `roundings` and the denormal spacing.
double allowed_rounding(double result, double roundings = 1) noexcept;

/// Applies a function other than a leaf, round_to and uniform. `nonnegative`: the kernel's operand of a square root cannot
/// be negative, because it is a sum of squares, for example.
Bounded apply(Operation operation, const Bounded& a, const Bounded& b, const Bounded& c, bool nonnegative) noexcept;

/// Rounds to an element type and back.
Bounded round_to_type(Type type, const Bounded& value) noexcept;

/// Makes results beyond the range of f32 infinite, and uncertain ones `anything`.
Bounded in_range(double value, double bound) noexcept;

/// Reports whether an element of an output is right: `result` lies between the rounded ends of the interval.
bool accepts(Type type, double result, const Bounded& expected) noexcept;

}  // namespace tunesmith::row_program
