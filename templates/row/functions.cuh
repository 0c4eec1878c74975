// Functions that programs call, in float32. Errors are those that the CUDA C++ Programming Guide, "Mathematical functions",
// states: at most 2 units in the last place for exp, exp2, log, log1p, tanh and erf.
#pragma once

#include "device/exponential.cuh"
#include "device/float8.cuh"
#include "device/reciprocal_sqrt.cuh"

#ifdef TUNESMITH_HOST_EXECUTOR
#define TUNESMITH_MATH(name) __builtin_##name
#else
#define TUNESMITH_MATH(name) name
#endif

namespace tunesmith {

__device__ __forceinline__ float absolute(float x) { return TUNESMITH_MATH(fabsf)(x); }
__device__ __forceinline__ int absolute(int x) { return x < 0 ? -x : x; }
__device__ __forceinline__ float minimum_or_nan(float a, float b) { return -maximum_or_nan(-a, -b); }
__device__ __forceinline__ int maximum_or_nan(int a, int b) { return a > b ? a : b; }
__device__ __forceinline__ int minimum_or_nan(int a, int b) { return a < b ? a : b; }

__device__ __forceinline__ float exponential(float x) { return TUNESMITH_MATH(expf)(x); }
/// exp(x) for an x that is itself a rounded result: the relative error is at most (1.3 |x| + 4) 2^-24; the rounding of x
/// alone causes |x| 2^-24. Results below 2^-126 are 0.
__device__ __forceinline__ float exponential_of_rounded(float x) {
  return exp2_approx(multiply(x, 1.44269502162933349609375f));
}
/// exp(a - b) with the rounding error of the difference taken into account: within about 2 units in the last place of the
/// exact result, 0 below 2^-126 and infinite from exp(88.4) on. The reduction is Cody and Waite's, as in PreciseExponential.
__device__ __forceinline__ float exponential_of_difference(float a, float b) {
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  const ExponentScale scale;
  const float difference = subtract(a, b);
  const float lost = lost_by_adding(a, -b, difference);
  const float reduced = minimum_or_nan(maximum_or_nan(difference, -88.0f), 89.0f);
  const float shifted = fused_multiply_add(reduced, scale.high, to_integer);
  float fraction = fused_multiply_add(reduced, scale.high, -subtract(shifted, to_integer));
  fraction = fused_multiply_add(reduced, scale.low, fraction);
  fraction = fused_multiply_add(reduced == difference ? lost : 0.0f, scale.high, fraction);
  const float power = float_of((bits_of(shifted) + 127u) << 23);  // 0 or infinite at the ends
  return multiply(exp2_of_fraction(fraction), power);
}
/// exp(a - b) for many a and one b, with the error and the limits of exponential_of_difference. a log2(e) - b log2(e) is
/// computed without rounding the difference of a and b: products and integers are subtracted in fused operations.
struct ExponentialOfDifference {
  static constexpr float to_integer = 12582912.0f;  // as above
  static constexpr float large = 0x1.0p20f;         // beyond it, integers do not fit: subtract b first (exact near b)

  float origin;           ///< 0, or b if it is large or not finite
  float lowest, highest;  ///< of a - origin: the ends of the results' range
  float top;              ///< (b - origin) log2(e), rounded
  float shift;            ///< to_integer - N for the integer N next to it
  float rest;             ///< (b - origin) log2(e) - N

  __device__ __forceinline__ explicit ExponentialOfDifference(float b = 0.0f) {
    const ExponentScale scale;
    const bool is_near = absolute(b) < large;
    const float moved = is_near ? b : 0.0f;
    origin = is_near ? 0.0f : b;
    lowest = subtract(moved, 88.0f);
    highest = add(moved, 89.0f);
    top = multiply(moved, scale.high);
    const float units = subtract(add(top, to_integer), to_integer);
    shift = subtract(to_integer, units);
    rest = fused_multiply_add(moved, scale.low, fused_multiply_add(moved, scale.high, -units));
  }
  __device__ __forceinline__ float operator()(float a) const {
    const ExponentScale scale;
    const float x = minimum_or_nan(maximum_or_nan(subtract(a, origin), lowest), highest);
    const float shifted = add(fused_multiply_add(x, scale.high, -top), to_integer);
    float fraction = fused_multiply_add(x, scale.high, -subtract(shifted, shift));
    fraction = fused_multiply_add(x, scale.low, subtract(fraction, rest));
    const float power = float_of((bits_of(shifted) + 127u) << 23);  // 0 or infinite at the ends
    return multiply(exp2_of_fraction(fraction), power);
  }
};
__device__ __forceinline__ float exponential2(float x) { return TUNESMITH_MATH(exp2f)(x); }
__device__ __forceinline__ float logarithm(float x) { return TUNESMITH_MATH(logf)(x); }
__device__ __forceinline__ float logarithm_of_one_plus(float x) { return TUNESMITH_MATH(log1pf)(x); }
__device__ __forceinline__ float hyperbolic_tangent(float x) { return TUNESMITH_MATH(tanhf)(x); }
__device__ __forceinline__ float error_function(float x) { return TUNESMITH_MATH(erff)(x); }
__device__ __forceinline__ float square_root(float x) { return TUNESMITH_MATH(sqrtf)(x); }
/// 1 / (1 + exp(-x)) with at most 4 roundings, without overflow, and with denormal results.
__device__ __forceinline__ float sigmoid(float x) {
  const float small = exponential(-absolute(x));
  const float large_result = reciprocal_approx(add(1.0f, small));
  return x < 0.0f ? multiply(small, large_result) : large_result;
}
__device__ __forceinline__ float round_down(float x) { return TUNESMITH_MATH(floorf)(x); }
/// Ties go to the even integer.
__device__ __forceinline__ float round_to_integer(float x) { return TUNESMITH_MATH(rintf)(x); }
/// Rounds to the nearest integer of 32 bits, ties to even; NaN gives 0.
__device__ __forceinline__ int integer_of(float x) {
#ifdef TUNESMITH_HOST_EXECUTOR
  if (x != x) return 0;
  if (x >= 0x1.0p31f) return 0x7fffffff;
  return x <= -0x1.0p31f ? -0x7fffffff - 1 : static_cast<int>(__builtin_rintf(x));
#else
  return __float2int_rn(x);
#endif
}
/// Rounds to elements of type T and back. On sm_90, a conversion of one element takes four times as long as one of a pair.
template <typename T>
__device__ __forceinline__ float rounded(float x) {
  if constexpr (is_same<T, bf16>) return float_of(pack<bf16>(0.0f, x));  // the upper half of a float
  if constexpr (is_same<T, f16>) return to_float(f16{static_cast<uint16>(pack<f16>(x, 0.0f))});
  return to_float(from_float<T>(x));
}

/// 1 / x, nearly always correctly rounded, and exact for powers of two. Has no branch, so that reciprocals of several groups
/// of columns overlap. For a row, an exact quotient is better: ptxas then does not move what follows before it, and spills
/// less.
__device__ __forceinline__ float reciprocal_of_group(float x) {
#ifdef TUNESMITH_HOST_EXECUTOR
  return 1.0f / x;
#else
  float result;
  asm("rcp.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  const float error = fused_multiply_add(-x, result, 1.0f);  // NaN for 0 and infinities
  return error == error ? fused_multiply_add(result, error, result) : result;
#endif
}
/// Divides many values by one: a multiplication with its reciprocal, with at most three roundings instead of one. Values
/// whose reciprocal would be infinite are scaled first.
struct Divisor {
  float scale = 1.0f, reciprocal = 1.0f;

  Divisor() = default;
  __device__ __forceinline__ explicit Divisor(float value)
      : scale(scale_of(value)), reciprocal(tunesmith::divide(1.0f, multiply(value, scale))) {}
  static __device__ __forceinline__ Divisor of_group(float value) {
    Divisor made;
    made.scale = scale_of(value);
    made.reciprocal = reciprocal_of_group(multiply(value, made.scale));
    return made;
  }
  static __device__ __forceinline__ float scale_of(float value) { return absolute(value) < 0x1.0p-126f ? 0x1.0p24f : 1.0f; }
  __device__ __forceinline__ float divide(float x) const { return multiply(multiply(x, scale), reciprocal); }
};
/// The same by a value that is NaN or at least 2^-126.
struct NormalDivisor {
  float reciprocal = 1.0f;

  NormalDivisor() = default;
  __device__ __forceinline__ explicit NormalDivisor(float value) : reciprocal(tunesmith::divide(1.0f, value)) {}
  static __device__ __forceinline__ NormalDivisor of_group(float value) {
    NormalDivisor made;
    made.reciprocal = reciprocal_of_group(value);
    return made;
  }
  __device__ __forceinline__ float divide(float x) const { return multiply(x, reciprocal); }
};

}  // namespace tunesmith

#undef TUNESMITH_MATH
