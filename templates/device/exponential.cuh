// exp(x - max) up to a factor that the whole row shares and that cancels when a row is divided by its sum.
#pragma once

#include "device/reduce.cuh"

namespace tunesmith {

/// 2^f for |f| <= 1/2, within 0.94 units in the last place: a polynomial of degree 6 with constant term 1, fitted for the
/// least largest relative error (2e-9). The hardware's ex2.approx is off by up to 4 units, which numerator and sum would
/// both carry.
__device__ __forceinline__ float exp2_of_fraction(float f) {
  float p = 0x1.41fb2ep-13f;
  p = fused_multiply_add(p, f, 0x1.5f3f30p-10f);
  p = fused_multiply_add(p, f, 0x1.3b2d50p-7f);
  p = fused_multiply_add(p, f, 0x1.c6aee6p-5f);
  p = fused_multiply_add(p, f, 0x1.ebfbdcp-3f);
  p = fused_multiply_add(p, f, 0x1.62e430p-1f);
  return fused_multiply_add(p, f, 1.0f);
}

/// What x is multiplied with on its way into 2^(x log2(e) scale), in two floats, and where the range of that ends.
struct ExponentScale {
  float high = 1.44269502162933349609375f;  ///< log2(e) rounded to float32, or scale * log2(e)
  float low = 1.92596299112661e-8f;         ///< what that rounding lost
  float far_below = 120.0f;                 ///< exp(-120) is 0 in float32 after the division
  float large_maximum = 1048576.0f;         ///< beyond it n would leave float32's integers: subtract first
};

/// A power that may be too small for one float: the product of two.
struct SplitPower {
  float first, second;  // second is 1 unless the product is below what first may be
};

/// For float32 results: within about one unit in the last place over the whole range of float32, large common offsets and
/// denormal results included, at some thirteen instructions an element, none of them on the special-function unit.
///
/// x log2(e) is split into an integer n and a fraction f with |f| <= 1/2, the product carried in two floats (Cody and
/// Waite's reduction), so that 2^f keeps all its digits; 2^n is then put into the exponent by integer addition. With N the n
/// of the row's maximum, an element's value is 2^(f + n - N + bias): rescaling a partial sum from one maximum to another is
/// exact. The bias keeps every value that matters a normal number, down to results that are denormal after the division.
struct PreciseExponential {
  static constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float bias = 60.0f;

  ExponentScale scale;
  float
      origin;  // subtracted first: 0, or the maximum when that is large (exact then: neighbours of the maximum are near it)
  float lowest;  // smaller ones are raised to it: their results are 0, and -inf needs no case of its own
  float shift;   // to_integer + bias - N
  float units;   // N

  /// `maximum` of the row so far. Anything not finite gives meaningless, harmless values.
  __device__ __forceinline__ explicit PreciseExponential(float maximum, ExponentScale exponent_scale = {})
      : scale(exponent_scale) {
    origin = (maximum < scale.large_maximum && maximum > -scale.large_maximum) ? 0.0f : maximum;
    const float top = subtract(maximum, origin);
    lowest = subtract(top, scale.far_below);
    units = subtract(fused_multiply_add(top, scale.high, to_integer), to_integer);
    shift = subtract(add(to_integer, bias), units);
  }

  /// Whether centered() does anything: rarely, and the same for the whole row.
  __device__ __forceinline__ bool moves() const { return origin != 0.0f; }
  __device__ __forceinline__ float centered(float x) const { return subtract(x, origin); }

  /// Of a centered element.
  __device__ __forceinline__ float operator()(float x) const {
    const float reduced = maximum(x, lowest);
    const float shifted = fused_multiply_add(reduced, scale.high, shift);
    const float n = subtract(shifted, shift);
    float fraction = fused_multiply_add(reduced, scale.high, -n);
    fraction = fused_multiply_add(reduced, scale.low, fraction);
    return float_of(bits_of(exp2_of_fraction(fraction)) + (bits_of(shifted) << 23));
  }

  /// What a sum formed under this maximum is multiplied with to stand under `other`, whose maximum is not smaller.
  __device__ __forceinline__ float rescale_to(const PreciseExponential& other) const {
    const float moved = subtract(origin, other.origin);
    float exponent = fused_multiply_add(moved, scale.high, subtract(units, other.units));
    exponent = fused_multiply_add(moved, scale.low, exponent);
    const float shifted = add(exponent, to_integer);
    const float fraction = subtract(exponent, subtract(shifted, to_integer));  // 0 unless an origin moved
    const float factor = float_of(bits_of(exp2_of_fraction(fraction)) + (bits_of(shifted) << 23));
    return exponent >= -126.0f ? factor : 0.0f;  // smaller factors are ignored
  }

  /// The same for exponentials whose quotients may be denormal, so that none is lost that counts; `first` is a power of two
  /// from 2^-40 up. Where an origin moved, which takes maxima of a million, blocks under another one hold nothing but zeros.
  __device__ __forceinline__ SplitPower split_rescale_to(const PreciseExponential& other) const {
    if (origin != other.origin) return {1.0f, rescale_to(other)};
    const float exponent = subtract(units, other.units);
    const float first = maximum(exponent, -40.0f);
    const float second = maximum(subtract(exponent, first), -126.0f);
    return {power_of_two(first), power_of_two(second)};
  }
  static __device__ __forceinline__ float power_of_two(float exponent) {
    return float_of(static_cast<uint32>(static_cast<int>(exponent) + 127) << 23);
  }
};

/// For 16-bit results: three instructions an element, relative error about 2^-16 at most, far below half a unit of float16.
/// Subtracting before scaling keeps that under large common offsets too; the bias keeps what becomes a denormal bfloat16
/// after the division a normal number before it.
struct FastExponential {
  static constexpr float bias = 16.0f;

  ExponentScale scale;
  float origin;

  __device__ __forceinline__ explicit FastExponential(float maximum, ExponentScale exponent_scale = {})
      : scale(exponent_scale), origin(maximum) {}

  __device__ __forceinline__ bool moves() const { return true; }
  __device__ __forceinline__ float centered(float x) const { return subtract(x, origin); }

  __device__ __forceinline__ float operator()(float x) const { return exp2_approx(fused_multiply_add(x, scale.high, bias)); }

  __device__ __forceinline__ float rescale_to(const FastExponential& other) const {
    return exp2_approx(multiply(subtract(origin, other.origin), scale.high));
  }
  __device__ __forceinline__ SplitPower split_rescale_to(const FastExponential& other) const {
    const float exponent = multiply(subtract(origin, other.origin), scale.high);
    const float first = maximum(exponent, -100.0f);
    return {exp2_approx(first), exp2_approx(subtract(exponent, first))};
  }
};

__device__ __forceinline__ bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

constexpr uint32 nan_bits = 0x7fc00000u;

/// What a row's exponentials are multiplied with: 1 / sum. A row whose maximum is not finite (it holds NaN or +inf, or is
/// all -inf) becomes NaN, as the definition gives.
__device__ __forceinline__ float softmax_scale(float largest, float sum) {
  return is_finite(largest) ? divide(1.0f, sum) : float_of(nan_bits);
}

/// exponential / sum for 16-bit results. `factor`: of the exponentials, which stood under another maximum.
struct FastQuotient {
  static constexpr float least_factor = 0x1.0p-100f;
  float scale;

  __device__ __forceinline__ FastQuotient(float largest, float sum, float factor = 1.0f)
      : scale(multiply(softmax_scale(largest, sum), factor)) {}
  __device__ __forceinline__ float operator()(float exponential) const { return multiply(exponential, scale); }
};

/// exponential / sum, rounded once: the remainder of the first product corrects it (Markstein, 1990). `factor`: a power of
/// two.
struct PreciseQuotient {
  static constexpr float least_factor = 0x1.0p-40f;  // sum / factor must not overflow
  float sum, scale;

  __device__ __forceinline__ PreciseQuotient(float largest, float row_sum, float factor = 1.0f)
      : sum(divide(row_sum, factor)), scale(softmax_scale(largest, sum)) {}
  __device__ __forceinline__ float operator()(float exponential) const {
    const float quotient = multiply(exponential, scale);
    return fused_multiply_add(fused_multiply_add(-quotient, sum, exponential), scale, quotient);
  }
};

/// For 16-bit results. RunningSum<terms> adds up that many terms.
struct FastArithmetic {
  using Exponential = FastExponential;
  using Quotient = FastQuotient;
  template <int terms>
  using RunningSum = PlainSum;
};
/// For float32 results.
struct PreciseArithmetic {
  using Exponential = PreciseExponential;
  using Quotient = PreciseQuotient;
  template <int terms>
  using RunningSum = SumOf<(terms > 4)>;
};

/// `count` elements become their exponentials; returns the sum of those.
template <int count, typename Exponential>
__device__ __forceinline__ float exponentiate(const Exponential& exponential, float* values) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    values[j] = exponential(values[j]);
    sum = add(sum, values[j]);
  }
  return sum;
}

template <typename Exponential, int count>
__device__ __forceinline__ void center(const Exponential& exponential, float (&values)[count]) {
  if (!exponential.moves()) return;
#pragma unroll
  for (int j = 0; j < count; ++j) values[j] = exponential.centered(values[j]);
}

}  // namespace tunesmith
