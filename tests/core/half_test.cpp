// Host conversions of 16-bit floats compared with the definition of the formats.

#include "core/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace tunesmith {
namespace {

std::uint16_t bits_at(const std::byte* data) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, data, sizeof bits);
  return bits;
}

class Half : public testing::TestWithParam<DType> {};

TEST_P(Half, EveryPatternRoundTrips) {
  std::byte in[2], out[2];
  for (std::uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    std::memcpy(in, &bits, 2);
    const double value = read_element(GetParam(), in, 0);
    write_element(GetParam(), out, 0, static_cast<float>(value));
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(read_element(GetParam(), out, 0))) << pattern;
    else
      EXPECT_EQ(bits_at(out), bits) << pattern;
  }
}

TEST_P(Half, RoundsToTheNearestNeighbourAndTiesToEven) {
  std::byte low_bytes[2], high_bytes[2], out[2];
  const std::uint32_t infinity = GetParam() == DType::f16 ? 0x7c00 : 0x7f80;
  for (std::uint32_t pattern = 0; pattern + 1 < infinity; ++pattern) {
    const auto low_bits = static_cast<std::uint16_t>(pattern), high_bits = static_cast<std::uint16_t>(pattern + 1);
    std::memcpy(low_bytes, &low_bits, 2);
    std::memcpy(high_bytes, &high_bits, 2);
    const double low = read_element(GetParam(), low_bytes, 0), high = read_element(GetParam(), high_bytes, 0);
    const auto middle = static_cast<float>((low + high) / 2);  // exact in float32 except for denormal bfloat16
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2);
    const auto even = static_cast<std::uint16_t>(pattern % 2 == 0 ? pattern : pattern + 1);
    write_element(GetParam(), out, 0, middle);
    EXPECT_EQ(bits_at(out), even) << pattern;
    write_element(GetParam(), out, 0, std::nextafter(middle, INFINITY));
    EXPECT_EQ(bits_at(out), high_bits) << pattern;
    write_element(GetParam(), out, 0, -std::nextafter(middle, 0.0F));
    EXPECT_EQ(bits_at(out), low_bits | 0x8000) << pattern;
  }
}

TEST_P(Half, SpacingIsTheDistanceToTheNextNumber) {
  std::byte low_bytes[2], high_bytes[2];
  const std::uint32_t infinity = GetParam() == DType::f16 ? 0x7c00 : 0x7f80;
  for (std::uint32_t pattern = 0; pattern + 1 < infinity; ++pattern) {
    const auto low_bits = static_cast<std::uint16_t>(pattern), high_bits = static_cast<std::uint16_t>(pattern + 1);
    std::memcpy(low_bytes, &low_bits, 2);
    std::memcpy(high_bytes, &high_bits, 2);
    const double low = read_element(GetParam(), low_bytes, 0);
    EXPECT_EQ(spacing(GetParam(), low), read_element(GetParam(), high_bytes, 0) - low) << pattern;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Half, testing::Values(DType::f16, DType::bf16),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

TEST(HalfLimits, OverflowIsInfinity) {
  std::byte out[2];
  write_element(DType::f16, out, 0, 65519.0F);
  EXPECT_EQ(read_element(DType::f16, out, 0), 65504);
  write_element(DType::f16, out, 0, 65520.0F);
  EXPECT_TRUE(std::isinf(read_element(DType::f16, out, 0)));
}

// The formats as the OCP specification states them: sign, exponent, fraction; denormals; one NaN pattern in e4m3.
double float8_by_definition(DType dtype, unsigned bits) {
  const int fraction_bits = dtype == DType::e4m3 ? 3 : 2, bias = dtype == DType::e4m3 ? 7 : 15;
  const int fraction_count = 1 << fraction_bits, magnitude = static_cast<int>(bits & 0x7f);
  const int exponent = magnitude / fraction_count, fraction = magnitude % fraction_count;
  if (dtype == DType::e4m3 ? magnitude == 0x7f : magnitude > 0x7c) return NAN;
  if (dtype == DType::e5m2 && magnitude == 0x7c) return (bits & 0x80) != 0 ? -INFINITY : INFINITY;
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                     : std::ldexp(fraction_count + fraction, exponent - bias - fraction_bits);
  return (bits & 0x80) != 0 ? -value : value;
}

class Float8 : public testing::TestWithParam<DType> {};

TEST_P(Float8, EveryPatternHasItsValueAndRoundTrips) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto in = static_cast<std::byte>(bits);
    std::byte out{};
    const double value = read_element(GetParam(), &in, 0), expected = float8_by_definition(GetParam(), bits);
    write_element(GetParam(), &out, 0, static_cast<float>(value));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(out, std::byte{0x7f}) << bits;
    } else {
      EXPECT_EQ(value, expected) << bits;
      if (std::isfinite(expected)) {
        EXPECT_EQ(out, in) << bits;
      }
    }
  }
}

TEST_P(Float8, RoundsToTheNearestNeighbourAndTiesToEven) {
  const unsigned most = GetParam() == DType::e4m3 ? 0x7e : 0x7b;
  for (unsigned bits = 0; bits < most; ++bits) {
    const auto low = static_cast<std::byte>(bits), high = static_cast<std::byte>(bits + 1);
    const double below = read_element(GetParam(), &low, 0), above = read_element(GetParam(), &high, 0);
    const auto middle = static_cast<float>((below + above) / 2);
    std::byte out{};
    write_element(GetParam(), &out, 0, middle);
    EXPECT_EQ(out, bits % 2 == 0 ? low : high) << bits;
    write_element(GetParam(), &out, 0, std::nextafter(middle, INFINITY));
    EXPECT_EQ(out, high) << bits;
    write_element(GetParam(), &out, 0, -std::nextafter(middle, 0.0F));
    EXPECT_EQ(out, low | std::byte{0x80}) << bits;
    EXPECT_EQ(spacing(GetParam(), below), above - below) << bits;
  }
  std::byte out{};
  for (const float value : {1e6F, INFINITY}) {
    write_element(GetParam(), &out, 0, -value);
    EXPECT_EQ(out, static_cast<std::byte>(most | 0x80)) << "saturates";
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Float8, testing::Values(DType::e4m3, DType::e5m2),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

TEST(Float64, KeepsAllDigits) {
  for (const double value : {0.1, -1e300, 5e-324, 1.0 / 3, static_cast<double>(INFINITY)}) {
    std::byte out[16]{};
    write_element(DType::f64, out, 1, value);
    EXPECT_EQ(read_element(DType::f64, out, 1), value);
    EXPECT_EQ(read_element(DType::f64, out, 0), 0.0);
  }
  EXPECT_EQ(spacing(DType::f64, 1.0), 0x1p-52);
  EXPECT_EQ(spacing(DType::f64, 0.0), 0x1p-1074);
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_TRUE(is_float(DType::f64));
}

TEST(Integer8, RoundsAndSaturates) {
  for (const auto& [value, expected] : {std::pair{0.5F, 0},
                                        {1.5F, 2},
                                        {-0.5F, 0},
                                        {-2.5F, -2},
                                        {126.6F, 127},
                                        {1e9F, 127},
                                        {-128.4F, -128},
                                        {-1e9F, -128}}) {
    std::byte out{};
    write_element(DType::i8, &out, 0, value);
    EXPECT_EQ(read_integer(DType::i8, &out, 0), expected) << value;
    EXPECT_EQ(read_element(DType::i8, &out, 0), expected) << value;
  }
  std::byte out{1};
  write_element(DType::i8, &out, 0, NAN);
  EXPECT_EQ(out, std::byte{0});
}

TEST(Spacing, Float32) {
  EXPECT_EQ(spacing(DType::f32, 1.0), 0x1p-23);
  EXPECT_EQ(spacing(DType::f32, 0.999), 0x1p-24);
  EXPECT_EQ(spacing(DType::f32, 0.0), 0x1p-149);
  EXPECT_EQ(spacing(DType::f32, 1e-44), 0x1p-149);
}

}  // namespace
}  // namespace tunesmith
