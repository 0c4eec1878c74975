// TMA copies to several blocks of a cluster (sm_90a). jit/host/tunesmith_hopper_host.h has the same name for the host
// executor; change both together.
#pragma once

#include "device/bulk.cuh"

#if TUNESMITH_HAS_SM90A && !defined(TUNESMITH_HOST_EXECUTOR)

namespace tunesmith {

/// load_tile() into the shared memory of every block of the cluster whose bit is set in `ranks`, at the same address of
/// each. The barrier at the address of `barrier` in each of these blocks counts the bytes of the full box.
__device__ __forceinline__ void load_tile_multicast(uint32 to, const TensorMap& map, uint32 barrier, L2Hint hint,
                                                    uint32 ranks, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
      " [%0], [%1, {%5, %6, %7, %8}], [%2], %3, %4;" ::"r"(to),
      "l"(&map), "r"(barrier), "h"(static_cast<uint16>(ranks)), "l"(static_cast<uint64>(hint)), "r"(x0), "r"(x1), "r"(x2),
      "r"(x3)
      : "memory");
}

}  // namespace tunesmith

#endif
