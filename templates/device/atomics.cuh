// Atomic updates of global memory that return nothing, in relaxed order.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

__device__ __forceinline__ void atomic_add_float(float* sum, float value) {
#ifdef TUNESMITH_HOST_EXECUTOR
  float before, after;
  __atomic_load(sum, &before, __ATOMIC_RELAXED);
  do after = before + value;
  while (!__atomic_compare_exchange(sum, &before, &after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
#else
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(sum), "f"(value) : "memory");
#endif
}

/// Modulo 2^64, so that it serves signed integers, too.
__device__ __forceinline__ void atomic_add_integer(uint64* sum, uint64 value) {
#ifdef TUNESMITH_HOST_EXECUTOR
  __atomic_fetch_add(sum, value, __ATOMIC_RELAXED);
#else
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(sum), "l"(value) : "memory");
#endif
}

__device__ __forceinline__ void atomic_maximum(uint32* largest, uint32 value) {
#ifdef TUNESMITH_HOST_EXECUTOR
  uint32 before = __atomic_load_n(largest, __ATOMIC_RELAXED);
  while (before < value &&
         !__atomic_compare_exchange_n(largest, &before, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
#else
  asm volatile("red.relaxed.gpu.global.max.u32 [%0], %1;" ::"l"(largest), "r"(value) : "memory");
#endif
}

}  // namespace tunesmith
