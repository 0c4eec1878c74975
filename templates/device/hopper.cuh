// Hopper's asynchronous features (sm_90a): mbarriers, TMA, register reallocation between warpgroups, under the same names on
// the GPU and in the host executor; device/wgmma.cuh has the tensor cores. Only sm_90a templates include this file: it is
// empty for other architectures.
#pragma once

#include "device/platform.cuh"
#include "device/tensor_map.cuh"

/// 1 if the features of sm_90a are there. Also in nvcc's pass for the host, which needs the declarations.
#undef TUNESMITH_HAS_SM90A
#if defined(TUNESMITH_HOST_EXECUTOR)
#define TUNESMITH_HAS_SM90A (TUNESMITH_SM == 900)
#elif !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TUNESMITH_HAS_SM90A 1
#else
#define TUNESMITH_HAS_SM90A 0
#endif

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// A slot in a ring of `count` stages and the parity of its barriers, which flips every round.
template <int count>
struct Stage {
  int index = 0;
  uint32 parity = 0;
  __device__ __forceinline__ void next() {
    if (++index == count) {
      index = 0;
      parity ^= 1;
    }
  }
};

/// L2 eviction priority of a TMA copy: the encodings that createpolicy returns for a fraction of 1.
enum class L2Hint : uint64 {
  evict_normal = 0x1000000000000000ull,
  evict_first = 0x12F0000000000000ull,  ///< read once: Q
  evict_last = 0x14F0000000000000ull,   ///< read by many blocks: K and V
};

}  // namespace tunesmith

#ifdef TUNESMITH_HOST_EXECUTOR
#include <tunesmith_hopper_host.h>
#else
#include "device/hopper_cuda.cuh"
#endif

#endif
