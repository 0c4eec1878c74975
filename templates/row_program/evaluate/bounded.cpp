#include "templates/row_program/evaluate/bounded.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "templates/row_program/evaluate/operations.h"
#include "templates/row_program/evaluate/rounding.h"

namespace tunesmith::row_program {
namespace {

constexpr int safety = 4;

template <typename Real>
Real result_of(Operation operation, Real a, std::type_identity_t<Real> b = 0) noexcept {
  return row_program::apply(operation, std::array<Real, 3>{a, b, 0});
}

/// Reports whether the kernel's arithmetic represents the number.
template <typename Real>
bool is_exact(Real value) noexcept {
  using Kernel = std::conditional_t<std::is_same_v<Real, double>, float, double>;
  return static_cast<Real>(static_cast<Kernel>(value)) == value;
}

/// Reports whether the evaluation rounds no digits of a product of two exact operands. In float64, products of f32 are
/// exact.
template <typename Real>
bool is_exact_product(Real a, Real b, Real product) noexcept {
  if constexpr (sizeof(Real) == sizeof(double)) {
    return true;
  } else {
    constexpr double least = 0x1p-900;  // the remainder of smaller products may underflow
    const auto narrow = static_cast<double>(product);
    if (product == 0 || !std::isfinite(product)) return true;
    return std::fabs(narrow) > least && std::fma(static_cast<double>(a), static_cast<double>(b), -narrow) == 0;
  }
}

template <typename Real>
bool is_power_of_two(Real value) noexcept {
  int exponent = 0;
  return std::fabs(std::frexp(value, &exponent)) == 0.5;
}

/// 0 * inf is 0: an exact operand adds no error.
template <typename Real>
Real scaled(Real factor, Real bound) noexcept {
  return bound == 0 ? 0 : std::fabs(factor) * bound;
}

/// A result of arithmetic that is correctly rounded. Exact operands with a result that the kernel's type represents give
/// that result.
template <typename Real>
BoundedOf<Real> rounded(Real value, Real bound) noexcept {
  if (bound != 0 || !is_exact(value)) bound += allowed_rounding(value);
  return in_range(value, bound);
}

/// A value of a function, `change` being its change over the interval of the operand.
template <typename Real>
BoundedOf<Real> of_function(Operation operation, Real x, Real value, Real change) noexcept {
  const FunctionError<Real> error = function_error<Real>(operation);
  const Real roundings = error.constant + (error.of_argument == 0 ? 0 : error.of_argument * std::fabs(x));
  Real allowed = allowed_rounding(value, roundings) + safety * error.absolute;
  if (std::isinf(x)) allowed = 0;
  return in_range(value, change + allowed);
}

template <typename Real>
BoundedOf<Real> boolean(bool value, bool uncertain) noexcept {
  return {value ? 1.0 : 0.0, uncertain ? 1.0 : 0.0};
}

/// The smallest interval around `value` that holds low and high.
template <typename Real>
BoundedOf<Real> hull(Real value, Real low, Real high) noexcept {
  if (std::isnan(value) || std::isnan(low) || std::isnan(high)) {
    const bool all = std::isnan(value) && std::isnan(low) && std::isnan(high);
    return {value, all ? 0 : anything};
  }
  if (low == high) return {value, 0};
  return {value, std::max(high - value, value - low)};
}

template <typename Real>
BoundedOf<Real> select(const BoundedOf<Real>& condition, const BoundedOf<Real>& yes, const BoundedOf<Real>& no) noexcept {
  const BoundedOf<Real>& chosen = condition.value != 0 ? yes : no;
  const BoundedOf<Real>& other = condition.value != 0 ? no : yes;
  if (condition.bound == 0) return chosen;
  if (chosen.bound == anything || other.bound == anything) return {chosen.value, anything};
  if (std::isnan(chosen.value) != std::isnan(other.value)) return {chosen.value, anything};
  if (chosen.value == other.value) return {chosen.value, std::max(chosen.bound, other.bound)};
  return hull(chosen.value, std::min(chosen.value - chosen.bound, other.value - other.bound),
              std::max(chosen.value + chosen.bound, other.value + other.bound));
}

template <typename Real>
BoundedOf<Real> compare(Operation operation, const BoundedOf<Real>& a, const BoundedOf<Real>& b) noexcept {
  const bool value = result_of(operation, a.value, b.value) != 0;
  const Real bound = a.bound + b.bound;
  return boolean<Real>(value, bound > 0 && std::fabs(a.value - b.value) <= bound);
}

template <typename Real>
BoundedOf<Real> extreme(Operation operation, const BoundedOf<Real>& a, const BoundedOf<Real>& b) noexcept {
  const Real value = result_of(operation, a.value, b.value);
  if (a.bound == 0 && b.bound == 0) return {value, 0};
  return hull(value, result_of(operation, a.value - a.bound, b.value - b.bound),
              result_of(operation, a.value + a.bound, b.value + b.bound));
}

template <typename Real>
BoundedOf<Real> divide(const BoundedOf<Real>& a, const BoundedOf<Real>& b) noexcept {
  const Real value = a.value / b.value;
  if (b.bound > 0 && std::fabs(b.value) <= b.bound) return {value, anything};
  if (b.value == 0) return {value, a.bound > 0 && std::fabs(a.value) <= a.bound ? anything : 0};
  const Real bound = (a.bound + scaled(value, b.bound)) / (std::fabs(b.value) - b.bound);
  // Kernels multiply with the reciprocal of constants and of values of a row, which is exact for powers of two alone.
  if (bound == 0 && value != 0 && std::isfinite(value) && !is_power_of_two(b.value))
    return in_range(value, allowed_rounding(value));
  return rounded(value, bound);
}

template <typename Real>
BoundedOf<Real> root(Operation operation, const BoundedOf<Real>& x, bool nonnegative) noexcept {
  const Real value = result_of(operation, x.value);
  Real low = x.value - x.bound;
  if (low < 0 && x.bound > 0) {
    if (x.value + x.bound < 0) return {std::nan(""), 0};
    if (!nonnegative) return {value, anything};
    low = 0;
  }
  if (x.bound == 0) return of_function<Real>(operation, x.value, value, 0);
  if (operation == Operation::rsqrt && low <= 0) return {value, anything};
  const Real at_low = result_of(operation, low), at_high = result_of(operation, x.value + x.bound);
  return of_function(operation, x.value, value, std::max(std::fabs(at_high - value), std::fabs(at_low - value)));
}

template <typename Real>
BoundedOf<Real> logarithm(Operation operation, const BoundedOf<Real>& x) noexcept {
  const Real zero = operation == Operation::log1p ? -1 : 0, value = result_of(operation, x.value);
  if (x.bound == 0) return of_function<Real>(operation, x.value, value, 0);
  if (x.value + x.bound < zero) return {std::nan(""), 0};
  if (x.value - x.bound <= zero) return {value, anything};
  return of_function(operation, x.value, value, value - result_of(operation, x.value - x.bound));
}

/// Of a function that grows everywhere, fastest where |x| is smallest or x is largest.
template <typename Real>
BoundedOf<Real> growing(Operation operation, const BoundedOf<Real>& x) noexcept {
  const Real value = result_of(operation, x.value);
  if (x.bound == 0) return of_function<Real>(operation, x.value, value, 0);
  const Real below = value - result_of(operation, x.value - x.bound);
  const Real above = result_of(operation, x.value + x.bound) - value;
  // exp(huge): infinite for certain only if both ends are; in_range() decides.
  if (std::isinf(above) && std::isfinite(value)) return {value, value - below > Arithmetic<Real>::most ? 0 : anything};
  return of_function(operation, x.value, value, std::isinf(value) ? Real{0} : std::max(below, above));
}

}  // namespace

template <typename Real>
FunctionError<Real> function_error(Operation operation) noexcept {
  if constexpr (Arithmetic<Real>::type == Type::f64) {
    constexpr Real denormal = 2 * Arithmetic<Real>::half_denormal;
    if (operation == Operation::sigmoid) return {10, 0, denormal};
    const bool is_function = operation >= Operation::exp && operation <= Operation::erf;
    if (is_function) return {4, 0, denormal};
    if (operation == Operation::rsqrt) return {3, 0, denormal};  // rounded twice
    return {};
  }
  switch (operation) {
    case Operation::exp: return {4, 1.3, 0x1p-126};
    case Operation::sigmoid: return {10, 1.3, 0x1p-126};
    case Operation::exp2:
    case Operation::log:
    case Operation::log1p:
    case Operation::tanh:
    case Operation::erf: return {4, 0, 0x1p-149};
    case Operation::rsqrt: return {2, 0, 0x1p-149};
    default: return {};
  }
}

template <typename Real>
Real allowed_rounding(Real result, std::type_identity_t<Real> roundings) noexcept {
  using Of = Arithmetic<Real>;
  return std::isfinite(result) ? safety * (roundings * Of::unit * std::fabs(result) + Of::half_denormal) : 0;
}

template <typename Real>
BoundedOf<Real> in_range(Real value, Real bound) noexcept {
  if (std::isnan(bound) || bound == anything) return {value, anything};
  if (!std::isfinite(value)) return {value, 0};
  if (std::fabs(value) - bound >= Arithmetic<Real>::most) return {std::copysign(Real{anything}, value), 0};
  return {value, std::fabs(value) + bound >= Arithmetic<Real>::most ? Real{anything} : bound};
}

template <typename Real>
BoundedOf<Real> round_to_type(Type type, const BoundedOf<Real>& value) noexcept {
  if (type == Type::f32) type = Arithmetic<Real>::type;  // a conversion from i32
  const Real result = round_to_type(type, value.value);
  if (value.bound == 0 || type == Type::boolean) return {result, value.bound};
  if (value.bound == anything) return {result, anything};
  return hull<Real>(result, round_to_type(type, value.value - value.bound), round_to_type(type, value.value + value.bound));
}

template <typename Real>
bool accepts(Type type, double result, const BoundedOf<Real>& expected) noexcept {
  if (expected.bound == anything) return true;
  if (type == Type::boolean)
    return (result == 0 || result == 1) && (expected.bound > 0 || (result != 0) == (expected.value != 0));
  const double low = round_to_type(type, expected.value - expected.bound);
  const double high = round_to_type(type, expected.value + expected.bound);
  if (std::isnan(low) || std::isnan(high)) return std::isnan(result);
  return result >= low && result <= high;
}

template <typename Real>
BoundedOf<Real> apply(Operation operation, const BoundedOf<Real>& a, const std::type_identity_t<BoundedOf<Real>>& b,
                      const std::type_identity_t<BoundedOf<Real>>& c, bool nonnegative) noexcept {
  switch (operation) {
    case Operation::select: return select(a, b, c);
    case Operation::logical_not: return {1 - a.value, a.bound};
    case Operation::logical_and: {
      const bool is_false = (a.value == 0 && a.bound == 0) || (b.value == 0 && b.bound == 0);
      return boolean<Real>(a.value != 0 && b.value != 0, !is_false && (a.bound > 0 || b.bound > 0));
    }
    case Operation::logical_or: {
      const bool is_true = (a.value != 0 && a.bound == 0) || (b.value != 0 && b.bound == 0);
      return boolean<Real>(a.value != 0 || b.value != 0, !is_true && (a.bound > 0 || b.bound > 0));
    }
    default: break;
  }
  if (a.bound == anything || b.bound == anything) {
    const Real value = result_of(operation, a.value, b.value);
    const bool compares = operation >= Operation::less && operation <= Operation::not_equal;
    return {value, compares ? 1 : anything};
  }
  switch (operation) {
    case Operation::negate: return {-a.value, a.bound};
    case Operation::absolute: return {std::fabs(a.value), a.bound};
    case Operation::floor:
    case Operation::round:
      if (a.bound == 0) return {result_of(operation, a.value), 0};
      return hull(result_of(operation, a.value), result_of(operation, a.value - a.bound),
                  result_of(operation, a.value + a.bound));
    case Operation::add: return rounded(a.value + b.value, a.bound + b.bound);
    case Operation::subtract: return rounded(a.value - b.value, a.bound + b.bound);
    case Operation::multiply: {
      const Real product = a.value * b.value;
      const Real bound = scaled(a.value, b.bound) + scaled(b.value, a.bound) + a.bound * b.bound;
      if (bound == 0 && !is_exact_product(a.value, b.value, product)) return in_range(product, allowed_rounding(product));
      return rounded(product, bound);
    }
    case Operation::divide: return divide(a, b);
    case Operation::minimum:
    case Operation::maximum: return extreme(operation, a, b);
    case Operation::less:
    case Operation::less_equal:
    case Operation::equal:
    case Operation::not_equal: return compare(operation, a, b);
    case Operation::sqrt:
    case Operation::rsqrt: return root(operation, a, nonnegative);
    case Operation::log:
    case Operation::log1p: return logarithm(operation, a);
    default: return growing(operation, a);
  }
}

template FunctionError<double> function_error(Operation) noexcept;
template double allowed_rounding(double, double) noexcept;
template BoundedOf<double> in_range(double, double) noexcept;
template BoundedOf<double> round_to_type(Type, const BoundedOf<double>&) noexcept;
template bool accepts(Type, double, const BoundedOf<double>&) noexcept;
template BoundedOf<double> apply(Operation, const BoundedOf<double>&, const BoundedOf<double>&, const BoundedOf<double>&,
                                 bool) noexcept;

template FunctionError<long double> function_error(Operation) noexcept;
template long double allowed_rounding(long double, long double) noexcept;
template BoundedOf<long double> in_range(long double, long double) noexcept;
template BoundedOf<long double> round_to_type(Type, const BoundedOf<long double>&) noexcept;
template bool accepts(Type, double, const BoundedOf<long double>&) noexcept;
template BoundedOf<long double> apply(Operation, const BoundedOf<long double>&, const BoundedOf<long double>&,
                                      const BoundedOf<long double>&, bool) noexcept;

}  // namespace tunesmith::row_program
