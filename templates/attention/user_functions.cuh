// Names for user functions in addition to CUDA's built-ins: the usual constants, sine, cosine and tangent that compile fast,
// and faster hyperbolic tangents.
#pragma once

#include "device/matrix.cuh"
#include "device/tanh.cuh"

namespace user_text {

/// float, also where a source is compiled with another type of that name.
using Real = float;

}  // namespace user_text

// nvcc defines some of these, NVRTC none.
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(user_text::Real, 0x7f800000u)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(user_text::Real, 0x7fffffffu)
#endif
#ifndef FLT_MAX
#define FLT_MAX 0x1.fffffep+127f
#define FLT_MIN 0x1p-126f
#define FLT_EPSILON 0x1p-23f
#endif
#ifndef INT_MAX
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_LOG2E 1.44269504088896340736
#define M_SQRT2 1.41421356237309504880
#endif

namespace user_text {

/// CUDA's functions, never inlined. Each contains a path for large arguments: inlined for every score of a tile in every
/// loop over tiles, sinf, cosf and tanf made a kernel compile for 25 seconds.
struct Outlined {
  static __device__ __attribute__((noinline, const)) float sine(float x) { return ::sinf(x); }
  static __device__ __attribute__((noinline, const)) float cosine(float x) { return ::cosf(x); }
  static __device__ __attribute__((noinline, const)) float tangent(float x) { return ::tanf(x); }
};

// Hides CUDA's functions of the same name in user functions. Functions of double remain CUDA's.
__device__ __forceinline__ float sinf(float x) { return Outlined::sine(x); }
__device__ __forceinline__ float cosf(float x) { return Outlined::cosine(x); }
__device__ __forceinline__ float tanf(float x) { return Outlined::tangent(x); }
__device__ __forceinline__ float sin(float x) { return Outlined::sine(x); }
__device__ __forceinline__ float cos(float x) { return Outlined::cosine(x); }
__device__ __forceinline__ float tan(float x) { return Outlined::tangent(x); }
__device__ __forceinline__ double sin(double x) { return ::sin(x); }
__device__ __forceinline__ double cos(double x) { return ::cos(x); }
__device__ __forceinline__ double tan(double x) { return ::tan(x); }
__device__ __forceinline__ void sincosf(float x, float* sine, float* cosine) {
  *sine = Outlined::sine(x);
  *cosine = Outlined::cosine(x);
}

/// tanh(x) = 1 - 2 / (e^(2 x) + 1) with an error of at most 2^-22, in 5 instructions where CUDA's tanhf has 17 and a branch.
/// Two of them are of the special function unit. Near 0 it has fewer digits than tanhf.
__device__ __forceinline__ float fast_tanhf(float x) {
  constexpr float twice_log2_e = 0x1.715476p+1f;
  const float below = tunesmith::reciprocal_approx(tunesmith::exp2_approx(twice_log2_e * x) + 1.0f);
  return tunesmith::fused_multiply_add(-2.0f, below, 1.0f);
}

/// CUDA's approximate tanh, which compilers before CUDA 13 do not have: one instruction, with a relative error of at most
/// 2^-11.
__device__ __forceinline__ float __tanhf(float x) { return tunesmith::tanh_approx(x); }

}  // namespace user_text
