// Host conversions of 16-bit floats compared with the definition of the formats.

#include "templates/half.h"

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

TEST(Spacing, Float32) {
  EXPECT_EQ(spacing(DType::f32, 1.0), 0x1p-23);
  EXPECT_EQ(spacing(DType::f32, 0.999), 0x1p-24);
  EXPECT_EQ(spacing(DType::f32, 0.0), 0x1p-149);
  EXPECT_EQ(spacing(DType::f32, 1e-44), 0x1p-149);
}

}  // namespace
}  // namespace tunesmith
