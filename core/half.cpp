#include "core/half.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace tunesmith {
namespace {

struct Format {
  int fraction_bits, min_exponent, max_exponent;  // of normal numbers, value = 1.f * 2^exponent
};

constexpr Format format_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32: return {23, -126, 127};
    case DType::f16: return {10, -14, 15};
    case DType::bf16: return {7, -126, 127};
    case DType::f64: return {52, -1022, 1023};
    case DType::e4m3: return {3, -6, 8};
    case DType::e5m2: return {2, -14, 15};
    case DType::u8:
    case DType::i8:
    case DType::i32:
    case DType::i64: break;
  }
  return {};
}

/// Returns 2^exponent as ldexp() does, in a fraction of its time: checks call it for every element.
double power_of_two(int exponent) noexcept {
  if (exponent < -1022) return std::ldexp(1.0, exponent);
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

double from_half(std::uint16_t bits) noexcept {
  const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * power_of_two(exponent - 25));
}

// Rounds to nearest even in double, where every candidate is exact, then assembles the bits.
std::uint16_t to_half(double value) noexcept {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000u : 0u);
  if (std::isnan(value)) return 0x7fff;
  const double size = std::fabs(value);
  if (size >= 65520) return sign | 0x7c00u;
  const double unit = spacing(DType::f16, size);
  const double rounded = std::nearbyint(size / unit) * unit;
  if (rounded < std::ldexp(1.0, -14)) return sign | static_cast<std::uint16_t>(rounded / std::ldexp(1.0, -24));
  int exponent = 0;
  const double fraction = std::frexp(rounded, &exponent);  // in [1/2, 1)
  return sign | static_cast<std::uint16_t>(((exponent + 14) << 10) + static_cast<int>(std::ldexp(fraction, 11)) - 1024);
}

constexpr bool is_float8(DType dtype) noexcept { return dtype == DType::e4m3 || dtype == DType::e5m2; }

// Both have a sign bit; their largest finite numbers are 448 (0x7e) and 57344 (0x7b). e4m3 has no infinities.
double from_float8(DType dtype, unsigned bits) noexcept {
  const Format format = format_of(dtype);
  const unsigned fraction_count = 1U << static_cast<unsigned>(format.fraction_bits);
  const double sign = (bits & 0x80U) != 0 ? -1.0 : 1.0;
  const unsigned exponent = (bits & 0x7fU) / fraction_count, fraction = bits % fraction_count;
  if (dtype == DType::e4m3 && (bits & 0x7fU) == 0x7fU) return NAN;
  if (dtype == DType::e5m2 && exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  const unsigned whole = exponent == 0 ? fraction : fraction + fraction_count;
  const int scale = static_cast<int>(std::max(exponent, 1U)) - 1 + format.min_exponent - format.fraction_bits;
  return sign * std::ldexp(whole, scale);
}

unsigned to_float8(DType dtype, double value) noexcept {
  const Format format = format_of(dtype);
  const unsigned sign = std::signbit(value) ? 0x80U : 0U, most = dtype == DType::e4m3 ? 0x7eU : 0x7bU;
  if (std::isnan(value)) return 0x7f;
  const double size = std::fabs(value);
  if (size >= from_float8(dtype, most)) return sign | most;
  const double unit = spacing(dtype, size), rounded = std::nearbyint(size / unit) * unit;
  const int exponent = rounded == 0 ? format.min_exponent : std::max(std::ilogb(rounded), format.min_exponent);
  // Numbers of equal exponent follow each other, and the next exponent follows them.
  const auto steps = static_cast<unsigned>(std::ldexp(rounded, format.fraction_bits - exponent));
  return sign | (steps + (static_cast<unsigned>(exponent - format.min_exponent) << format.fraction_bits));
}

}  // namespace

double spacing(DType dtype, double value) noexcept {
  const Format format = format_of(dtype);
  // Of a denormal number or 0: -1023, which is less than any format's.
  const int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 52 & 2047U) - 1023;
  return power_of_two(std::max(exponent, format.min_exponent) - format.fraction_bits);
}

double units_apart(DType dtype, double found, double expected, double slack) noexcept {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) == std::isnan(found) ? 0 : INFINITY;
  // From here on the nearest number is infinity.
  double most = 0x1.ffffffp127;
  if (dtype == DType::f16) most = 65520;
  if (dtype == DType::bf16) most = 0x1.ffp127;
  if (dtype == DType::f64) most = INFINITY;
  const double nearest = std::fabs(expected) >= most ? std::copysign(INFINITY, expected) : expected;
  if (std::isinf(nearest) || std::isinf(found)) {
    if (nearest == found) return 0;
    if (std::isinf(expected)) return INFINITY;
    const double finite = std::isinf(found) ? std::copysign(most, found) : found;
    return std::fabs(finite - expected) <= slack ? 0 : INFINITY;
  }
  return std::max(0.0, std::fabs(found - nearest) - slack) / spacing(dtype, nearest);
}

double read_element(DType dtype, const std::byte* data, std::int64_t index) noexcept {
  if (is_float8(dtype)) return from_float8(dtype, std::to_integer<unsigned>(data[index]));
  if (!is_float(dtype)) return static_cast<double>(read_integer(dtype, data, index));
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, data + index * 4, sizeof value);
    return value;
  }
  if (dtype == DType::f64) {
    double value = 0;
    std::memcpy(&value, data + index * 8, sizeof value);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, data + index * 2, sizeof bits);
  if (dtype == DType::f16) return from_half(bits);
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

std::int64_t read_integer(DType dtype, const std::byte* data, std::int64_t index) noexcept {
  std::int64_t wide = 0;
  if (dtype == DType::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, data + index * 4, sizeof value);
    return value;
  }
  if (dtype == DType::u8) return std::to_integer<std::int64_t>(data[index]);
  if (dtype == DType::i8) return std::to_integer<std::int8_t>(data[index]);
  std::memcpy(&wide, data + index * 8, sizeof wide);
  return wide;
}

void write_integer(DType dtype, std::byte* data, std::int64_t index, std::int64_t value) noexcept {
  if (dtype == DType::i32) {
    const auto narrow = static_cast<std::int32_t>(value);
    std::memcpy(data + index * 4, &narrow, sizeof narrow);
  } else if (dtype == DType::u8 || dtype == DType::i8) {
    data[index] = static_cast<std::byte>(value);
  } else {
    std::memcpy(data + index * 8, &value, sizeof value);
  }
}

void write_element(DType dtype, std::byte* data, std::int64_t index, double value) noexcept {
  if (dtype == DType::f64) {
    std::memcpy(data + index * 8, &value, sizeof value);
    return;
  }
  const auto single = static_cast<float>(value);
  if (dtype == DType::f32) {
    std::memcpy(data + index * 4, &single, sizeof single);
    return;
  }
  if (is_float8(dtype)) {
    data[index] = static_cast<std::byte>(to_float8(dtype, single));
    return;
  }
  if (!is_float(dtype)) {
    const double rounded = std::nearbyint(static_cast<double>(single));
    const double most = dtype == DType::i8 ? 127 : dtype == DType::u8 ? 255 : dtype == DType::i32 ? 2147483647.0 : 0x1.0p62;
    const double least = dtype == DType::u8 ? 0 : dtype == DType::i64 ? -most : -most - 1;
    write_integer(dtype, data, index, std::isnan(single) ? 0 : static_cast<std::int64_t>(std::clamp(rounded, least, most)));
    return;
  }
  std::uint16_t narrow = 0;
  if (dtype == DType::f16) {
    narrow = to_half(single);
  } else {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &single, sizeof bits);
    narrow = static_cast<std::uint16_t>(std::isnan(single) ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
  std::memcpy(data + index * 2, &narrow, sizeof narrow);
}

}  // namespace tunesmith
