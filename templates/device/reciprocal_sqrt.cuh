// 1 / sqrt(x), rounded to nearest. A file of its own, because few kernels need it.
#pragma once

#include "device/platform.cuh"

#ifndef TUNESMITH_HOST_EXECUTOR  // the host executor's platform layer has its own

namespace tunesmith {

__device__ __forceinline__ float reciprocal_sqrt(float x) { return __frsqrt_rn(x); }

}  // namespace tunesmith

#endif
