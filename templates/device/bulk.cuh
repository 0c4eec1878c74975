// Bulk copies of contiguous bytes through TMA, and messages between the blocks of a cluster with a barrier that counts their
// bytes (sm_90a, CUDA only).
#pragma once

#include "device/hopper.cuh"

#if !defined(TUNESMITH_HOST_EXECUTOR) && (!defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL))

namespace tunesmith {

/// Starts the copy of `bytes`, a multiple of 16, from global to shared memory, both aligned to 16; `barrier` counts them.
/// One thread.
__device__ __forceinline__ void copy_bulk(uint32 to, const void* from, int bytes, uint32 barrier, L2Hint hint) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(static_cast<uint64>(hint))
      : "memory");
}

/// The same address of shared memory in another block of the cluster.
__device__ __forceinline__ uint32 address_of_rank(uint32 address, int rank) {
  uint32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// Stores 16 bytes in the shared memory of a block of the cluster, whose `barrier` counts them. Both are addresses there,
/// `to` a multiple of 16. They are seen by those who waited with barrier_wait_cluster().
__device__ __forceinline__ void send_async(uint32 to, uint32 a, uint32 b, uint32 c, uint32 d, uint32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "r"(a), "r"(b), "r"(c), "r"(d), "r"(barrier)
               : "memory");
}

/// barrier_wait() for what other blocks of the cluster sent.
__device__ __forceinline__ void barrier_wait_cluster(uint32 barrier, uint32 parity) {
  uint32 complete;
  do {
    asm volatile(
        "{\n.reg .pred complete;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n}"
        : "=r"(complete)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (complete == 0);
}

/// Loads 8 or 16 bytes of shared memory.
template <int bytes>
__device__ __forceinline__ Bits<bytes> load_shared(uint32 address) {
  static_assert(bytes == 8 || bytes == 16, "two words or four");
  Bits<bytes> bits;
  if constexpr (bytes == 8)
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(bits.word[0]), "=r"(bits.word[1]) : "r"(address));
  else
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(bits.word[0]), "=r"(bits.word[1]), "=r"(bits.word[2]), "=r"(bits.word[3])
                 : "r"(address));
  return bits;
}

/// atomic_add() by a thread whose earlier accesses are performed before it, and whose later ones after.
__device__ __forceinline__ uint32 atomic_add_in_order(uint32* word, uint32 value) {
  uint32 before;
  asm volatile("fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %0, [%1], %2;\nfence.acq_rel.gpu;"
               : "=r"(before)
               : "l"(word), "r"(value)
               : "memory");
  return before;
}

}  // namespace tunesmith

#endif
