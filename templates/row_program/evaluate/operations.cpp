#include "templates/row_program/evaluate/operations.h"

#include <cmath>

namespace tunesmith::row_program {

int operand_count(Operation operation) noexcept {
  if (operation < Operation::negate) return 0;
  if (operation < Operation::add) return 1;
  return operation < Operation::select ? 2 : 3;
}

bool is_commutative(Operation operation) noexcept {
  switch (operation) {
    case Operation::add:
    case Operation::multiply:
    case Operation::minimum:
    case Operation::maximum:
    case Operation::equal:
    case Operation::not_equal:
    case Operation::logical_and:
    case Operation::logical_or: return true;
    default: return false;
  }
}

template <typename Real>
Real apply(Operation operation, const std::array<Real, 3>& operands) noexcept {
  const auto [a, b, c] = operands;
  switch (operation) {
    case Operation::negate: return -a;
    case Operation::absolute: return std::fabs(a);
    case Operation::exp: return std::exp(a);
    case Operation::exp2: return std::exp2(a);
    case Operation::log: return std::log(a);
    case Operation::log1p: return std::log1p(a);
    case Operation::tanh: return std::tanh(a);
    case Operation::erf: return std::erf(a);
    case Operation::sqrt: return std::sqrt(a);
    case Operation::rsqrt: return 1 / std::sqrt(a);
    case Operation::sigmoid: return 1 / (1 + std::exp(-a));
    case Operation::floor: return std::floor(a);
    case Operation::round: return std::nearbyint(a);
    case Operation::logical_not: return a == 0 ? 1 : 0;
    case Operation::add: return a + b;
    case Operation::subtract: return a - b;
    case Operation::multiply: return a * b;
    case Operation::divide: return a / b;
    case Operation::minimum: return std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b);
    case Operation::maximum: return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b);
    case Operation::less: return a < b ? 1 : 0;
    case Operation::less_equal: return a <= b ? 1 : 0;
    case Operation::equal: return a == b ? 1 : 0;
    case Operation::not_equal: return a != b ? 1 : 0;
    case Operation::logical_and: return a != 0 && b != 0 ? 1 : 0;
    case Operation::logical_or: return a != 0 || b != 0 ? 1 : 0;
    case Operation::select: return a != 0 ? b : c;
    default: return a;
  }
}

template double apply(Operation, const std::array<double, 3>&) noexcept;
template long double apply(Operation, const std::array<long double, 3>&) noexcept;

}  // namespace tunesmith::row_program
