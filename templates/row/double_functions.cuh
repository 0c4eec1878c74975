// Functions of programs that compute in double: the counterparts of row/functions.cuh. The templates find these
// overloads if their source includes this file first. Errors are those that the CUDA C++ Programming Guide, "Mathematical
// functions", states: at most 2 units in the last place.
#pragma once

#include "device/double_exponential.cuh"
#include "row/double.cuh"

#ifdef TUNESMITH_HOST_EXECUTOR
#define TUNESMITH_MATH(name) __builtin_##name
#else
#define TUNESMITH_MATH(name) ::name
#endif

namespace tunesmith {

__device__ __forceinline__ double absolute(double x) { return TUNESMITH_MATH(fabs)(x); }
__device__ __forceinline__ double minimum_or_nan(double a, double b) { return -maximum_or_nan(-a, -b); }
__device__ __forceinline__ double exponential(double x) { return exponential_of(x); }
__device__ __forceinline__ double exponential_of_rounded(double x) { return exponential_of(x); }
__device__ __forceinline__ double exponential_of_difference(double a, double b) { return exponential_of(subtract(a, b)); }
__device__ __forceinline__ double exponential2(double x) { return TUNESMITH_MATH(exp2)(x); }
__device__ __forceinline__ double logarithm(double x) { return TUNESMITH_MATH(log)(x); }
__device__ __forceinline__ double logarithm_of_one_plus(double x) { return log_of_one_plus(x); }
__device__ __forceinline__ double hyperbolic_tangent(double x) { return TUNESMITH_MATH(tanh)(x); }
__device__ __forceinline__ double error_function(double x) { return TUNESMITH_MATH(erf)(x); }
__device__ __forceinline__ double square_root(double x) { return TUNESMITH_MATH(sqrt)(x); }
/// 1 / (1 + exp(-x)) with at most 4 roundings, without overflow, and with denormal results.
__device__ __forceinline__ double sigmoid(double x) {
  const double small = exponential(-absolute(x));
  return divide(x < 0.0 ? small : 1.0, add(1.0, small));
}
__device__ __forceinline__ double round_down(double x) { return TUNESMITH_MATH(floor)(x); }
/// Ties go to the even integer.
__device__ __forceinline__ double round_to_integer(double x) { return TUNESMITH_MATH(rint)(x); }
/// Rounds to the nearest integer of 32 bits, ties to even; NaN gives 0.
__device__ __forceinline__ int integer_of(double x) {
  if (x != x) return 0;
#ifdef TUNESMITH_HOST_EXECUTOR
  if (x >= 0x1.fffffffcp30) return 0x7fffffff;
  return x <= -0x1.0p31 ? -0x7fffffff - 1 : static_cast<int>(__builtin_rint(x));
#else
  return __double2int_rn(x);
#endif
}

/// Rounds toward zero, and an inexact result to an odd significand: narrower types round that as they round x (Boldo and
/// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
__device__ __forceinline__ float rounded_to_odd(double x) {
#ifdef TUNESMITH_HOST_EXECUTOR
  float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  const bool away = absolute(static_cast<double>(nearest)) > absolute(x);
  const float toward_zero = float_of(bits_of(nearest) - (away ? 1u : 0u));
#else
  const float toward_zero = __double2float_rz(x);
  if (static_cast<double>(toward_zero) == x || x != x) return toward_zero;
#endif
  return float_of(bits_of(toward_zero) | 1u);
}
/// Rounds to elements of type T and back.
template <typename T>
__device__ __forceinline__ double rounded(double x) {
  return to_float(from_float<T>(rounded_to_odd(x)));
}

/// An element of double, as to_float() gives others.
__device__ __forceinline__ double to_float(double value) { return value; }

/// Divides many values by one: a multiplication with its reciprocal, with at most three roundings instead of one. Values
/// whose reciprocal would be infinite are scaled first.
struct DoubleDivisor {
  double scale, reciprocal;

  __device__ __forceinline__ explicit DoubleDivisor(double value = 1.0) {
    const bool tiny = absolute(value) < 0x1.0p-1022;
    scale = tiny ? 0x1.0p53 : 1.0;
    reciprocal = tunesmith::divide(1.0, multiply(value, scale));
  }
  __device__ __forceinline__ double divide(double x) const { return multiply(multiply(x, scale), reciprocal); }
};

/// Integers in the bits of numbers.
template <typename Number>
__device__ __forceinline__ Number with_bits(uint32 bits);
template <>
__device__ __forceinline__ double with_bits<double>(uint32 bits) {
  return double_of(bits, 0u);
}
__device__ __forceinline__ uint32 integer_in(double number) { return low_bits_of(number); }
__device__ __forceinline__ uint64 key_in(double number) {
  return static_cast<uint64>(high_bits_of(number)) << 32 | low_bits_of(number);
}
__device__ __forceinline__ double with_key(uint64 key) {
  return double_of(static_cast<uint32>(key), static_cast<uint32>(key >> 32));
}

/// A value as an integer in the same order: NaN is the largest, 0 and -0 are equal. 0 is before all values.
__device__ __forceinline__ uint64 key_of_value(double value) {
  const uint64 bits = key_in(add(value, 0.0));  // -0 becomes 0
  if (value != value) return ~uint64{0};
  return (bits >> 63) != 0 ? ~bits : bits | uint64{1} << 63;
}
__device__ __forceinline__ double value_of_key(uint64 key) {
  if (key == ~uint64{0}) return double_of(0u, 0x7ff80000u);
  return with_key((key >> 63) != 0 ? key & ~(uint64{1} << 63) : ~key);
}

}  // namespace tunesmith

#undef TUNESMITH_MATH
