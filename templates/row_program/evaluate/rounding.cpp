#include "templates/row_program/evaluate/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tunesmith::row_program {
namespace {

struct Format {
  int digits;    ///< of the significand, the leading one included
  double least;  ///< smallest normal number
  double largest;
  bool saturates;
};

constexpr Format format_of(Type type) noexcept {
  switch (type) {
    case Type::f16: return {11, 0x1p-14, 65504, false};
    case Type::bf16: return {8, 0x1p-126, 0x1.fep127, false};
    case Type::e4m3: return {4, 0x1p-6, 448, true};
    case Type::e5m2: return {3, 0x1p-14, 57344, true};
    default: return {24, 0x1p-126, 0x1.fffffep127, false};
  }
}

double round_to_integer(double value, double least, double largest) noexcept {
  return std::isnan(value) ? 0 : std::clamp(std::nearbyint(value), least, largest);
}

}  // namespace

double round_to_type(Type type, double value) noexcept {
  if (type == Type::boolean || type == Type::f64) return value;
  if (type == Type::i8) return round_to_integer(value, -128, 127);
  if (type == Type::i32) return round_to_integer(value, -0x1p31, 0x1p31 - 1);
  const Format format = format_of(type);
  if (std::isnan(value) || value == 0) return value;
  if (std::isinf(value)) return format.saturates ? std::copysign(format.largest, value) : value;
  const double magnitude = std::fabs(value);
  double rounded = 0;
  if (magnitude >= format.least) {
    // Adds half a unit to the bits, and one less where the last bit that stays is even; a carry moves the exponent.
    const int dropped = 53 - format.digits;
    auto bits = std::bit_cast<std::uint64_t>(value);
    bits += (std::uint64_t{1} << (dropped - 1)) - 1 + ((bits >> dropped) & 1);
    rounded = std::bit_cast<double>(bits & (~std::uint64_t{0} << dropped));
  } else {
    const double unit = format.least * std::bit_cast<double>(static_cast<std::uint64_t>(1023 - (format.digits - 1)) << 52);
    rounded = std::nearbyint(value / unit) * unit;
  }
  if (std::fabs(rounded) <= format.largest) return rounded;
  return std::copysign(format.saturates ? format.largest : HUGE_VAL, value);
}

double round_to_type(Type type, long double value) noexcept {
  auto nearest = static_cast<double>(value);
  if (type == Type::f64 || std::isnan(value) || static_cast<long double>(nearest) == value)
    return round_to_type(type, nearest);
  // Rounded to odd: narrower types round that as they round the value (Boldo and Melquiond, 2008).
  if (std::fabs(static_cast<long double>(nearest)) > std::fabs(value)) nearest = std::nextafter(nearest, 0.0);
  return round_to_type(type, std::bit_cast<double>(std::bit_cast<std::uint64_t>(nearest) | 1));
}

}  // namespace tunesmith::row_program
