#include "templates/row_program/bounded.h"

#include <algorithm>
#include <cmath>

#include "templates/row_program/operations.h"
#include "templates/row_program/rounding.h"

namespace tunesmith::row_program {
namespace {

constexpr double unit = 0x1p-24, safety = 4;

bool is_f32(double value) noexcept { return static_cast<double>(static_cast<float>(value)) == value; }

bool is_power_of_two(double value) noexcept {
  int exponent = 0;
  return std::fabs(std::frexp(value, &exponent)) == 0.5;
}

/// 0 * inf is 0: an exact operand adds no error.
double scaled(double factor, double bound) noexcept { return bound == 0 ? 0 : std::fabs(factor) * bound; }

/// A result of arithmetic that is correctly rounded. Exact operands with a result that f32 represents give that result.
Bounded rounded(double value, double bound) noexcept {
  if (bound != 0 || !is_f32(value)) bound += allowed_rounding(value);
  return in_range(value, bound);
}

/// A value of a function, `change` being its change over the interval of the operand.
Bounded of_function(Operation operation, double x, double value, double change) noexcept {
  const FunctionError error = function_error(operation);
  const double roundings = error.constant + (error.of_argument == 0 ? 0 : error.of_argument * std::fabs(x));
  double allowed = allowed_rounding(value, roundings) + safety * error.absolute;
  if (std::isinf(x)) allowed = 0;
  return in_range(value, change + allowed);
}

Bounded boolean(bool value, bool uncertain) noexcept { return {value ? 1.0 : 0.0, uncertain ? 1.0 : 0.0}; }

/// The smallest interval around `value` that holds low and high.
Bounded hull(double value, double low, double high) noexcept {
  if (std::isnan(value) || std::isnan(low) || std::isnan(high)) {
    const bool all = std::isnan(value) && std::isnan(low) && std::isnan(high);
    return {value, all ? 0 : anything};
  }
  if (low == high) return {value, 0};
  return {value, std::max(high - value, value - low)};
}

Bounded select(const Bounded& condition, const Bounded& yes, const Bounded& no) noexcept {
  const Bounded& chosen = condition.value != 0 ? yes : no;
  const Bounded& other = condition.value != 0 ? no : yes;
  if (condition.bound == 0) return chosen;
  if (chosen.bound == anything || other.bound == anything) return {chosen.value, anything};
  if (std::isnan(chosen.value) != std::isnan(other.value)) return {chosen.value, anything};
  if (chosen.value == other.value) return {chosen.value, std::max(chosen.bound, other.bound)};
  return hull(chosen.value, std::min(chosen.value - chosen.bound, other.value - other.bound),
              std::max(chosen.value + chosen.bound, other.value + other.bound));
}

Bounded compare(Operation operation, const Bounded& a, const Bounded& b) noexcept {
  const bool value = apply(operation, {a.value, b.value, 0.0}) != 0;
  const double bound = a.bound + b.bound;
  return boolean(value, bound > 0 && std::fabs(a.value - b.value) <= bound);
}

Bounded extreme(Operation operation, const Bounded& a, const Bounded& b) noexcept {
  const double value = apply(operation, {a.value, b.value, 0.0});
  if (a.bound == 0 && b.bound == 0) return {value, 0};
  return hull(value, apply(operation, {a.value - a.bound, b.value - b.bound, 0.0}),
              apply(operation, {a.value + a.bound, b.value + b.bound, 0.0}));
}

Bounded divide(const Bounded& a, const Bounded& b) noexcept {
  const double value = a.value / b.value;
  if (b.bound > 0 && std::fabs(b.value) <= b.bound) return {value, anything};
  if (b.value == 0) return {value, a.bound > 0 && std::fabs(a.value) <= a.bound ? anything : 0};
  const double bound = (a.bound + scaled(value, b.bound)) / (std::fabs(b.value) - b.bound);
  // Kernels multiply with the reciprocal of constants and of values of a row, which is exact for powers of two alone.
  if (bound == 0 && value != 0 && std::isfinite(value) && !is_power_of_two(b.value))
    return in_range(value, allowed_rounding(value));
  return rounded(value, bound);
}

Bounded root(Operation operation, const Bounded& x, bool nonnegative) noexcept {
  const double value = apply(operation, {x.value, 0, 0});
  double low = x.value - x.bound;
  if (low < 0 && x.bound > 0) {
    if (x.value + x.bound < 0) return {std::nan(""), 0};
    if (!nonnegative) return {value, anything};
    low = 0;
  }
  if (x.bound == 0) return of_function(operation, x.value, value, 0);
  if (operation == Operation::rsqrt && low <= 0) return {value, anything};
  const double at_low = apply(operation, {low, 0, 0}), at_high = apply(operation, {x.value + x.bound, 0, 0});
  return of_function(operation, x.value, value, std::max(std::fabs(at_high - value), std::fabs(at_low - value)));
}

Bounded logarithm(Operation operation, const Bounded& x) noexcept {
  const double zero = operation == Operation::log1p ? -1 : 0, value = apply(operation, {x.value, 0, 0});
  if (x.bound == 0) return of_function(operation, x.value, value, 0);
  if (x.value + x.bound < zero) return {std::nan(""), 0};
  if (x.value - x.bound <= zero) return {value, anything};
  return of_function(operation, x.value, value, value - apply(operation, {x.value - x.bound, 0, 0}));
}

/// Of a function that grows everywhere, fastest where |x| is smallest or x is largest.
Bounded growing(Operation operation, const Bounded& x) noexcept {
  const double value = apply(operation, {x.value, 0, 0});
  if (x.bound == 0) return of_function(operation, x.value, value, 0);
  const double below = value - apply(operation, {x.value - x.bound, 0, 0});
  const double above = apply(operation, {x.value + x.bound, 0, 0}) - value;
  // exp(huge): infinite for certain only if both ends are; in_range() decides.
  if (std::isinf(above) && std::isfinite(value)) return {value, value - below > most_f32 ? 0 : anything};
  return of_function(operation, x.value, value, std::isinf(value) ? 0 : std::max(below, above));
}

}  // namespace

FunctionError function_error(Operation operation) noexcept {
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

double allowed_rounding(double result, double roundings) noexcept {
  return std::isfinite(result) ? safety * (roundings * unit * std::fabs(result) + 0x1p-150) : 0;
}

Bounded in_range(double value, double bound) noexcept {
  if (std::isnan(bound) || bound == anything) return {value, anything};
  if (!std::isfinite(value)) return {value, 0};
  if (std::fabs(value) - bound >= most_f32) return {std::copysign(anything, value), 0};
  return {value, std::fabs(value) + bound >= most_f32 ? anything : bound};
}

Bounded round_to_type(Type type, const Bounded& value) noexcept {
  const double result = round_to_type(type, value.value);
  if (value.bound == 0 || type == Type::boolean) return {result, value.bound};
  if (value.bound == anything) return {result, anything};
  return hull(result, round_to_type(type, value.value - value.bound), round_to_type(type, value.value + value.bound));
}

bool accepts(Type type, double result, const Bounded& expected) noexcept {
  if (expected.bound == anything) return true;
  if (type == Type::boolean) return expected.bound > 0 || (result != 0) == (expected.value != 0);
  const double low = round_to_type(type, expected.value - expected.bound);
  const double high = round_to_type(type, expected.value + expected.bound);
  if (std::isnan(low) || std::isnan(high)) return std::isnan(result);
  return result >= low && result <= high;
}

Bounded apply(Operation operation, const Bounded& a, const Bounded& b, const Bounded& c, bool nonnegative) noexcept {
  switch (operation) {
    case Operation::select: return select(a, b, c);
    case Operation::logical_not: return {1 - a.value, a.bound};
    case Operation::logical_and: {
      const bool is_false = (a.value == 0 && a.bound == 0) || (b.value == 0 && b.bound == 0);
      return boolean(a.value != 0 && b.value != 0, !is_false && (a.bound > 0 || b.bound > 0));
    }
    case Operation::logical_or: {
      const bool is_true = (a.value != 0 && a.bound == 0) || (b.value != 0 && b.bound == 0);
      return boolean(a.value != 0 || b.value != 0, !is_true && (a.bound > 0 || b.bound > 0));
    }
    default: break;
  }
  if (a.bound == anything || b.bound == anything) {
    const double value = apply(operation, {a.value, b.value, 0});
    const bool compares = operation >= Operation::less && operation <= Operation::not_equal;
    return {value, compares ? 1 : anything};
  }
  switch (operation) {
    case Operation::negate: return {-a.value, a.bound};
    case Operation::absolute: return {std::fabs(a.value), a.bound};
    case Operation::floor:
    case Operation::round:
      if (a.bound == 0) return {apply(operation, {a.value, 0, 0}), 0};
      return hull(apply(operation, {a.value, 0, 0}), apply(operation, {a.value - a.bound, 0, 0}),
                  apply(operation, {a.value + a.bound, 0, 0}));
    case Operation::add: return rounded(a.value + b.value, a.bound + b.bound);
    case Operation::subtract: return rounded(a.value - b.value, a.bound + b.bound);
    case Operation::multiply:
      return rounded(a.value * b.value, scaled(a.value, b.bound) + scaled(b.value, a.bound) + a.bound * b.bound);
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

}  // namespace tunesmith::row_program
