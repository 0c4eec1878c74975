// exp(x - max), up to a common factor of the row that cancels in the division by the row's sum.
#pragma once

#include "device/reduce.cuh"

namespace tunesmith {

/// 2^f for |f| <= 1/2, within 0.94 units in the last place: a minimax polynomial of degree 6 with constant term 1 (relative
/// error 2e-9). The hardware's ex2.approx has up to 4 units, in both numerator and sum.
__device__ __forceinline__ float exp2_of_fraction(float f) {
  float p = 0x1.41fb2ep-13f;
  p = fused_multiply_add(p, f, 0x1.5f3f30p-10f);
  p = fused_multiply_add(p, f, 0x1.3b2d50p-7f);
  p = fused_multiply_add(p, f, 0x1.c6aee6p-5f);
  p = fused_multiply_add(p, f, 0x1.ebfbdcp-3f);
  p = fused_multiply_add(p, f, 0x1.62e430p-1f);
  return fused_multiply_add(p, f, 1.0f);
}

/// scale * log2(e) in two floats, and the limits of its use.
struct ExponentScale {
  float high = 1.44269502162933349609375f;  ///< log2(e) rounded to float32, or scale * log2(e)
  float low = 1.92596299112661e-8f;         ///< rounding error of `high`
  float far_below = 120.0f;                 ///< exp(-120) is 0 in float32 after the division
  float large_maximum = 1048576.0f;         ///< beyond it n is not a float32 integer: subtract the maximum first
};

/// A power of two as the product of two floats, because it may be too small for one.
template <typename Number>
struct SplitPowerOf {
  Number first, second;  // second is 1 unless the product is below the lower bound of first
};
using SplitPower = SplitPowerOf<float>;

/// For float32 results: error of about one unit in the last place over the whole range of float32, with large common offsets
/// and denormal results; about thirteen instructions per element, none on the special function unit.
///
/// x log2(e) is computed in two floats and split into an integer n and a fraction f with |f| <= 1/2 (Cody and Waite's
/// reduction), so 2^f keeps all its digits. Integer addition puts 2^n into the exponent. With N the n of the row's maximum,
/// the value is 2^(f + n - N + bias), so rescaling a partial sum to another maximum is exact. The bias keeps all relevant
/// values normal, even if the quotient is denormal.
struct PreciseExponential {
  using Scale = ExponentScale;
  static constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float bias = 60.0f;

  ExponentScale scale;
  float origin;  // subtracted first: 0, or the maximum if that is large (exact then for elements near it)
  float lowest;  // smaller elements are raised to it: their results are 0, and -inf needs no special case
  float shift;   // to_integer + bias - N
  float units;   // N

  /// `maximum`: of the row so far. If it is not finite, results are meaningless but harmless.
  __device__ __forceinline__ explicit PreciseExponential(float maximum, ExponentScale exponent_scale = {})
      : scale(exponent_scale) {
    origin = (maximum < scale.large_maximum && maximum > -scale.large_maximum) ? 0.0f : maximum;
    const float top = subtract(maximum, origin);
    lowest = subtract(top, scale.far_below);
    units = subtract(fused_multiply_add(top, scale.high, to_integer), to_integer);
    shift = subtract(add(to_integer, bias), units);
  }

  /// Returns whether centered() changes its argument: rare, and uniform for the row.
  __device__ __forceinline__ bool moves() const { return origin != 0.0f; }
  __device__ __forceinline__ float centered(float x) const { return subtract(x, origin); }

  /// Takes a centered element.
  __device__ __forceinline__ float operator()(float x) const {
    const float reduced = maximum(x, lowest);
    const float shifted = fused_multiply_add(reduced, scale.high, shift);
    const float n = subtract(shifted, shift);
    float fraction = fused_multiply_add(reduced, scale.high, -n);
    fraction = fused_multiply_add(reduced, scale.low, fraction);
    return float_of(bits_of(exp2_of_fraction(fraction)) + (bits_of(shifted) << 23));
  }

  /// Returns the factor that makes a sum relative to `other`'s maximum, which must not be smaller.
  __device__ __forceinline__ float rescale_to(const PreciseExponential& other) const {
    const float moved = subtract(origin, other.origin);
    float exponent = fused_multiply_add(moved, scale.high, subtract(units, other.units));
    exponent = fused_multiply_add(moved, scale.low, exponent);
    const float shifted = add(exponent, to_integer);
    const float fraction = subtract(exponent, subtract(shifted, to_integer));  // 0 unless one of them has an origin
    const float factor = float_of(bits_of(exp2_of_fraction(fraction)) + (bits_of(shifted) << 23));
    return exponent >= -126.0f ? factor : 0.0f;  // smaller factors are ignored
  }

  /// The same as two factors, if quotients may be denormal; `first` is a power of two, at least 2^-40. If the origins
  /// differ, which takes maxima of a million, all rescaled exponentials are 0.
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

/// For 16-bit results: three instructions per element, relative error about 2^-16 at most, far below half a unit of float16.
/// Subtraction before scaling keeps that bound for large common offsets; the bias keeps values normal whose quotients are
/// denormal in bfloat16.
struct FastExponential {
  using Scale = ExponentScale;
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

/// Rounds an unevaluated sum to one number. If the first part is infinite, the second is NaN (inf - inf) and ignored.
template <typename Number>
__device__ __forceinline__ Number rounded(PairOf<Number> sum) {
  return is_finite(sum.first) ? add(sum.first, sum.second) : sum.first;
}

constexpr uint32 nan_bits = 0x7fc00000u;

/// Returns 1 / sum, the factor of a row's exponentials. NaN if the maximum is not finite (NaN or +inf in the row, or all
/// -inf), as the definition gives.
__device__ __forceinline__ float softmax_scale(float largest, float sum) {
  return is_finite(largest) ? divide(1.0f, sum) : float_of(nan_bits);
}

/// exponential / sum for 16-bit results. `factor`: rescales exponentials that are relative to another maximum.
struct FastQuotient {
  static constexpr float min_factor = 0x1.0p-100f;
  float scale;

  __device__ __forceinline__ FastQuotient(float largest, float sum, float factor = 1.0f)
      : scale(multiply(softmax_scale(largest, sum), factor)) {}
  __device__ __forceinline__ float operator()(float exponential) const { return multiply(exponential, scale); }
};

/// exponential / sum, correctly rounded: the remainder of the first product corrects it (Markstein, 1990). `factor` is a
/// power of two.
struct PreciseQuotient {
  static constexpr float min_factor = 0x1.0p-40f;  // sum / factor must not overflow
  float sum, scale;

  __device__ __forceinline__ PreciseQuotient(float largest, float row_sum, float factor = 1.0f)
      : sum(divide(row_sum, factor)), scale(softmax_scale(largest, sum)) {}
  __device__ __forceinline__ float operator()(float exponential) const {
    const float quotient = multiply(exponential, scale);
    return fused_multiply_add(fused_multiply_add(-quotient, sum, exponential), scale, quotient);
  }
};

/// For 16-bit results. RunningSum<terms> sums that many terms.
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

/// Replaces `count` elements by their exponentials and returns the sum.
template <int count, typename Exponential, typename Number>
__device__ __forceinline__ Number exponentiate(const Exponential& exponential, Number* values) {
  Number sum = 0.0f;
#pragma unroll
  for (int j = 0; j < count; ++j) {
    values[j] = exponential(values[j]);
    sum = add(sum, values[j]);
  }
  return sum;
}

template <typename Exponential, typename Number, int count>
__device__ __forceinline__ void center(const Exponential& exponential, Number (&values)[count]) {
  if (!exponential.moves()) return;
#pragma unroll
  for (int j = 0; j < count; ++j) values[j] = exponential.centered(values[j]);
}

}  // namespace tunesmith
