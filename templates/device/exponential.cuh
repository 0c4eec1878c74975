// exp(x - max) up to a factor that the whole row shares and that cancels when a row is divided by its sum.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

/// For float32 results: within a few units in the last place over the whole range of float32, large common offsets and
/// denormal results included, at eight instructions an element.
///
/// x log2(e) is split into an integer n and a fraction f with |f| <= 1/2, the product carried in two floats (Cody and
/// Waite's reduction), so that 2^f keeps all its digits; 2^n is then put into the exponent by integer addition. With N the n
/// of the row's maximum, an element's value is 2^(f + n - N + bias): rescaling a partial sum from one maximum to another is
/// exact. The bias keeps every value that matters a normal number, down to results that are denormal after the division.
struct PreciseExponential {
  static constexpr float log2e_high = 1.44269502162933349609375f;  // log2(e) rounded to float32
  static constexpr float log2e_low = 1.92596299112661e-8f;         // log2(e) - log2e_high
  static constexpr float to_integer = 12582912.0f;                 // 1.5 * 2^23: adding it rounds to an integer
  static constexpr float bias = 60.0f;
  static constexpr float far_below = 120.0f;          // exp(-120) is 0 in float32 after the division
  static constexpr float large_maximum = 1048576.0f;  // beyond it n would leave float32's integers: subtract first

  float
      origin;  // subtracted first: 0, or the maximum when that is large (exact then: neighbours of the maximum are near it)
  float lowest;  // smaller ones are raised to it: their results are 0, and -inf needs no case of its own
  float shift;   // to_integer + bias - N
  float units;   // N

  /// `maximum` of the row so far. Anything not finite gives meaningless, harmless values.
  __device__ __forceinline__ explicit PreciseExponential(float maximum) {
    origin = (maximum < large_maximum && maximum > -large_maximum) ? 0.0f : maximum;
    const float top = subtract(maximum, origin);
    lowest = subtract(top, far_below);
    units = subtract(fused_multiply_add(top, log2e_high, to_integer), to_integer);
    shift = subtract(add(to_integer, bias), units);
  }

  __device__ __forceinline__ float operator()(float x) const {
    const float reduced = maximum(subtract(x, origin), lowest);
    const float shifted = fused_multiply_add(reduced, log2e_high, shift);
    const float n = subtract(shifted, shift);
    float fraction = fused_multiply_add(reduced, log2e_high, -n);
    fraction = fused_multiply_add(reduced, log2e_low, fraction);
    return float_of(bits_of(exp2_approx(fraction)) + (bits_of(shifted) << 23));
  }

  /// What a sum formed under this maximum is multiplied with to stand under `other`, whose maximum is not smaller.
  __device__ __forceinline__ float rescale_to(const PreciseExponential& other) const {
    const float moved = subtract(origin, other.origin);
    float exponent = fused_multiply_add(moved, log2e_high, subtract(units, other.units));
    exponent = fused_multiply_add(moved, log2e_low, exponent);
    return exp2_approx(exponent);
  }
};

/// For 16-bit results: three instructions an element, relative error about 2^-16 at most, far below half a unit of float16.
/// Subtracting before scaling keeps that under large common offsets too; the bias keeps what becomes a denormal bfloat16
/// after the division a normal number before it.
struct FastExponential {
  static constexpr float bias = 16.0f;

  float origin;

  __device__ __forceinline__ explicit FastExponential(float maximum) : origin(maximum) {}

  __device__ __forceinline__ float operator()(float x) const {
    return exp2_approx(fused_multiply_add(subtract(x, origin), PreciseExponential::log2e_high, bias));
  }

  __device__ __forceinline__ float rescale_to(const FastExponential& other) const {
    return exp2_approx(multiply(subtract(origin, other.origin), PreciseExponential::log2e_high));
  }
};

template <typename Output>
struct ExponentialFor {
  using Type = FastExponential;
};
template <>
struct ExponentialFor<float> {
  using Type = PreciseExponential;
};

__device__ __forceinline__ bool is_finite(float x) { return (bits_of(x) & 0x7f800000u) != 0x7f800000u; }

}  // namespace tunesmith
