// The approximate hyperbolic tangent of the special function unit. A file of its own, because few kernels need it.
#pragma once

#include "device/platform.cuh"

#ifndef TUNESMITH_HOST_EXECUTOR  // the host executor's platform layer has its own

namespace tunesmith {

/// Returns tanh(x) with a relative error of at most 2^-11 (PTX ISA, tanh.approx.f32), denormals included; 1 and -1 for
/// infinities.
__device__ __forceinline__ float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace tunesmith

#endif
