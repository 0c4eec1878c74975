// Arithmetic of the host platform: 16-bit conversions of every bit pattern, rounding compared with float64, and edge cases
// of exp2 and maximum.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

#include "tests/jit/host/kernels.h"

namespace tunesmith {
namespace {

struct Params {
  const float* in;
  const float* other;
  std::uint32_t* out;
  std::int64_t count;
};

// Returns a kernel that computes `expression` of x, y and the index i for every element, as bits.
std::string elementwise(const std::string& entry, const std::string& expression) {
  return "extern \"C\" __global__ void " + entry + R"((const __grid_constant__ Params params) {
  for (int64 i = block_index() * 256 + thread_index(); i < params.count; i += 16 * 256) {
    const float x = params.in[i], y = params.other[i];
    params.out[i] = )" +
         expression + ";\n  }\n}\n";
}

std::string arithmetic() {
  return "using namespace tunesmith;\n"
         "struct Params { const float* in; const float* other; uint32* out; int64 count; };\n" +
         elementwise("widen_f16", "bits_of(to_float(f16{static_cast<uint16>(i)}))") +
         elementwise("widen_bf16", "bits_of(to_float(bf16{static_cast<uint16>(i)}))") +
         elementwise("narrow_f16", "from_float<f16>(x).bits") + elementwise("narrow_bf16", "from_float<bf16>(x).bits") +
         elementwise("pack_f16", "pack<f16>(x, y)") + elementwise("pack_bf16", "pack<bf16>(x, y)") +
         elementwise("exp2_of", "bits_of(exp2_approx(to_float(from_float<float>(x))))") +
         elementwise("maximum_of", "bits_of(maximum(x, y))") +
         elementwise("maximum_or_nan_of", "bits_of(maximum_or_nan(x, y))") +
         elementwise("pair_f16", "maximum_or_nan_pair<f16>(bits_of(x), bits_of(y))") +
         elementwise("pair_bf16", "maximum_or_nan_pair<bf16>(bits_of(x), bits_of(y))") +
         elementwise("fma_of", "bits_of(fused_multiply_add(x, y, -1.0f))") +
         elementwise("unfused_of", "bits_of(add(multiply(x, y), -1.0f))") +
         elementwise("quotient_of", "bits_of(divide(x, subtract(y, 0.0f)))");
}

class HostExecutorArithmetic : public testing::Test {
 protected:
  static void SetUpTestSuite() { kernels = new Kernels(arithmetic()); }
  static void TearDownTestSuite() {
    delete kernels;
    kernels = nullptr;
  }

  static std::vector<std::uint32_t> run(const char* entry, const std::vector<float>& in, std::vector<float> other = {}) {
    other.resize(in.size());
    std::vector<std::uint32_t> out(in.size());
    kernels->run(launch_of(entry, {16}, {256}),
                 Params{in.data(), other.data(), out.data(), static_cast<std::int64_t>(in.size())});
    return out;
  }

  static Kernels* kernels;
};
Kernels* HostExecutorArithmetic::kernels = nullptr;

// A 16-bit float format, defined by its precision and exponent range and evaluated in float64.
struct Format {
  int fraction_bits, exponent_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << fraction_bits; }

  double value(std::uint32_t bits) const {
    const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
    const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
    const double sign = bits >> (fraction_bits + exponent_bits) != 0 ? -1.0 : 1.0;
    if (exponent == (1 << exponent_bits) - 1)
      return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
    const double significand = exponent == 0 ? fraction : (1u << fraction_bits) + fraction;
    return sign * std::ldexp(significand, std::max(exponent, 1) - bias() - fraction_bits);
  }

  // Rounds to nearest even: the nearer of the pattern below and its successor. Patterns are ordered like values.
  std::uint32_t nearest(float x) const {
    const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
    if (std::isnan(x)) return 0x7fffu;
    const double magnitude = std::fabs(static_cast<double>(x));
    std::uint32_t low = 0, high = infinity();  // value(low) <= magnitude
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (value(middle) <= magnitude ? low : high) = middle;
    }
    // For rounding, infinity has the value that the next exponent would have.
    const double below = value(low);
    const double above = high == infinity() ? std::ldexp(1.0, bias() + 1) : value(high);
    if (magnitude >= above) return sign | high;
    const double to_below = magnitude - below, to_above = above - magnitude;
    if (to_below != to_above) return sign | (to_below < to_above ? low : high);
    return sign | (low % 2 == 0 ? low : high);
  }
};
constexpr Format half{10, 5}, brain{7, 8};

// Returns every value of the format, every midpoint between neighbours, the floats next to them, and random bits.
std::vector<float> interesting(const Format& format) {
  std::vector<float> values;
  const float infinity = std::numeric_limits<float>::infinity();
  for (std::uint32_t bits = 0; bits < format.infinity(); ++bits) {
    const double here = format.value(bits);
    const double next = bits + 1 == format.infinity() ? std::ldexp(1.0, format.bias() + 1) : format.value(bits + 1);
    for (const double centre : {here, (here + next) / 2}) {
      const auto x = static_cast<float>(centre);
      for (const float each : {std::nextafter(x, -infinity), x, std::nextafter(x, infinity)}) {
        values.push_back(each);
        values.push_back(-each);
      }
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i) values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const float special : {infinity, -infinity, std::numeric_limits<float>::max(), std::bit_cast<float>(0x7f800001u),
                              std::bit_cast<float>(0xffffffffu), std::bit_cast<float>(1u)})
    values.push_back(special);
  return values;
}

void expect_widened(const std::vector<std::uint32_t>& wide, const Format& format) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = format.value(bits);
    const float got = std::bit_cast<float>(wide[bits]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << "pattern " << bits;
    } else {
      ASSERT_EQ(wide[bits], std::bit_cast<std::uint32_t>(static_cast<float>(expected))) << "pattern " << bits;
    }
  }
}

TEST_F(HostExecutorArithmetic, WidensEveryHalf) { expect_widened(run("widen_f16", std::vector<float>(65536)), half); }
TEST_F(HostExecutorArithmetic, WidensEveryBfloat16) { expect_widened(run("widen_bf16", std::vector<float>(65536)), brain); }

void expect_narrowed(const std::vector<std::uint32_t>& narrow, const std::vector<float>& values, const Format& format) {
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(narrow[i], format.nearest(values[i])) << "x has the bits " << std::bit_cast<std::uint32_t>(values[i]);
}

TEST_F(HostExecutorArithmetic, NarrowingToHalfRoundsToNearestEven) {
  const std::vector<float> values = interesting(half);
  expect_narrowed(run("narrow_f16", values), values, half);
}
TEST_F(HostExecutorArithmetic, NarrowingToBfloat16RoundsToNearestEven) {
  const std::vector<float> values = interesting(brain);
  expect_narrowed(run("narrow_bf16", values), values, brain);
}

TEST_F(HostExecutorArithmetic, PackPutsTheFirstValueInTheLowHalf) {
  const std::vector<float> low = {1.0f, -2.0f, 65504.0f, 1e-7f}, high = {3.5f, 0.0f, 1e30f, -1.0f};
  const auto halves = run("pack_f16", low, high), brains = run("pack_bf16", low, high);
  for (std::size_t i = 0; i < low.size(); ++i) {
    EXPECT_EQ(halves[i], half.nearest(low[i]) | half.nearest(high[i]) << 16);
    EXPECT_EQ(brains[i], brain.nearest(low[i]) | brain.nearest(high[i]) << 16);
  }
}

TEST_F(HostExecutorArithmetic, Exp2) {
  std::vector<float> values;
  for (double x = -127.5; x < 128.0; x += 0.00473) values.push_back(static_cast<float>(x));
  const auto powers = run("exp2_of", values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double expected = std::exp2(static_cast<double>(values[i]));
    const double got = std::bit_cast<float>(powers[i]);
    if (values[i] < -126.0f)
      ASSERT_EQ(powers[i], 0u) << "a denormal result at " << values[i];
    else
      ASSERT_LE(std::fabs(got / expected - 1), std::ldexp(1.0, -22)) << "at " << values[i];
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const auto corners = run("exp2_of", {-126.0f, std::nextafter(-126.0f, -infinity), -infinity, infinity, 128.0f,
                                       std::numeric_limits<float>::quiet_NaN(), -0.0f});
  EXPECT_EQ(corners[0], 0x00800000u);
  EXPECT_EQ(corners[1], 0u);
  EXPECT_EQ(corners[2], 0u);
  EXPECT_EQ(corners[3], 0x7f800000u);
  EXPECT_EQ(corners[4], 0x7f800000u);
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(corners[5])));
  EXPECT_EQ(corners[6], std::bit_cast<std::uint32_t>(1.0f));
}

TEST_F(HostExecutorArithmetic, Maxima) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> a = {1, -3, 0.0f, -0.0f, nan, 2, nan, -infinity, infinity};
  const std::vector<float> b = {2, -4, -0.0f, 0.0f, 1, nan, nan, -infinity, nan};
  const std::vector<float> larger = {2, -3, 0.0f, 0.0f, 1, 2, nan, -infinity, infinity};
  const auto plain = run("maximum_of", a, b), propagating = run("maximum_or_nan_of", a, b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint32_t canonical_nan = 0x7fffffffu;
    EXPECT_EQ(plain[i], std::isnan(larger[i]) ? canonical_nan : std::bit_cast<std::uint32_t>(larger[i])) << i;
    const bool any = std::isnan(a[i]) || std::isnan(b[i]);
    EXPECT_EQ(propagating[i], any ? canonical_nan : std::bit_cast<std::uint32_t>(larger[i])) << i;
  }
}

// Computes max.NaN of one element: +0 is larger than -0, and NaN wins.
std::uint32_t larger_or_nan(const Format& format, std::uint32_t a, std::uint32_t b) {
  const double x = format.value(a), y = format.value(b);
  if (std::isnan(x) || std::isnan(y)) return 0x7fffu;
  return x == y ? a & b : x > y ? a : b;
}

// Tests all pairs of edge-case elements in both halves, then random bits.
void expect_pair_maxima(const Format& format, const auto& run_pairs) {
  const std::uint32_t infinity = format.infinity();
  std::vector<std::uint32_t> elements;
  for (const std::uint32_t magnitude :
       {0u, 1u, 1u << format.fraction_bits, infinity / 2, infinity / 2 + 1, infinity - 1, infinity, infinity + 1, 0x7fffu}) {
    elements.push_back(magnitude);
    elements.push_back(magnitude | 0x8000u);
  }
  std::vector<std::uint32_t> a, b;
  const std::size_t count = elements.size();
  for (std::size_t i = 0; i < count * count; ++i) {
    // The high halves have the same pairs in another order.
    const std::size_t j = (i * 5 + 7) % (count * count);
    a.push_back(elements[i / count] | elements[j / count] << 16);
    b.push_back(elements[i % count] | elements[j % count] << 16);
  }
  std::mt19937 random(11);
  for (int i = 0; i < 50000; ++i) {
    a.push_back(static_cast<std::uint32_t>(random()));
    b.push_back(static_cast<std::uint32_t>(random()));
  }
  std::vector<float> x(a.size()), y(b.size());
  std::memcpy(x.data(), a.data(), a.size() * sizeof(float));
  std::memcpy(y.data(), b.data(), b.size() * sizeof(float));
  const std::vector<std::uint32_t> larger = run_pairs(x, y);
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(larger[i],
              larger_or_nan(format, a[i] & 0xffffu, b[i] & 0xffffu) | larger_or_nan(format, a[i] >> 16, b[i] >> 16) << 16)
        << "of " << a[i] << " and " << b[i];
}

TEST_F(HostExecutorArithmetic, MaximaOfPairs) {
  expect_pair_maxima(half, [](const auto& x, const auto& y) { return run("pair_f16", x, y); });
  expect_pair_maxima(brain, [](const auto& x, const auto& y) { return run("pair_bf16", x, y); });
}

TEST_F(HostExecutorArithmetic, FusesOnlyFusedMultiplyAdd) {
  // (1 + e) * (1 - e) - 1 is -e^2 when rounded once, and 0 when the product is rounded first.
  const std::vector<float> x = {1.0f + 0x1p-13f}, y = {1.0f - 0x1p-13f};
  EXPECT_EQ(std::bit_cast<float>(run("fma_of", x, y)[0]), -0x1p-26f);
  EXPECT_EQ(std::bit_cast<float>(run("unfused_of", x, y)[0]), 0.0f);
  EXPECT_EQ(std::bit_cast<float>(run("quotient_of", {1.0f}, {3.0f})[0]), 1.0f / 3.0f);
}

}  // namespace
}  // namespace tunesmith
