#include "templates/row_program/rounding.h"

#include <algorithm>
#include <cmath>

namespace tunesmith::row_program {
namespace {

struct Format {
  int digits;  ///< of the significand, the leading one included
  int least;   ///< exponent of the smallest normal number
  double largest;
  bool saturates;
};

constexpr Format format_of(Type type) noexcept {
  switch (type) {
    case Type::f16: return {11, -14, 65504, false};
    case Type::bf16: return {8, -126, 0x1.fep127, false};
    case Type::e4m3: return {4, -6, 448, true};
    case Type::e5m2: return {3, -14, 57344, true};
    default: return {24, -126, 0x1.fffffep127, false};
  }
}

double round_to_integer(double value, double least, double largest) noexcept {
  return std::isnan(value) ? 0 : std::clamp(std::nearbyint(value), least, largest);
}

}  // namespace

double round_to_type(Type type, double value) noexcept {
  if (type == Type::boolean) return value;
  if (type == Type::i8) return round_to_integer(value, -128, 127);
  if (type == Type::i32) return round_to_integer(value, -0x1p31, 0x1p31 - 1);
  const Format format = format_of(type);
  if (std::isnan(value) || value == 0) return value;
  if (std::isinf(value)) return format.saturates ? std::copysign(format.largest, value) : value;
  const int exponent = std::max(std::ilogb(value), format.least) - (format.digits - 1);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  if (std::fabs(rounded) <= format.largest) return rounded;
  return std::copysign(format.saturates ? format.largest : HUGE_VAL, value);
}

double largest_value(Type type) noexcept {
  switch (type) {
    case Type::i8: return 127;
    case Type::i32: return 0x1p31 - 1;
    case Type::boolean: return 1;
    default: return format_of(type).largest;
  }
}

}  // namespace tunesmith::row_program
