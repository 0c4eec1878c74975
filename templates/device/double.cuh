// Arithmetic in double, under the names of the platform's functions for float. The templates find these overloads if their
// source includes this file first, as f64 sources do.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

#ifdef TUNESMITH_HOST_EXECUTOR
__device__ __forceinline__ double fused_multiply_add(double a, double b, double c) { return __builtin_fma(a, b, c); }
// The library is compiled with -ffp-contract=off.
__device__ __forceinline__ double multiply(double a, double b) { return a * b; }
__device__ __forceinline__ double add(double a, double b) { return a + b; }
__device__ __forceinline__ double subtract(double a, double b) { return a - b; }
__device__ __forceinline__ double divide(double a, double b) { return a / b; }
__device__ __forceinline__ double reciprocal_sqrt(double x) { return 1.0 / __builtin_sqrt(x); }
__device__ __forceinline__ double exponential_of(double x) { return __builtin_exp(x); }
__device__ __forceinline__ double log_of_one_plus(double x) { return __builtin_log1p(x); }
__device__ __forceinline__ double double_of(uint32 low, uint32 high) {
  const uint64 bits = static_cast<uint64>(high) << 32 | low;
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
__device__ __forceinline__ uint32 low_bits_of(double value) {
  uint64 bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return static_cast<uint32>(bits);
}
__device__ __forceinline__ uint32 high_bits_of(double value) {
  uint64 bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return static_cast<uint32>(bits >> 32);
}
#else
__device__ __forceinline__ double fused_multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ double multiply(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ double add(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ double subtract(double a, double b) { return __dsub_rn(a, b); }
__device__ __forceinline__ double divide(double a, double b) { return __ddiv_rn(a, b); }
/// Rounded twice.
__device__ __forceinline__ double reciprocal_sqrt(double x) { return __ddiv_rn(1.0, __dsqrt_rn(x)); }
/// Both within one unit in the last place (CUDA's programming guide, "Mathematical functions").
__device__ __forceinline__ double exponential_of(double x) { return ::exp(x); }
__device__ __forceinline__ double log_of_one_plus(double x) { return ::log1p(x); }
__device__ __forceinline__ double double_of(uint32 low, uint32 high) {
  return __hiloint2double(static_cast<int>(high), static_cast<int>(low));
}
__device__ __forceinline__ uint32 low_bits_of(double value) { return static_cast<uint32>(__double2loint(value)); }
__device__ __forceinline__ uint32 high_bits_of(double value) { return static_cast<uint32>(__double2hiint(value)); }
#endif

__device__ __forceinline__ double add_if(bool condition, double sum, double value) {
  return condition ? add(sum, value) : sum;
}
__device__ __forceinline__ double divide_approx(double a, double b) { return divide(a, b); }
__device__ __forceinline__ double log_of_sum(double x) { return log_of_one_plus(x); }

/// Returns the larger argument, +0 rather than -0; NaN if either is NaN.
__device__ __forceinline__ double maximum_or_nan(double a, double b) {
  if (a != a || b != b) return double_of(0u, 0x7ff80000u);
  if (a == b) return (high_bits_of(a) & 0x80000000u) != 0 ? b : a;
  return a > b ? a : b;
}
/// Returns the larger argument; if one is NaN, the other.
__device__ __forceinline__ double maximum(double a, double b) {
  if (a != a) return b;
  return b != b ? a : maximum_or_nan(a, b);
}
__device__ __forceinline__ bool is_finite(double x) { return (high_bits_of(x) & 0x7ff00000u) != 0x7ff00000u; }

}  // namespace tunesmith
