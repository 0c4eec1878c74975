// Bulk copies and sums of contiguous bytes through TMA, stores between the blocks of a cluster that an mbarrier counts, and
// counters in global memory (sm_90a). jit/host/tunesmith_hopper_host.h has the same names; change both together.
#pragma once

#include "device/hopper.cuh"

#if TUNESMITH_HAS_SM90A && !defined(TUNESMITH_HOST_EXECUTOR)

namespace tunesmith {

/// Starts a copy from global to shared memory. `bytes` is a multiple of 16, both addresses are 16-byte aligned, and
/// `barrier` counts the bytes. Called by one thread.
__device__ __forceinline__ void copy_bulk(uint32 to, const void* from, int bytes, uint32 barrier, L2Hint hint) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(static_cast<uint64>(hint))
      : "memory");
}

/// cluster_arrive() that publishes nothing.
__device__ __forceinline__ void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
/// Maps a shared-memory address to the same address in another block of the cluster.
__device__ __forceinline__ uint32 address_of_rank(uint32 address, int rank) {
  uint32 there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}

/// Stores 16 bytes in the shared memory of a block of the cluster; its `barrier` counts them. Both addresses are in that
/// block, `to` is 16-byte aligned. Visible to threads that have waited with barrier_wait_cluster().
__device__ __forceinline__ void send_async(uint32 to, uint32 a, uint32 b, uint32 c, uint32 d, uint32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "r"(a), "r"(b), "r"(c), "r"(d), "r"(barrier)
               : "memory");
}

/// barrier_arrive() at a barrier of a block of the cluster, with an address from address_of_rank(). It publishes no writes:
/// a release at cluster scope would wait for all earlier stores to global memory.
__device__ __forceinline__ void barrier_arrive_cluster(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// barrier_wait() for stores from other blocks of the cluster.
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

/// Starts the addition of float32 values, `bytes` of them, a multiple of 16, from shared to global memory, both aligned to
/// 16; each is added as if alone. One thread, which also closes the group and waits for it (store_commit, store_wait_read).
__device__ __forceinline__ void reduce_add_bulk(float* to, uint32 from, int bytes, L2Hint hint) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%0], [%1], %2, %3;" ::"l"(to),
               "r"(from), "r"(bytes), "l"(static_cast<uint64>(hint))
               : "memory");
}

/// The same, or replaces what is there.
__device__ __forceinline__ void store_or_add_bulk(float* to, uint32 from, int bytes, L2Hint hint, bool stores) {
  asm volatile(
      "{\n.reg .pred stores;\nsetp.ne.u32 stores, %4, 0;\n"
      "@stores cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;\n"
      "@!stores cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%0], [%1], %2, %3;\n}" ::"l"(to),
      "r"(from), "r"(bytes), "l"(static_cast<uint64>(hint)), "r"(static_cast<uint32>(stores))
      : "memory");
}

/// Adds 4 floats to global memory, aligned to 16 bytes, each as if alone.
__device__ __forceinline__ void reduce_add(float* to, const float* values) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values[0]), "f"(values[1]),
               "f"(values[2]), "f"(values[3])
               : "memory");
}

/// Loads a word from shared memory.
__device__ __forceinline__ uint32 load_shared_word(uint32 address) {
  uint32 word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
  return word;
}
/// Stores a word in shared memory.
__device__ __forceinline__ void store_shared_word(uint32 address, uint32 word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}
/// Loads 8 or 16 bytes from shared memory.
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

/// Stores 16 bytes in shared memory, aligned to 16 bytes.
__device__ __forceinline__ void store_shared(uint32 address, const uint32 (&words)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}
/// Stores 4 floats in shared memory, aligned to 16 bytes.
__device__ __forceinline__ void store_shared(uint32 address, const float* values) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(values[0]), "f"(values[1]), "f"(values[2]),
               "f"(values[3])
               : "memory");
}

/// atomic_add() with acquire-release order at GPU scope.
__device__ __forceinline__ uint32 atomic_add_in_order(uint32* word, uint32 value) {
  uint32 before;
  asm volatile("fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %0, [%1], %2;\nfence.acq_rel.gpu;"
               : "=r"(before)
               : "l"(word), "r"(value)
               : "memory");
  return before;
}

/// Loads a word of global memory. Relaxed order, as for the functions below.
__device__ __forceinline__ uint32 load_relaxed(const uint32* word) {
  uint32 value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
/// Replaces the word by `desired` if it is `expected`; returns the old value.
__device__ __forceinline__ uint32 atomic_cas(uint32* word, uint32 expected, uint32 desired) {
  uint32 before;
  asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(before)
               : "l"(word), "r"(expected), "r"(desired)
               : "memory");
  return before;
}
/// Waits until the counter in global memory is `count`.
__device__ __forceinline__ void wait_for_count(const uint32* counter, uint32 count) {
  while (load_relaxed(counter) != count) {
  }
}
/// Makes writes of this thread, and of threads that it has met at a barrier, visible to the GPU before its next writes.
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void add_relaxed(uint32* word, uint32 value) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

}  // namespace tunesmith

#endif
