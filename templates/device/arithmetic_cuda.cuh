// Arithmetic in float32 and conversions of 16-bit floats for CUDA. Part of platform_cuda.cuh.
#pragma once

#include "device/threads_cuda.cuh"

namespace tunesmith {

/// Hides the value from the optimizer, which then recomputes dependent values instead of keeping them in registers.
__device__ __forceinline__ void forget(uint32& word) { asm volatile("" : "+r"(word)); }
__device__ __forceinline__ void forget(uint16& word) { asm volatile("" : "+h"(word)); }

/// Returns `sum + value` if `condition`, else `sum`, in one predicated instruction. A selection of the operand takes two.
__device__ __forceinline__ float add_if(bool condition, float sum, float value) {
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\t@p add.rn.f32 %0, %0, %2;\n\t}"
      : "+f"(sum)
      : "r"(static_cast<int>(condition)), "f"(value));
  return sum;
}
/// Returns 2^x with a relative error of at most 2^-22; NaN for NaN, 0 for -inf.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// a * b + c, a * b, a + b, a - b, a / b, each rounded once and never contracted, as two-float arithmetic requires.
__device__ __forceinline__ float fused_multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float subtract(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float divide(float a, float b) { return __fdiv_rn(a, b); }
/// Returns 1 / x within one unit in the last place; 0 for infinities, infinity for denormals.
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Returns the larger argument; if one is NaN, the other.
__device__ __forceinline__ float maximum(float a, float b) { return fmaxf(a, b); }
/// Returns the larger argument, +0 rather than -0; NaN if either is NaN.
__device__ __forceinline__ float maximum_or_nan(float a, float b) {
#if TUNESMITH_SM >= 800
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return (a != a || b != b) ? __uint_as_float(0x7fffffffu) : fmaxf(a, b);
#endif
}
__device__ __forceinline__ uint32 bits_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ float float_of(uint32 bits) { return __uint_as_float(bits); }

// ---- 16-bit floats ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(f16 value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}
__device__ __forceinline__ float to_float(bf16 value) { return __uint_as_float(static_cast<uint32>(value.bits) << 16); }

/// Rounds to nearest even; overflow gives infinity.
template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float value) {
  f16 narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
  bf16 narrow;
#if TUNESMITH_SM >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
#else
  const uint32 bits = __float_as_uint(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  narrow.bits = static_cast<uint16>(is_nan ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
  return narrow;
}

/// Packs two values into a 32-bit word, the first in the low half: one instruction on sm_80 and later.
template <typename T>
__device__ __forceinline__ uint32 pack(float low, float high);
template <>
__device__ __forceinline__ uint32 pack<f16>(float low, float high) {
#if TUNESMITH_SM >= 800
  uint32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return from_float<f16>(low).bits | static_cast<uint32>(from_float<f16>(high).bits) << 16;
#endif
}
template <>
__device__ __forceinline__ uint32 pack<bf16>(float low, float high) {
#if TUNESMITH_SM >= 800
  uint32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return from_float<bf16>(low).bits | static_cast<uint32>(from_float<bf16>(high).bits) << 16;
#endif
}

/// Elementwise maximum_or_nan of two packed pairs: one instruction on sm_80 and later.
template <typename T>
__device__ __forceinline__ uint32 maximum_or_nan_pair(uint32 a, uint32 b);
#if TUNESMITH_SM >= 800
template <>
__device__ __forceinline__ uint32 maximum_or_nan_pair<f16>(uint32 a, uint32 b) {
  uint32 larger;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
template <>
__device__ __forceinline__ uint32 maximum_or_nan_pair<bf16>(uint32 a, uint32 b) {
  uint32 larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
#else
template <typename T>
__device__ __forceinline__ uint32 maximum_or_nan_pair(uint32 a, uint32 b) {
  return pack<T>(maximum_or_nan(to_float(T{static_cast<uint16>(a)}), to_float(T{static_cast<uint16>(b)})),
                 maximum_or_nan(to_float(T{static_cast<uint16>(a >> 16)}), to_float(T{static_cast<uint16>(b >> 16)})));
}
#endif

}  // namespace tunesmith
