// Blocks of a cluster that start (sm_90 and later), beside the barriers of device/platform.cuh.
#pragma once

#include "device/platform.cuh"

#if TUNESMITH_SM >= 900

namespace tunesmith {

/// Tells the cluster that this block runs: cluster_arrive() without the order of memory that nobody asks for yet, and
/// without the fence that it takes. cluster_wait() follows.
__device__ __forceinline__ void cluster_started() {
#ifdef TUNESMITH_HOST_EXECUTOR
  cluster_arrive();
#else
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

}  // namespace tunesmith

#endif
