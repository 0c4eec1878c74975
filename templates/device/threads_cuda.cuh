// Threads, blocks and clusters for CUDA: indices, barriers, shuffles and exchanges between blocks. Part of
// platform_cuda.cuh.
#pragma once

#include "device/types.cuh"

// nvcc's host pass defines no architecture, but must parse everything: feature checks compare this macro.
#ifdef __CUDA_ARCH__
#define TUNESMITH_SM __CUDA_ARCH__
#else
#define TUNESMITH_SM 900
#endif

/// Declares `count` objects of `type` in static shared memory, uninitialized.
#define TUNESMITH_SHARED(type, name, count) __shared__ type name[count]

namespace tunesmith {

// ---- Where am I -------------------------------------------------------------------------------------------------------

/// Blocks and grids are one-dimensional for kernels; a grid of more than 2^31 - 1 blocks is folded into y.
__device__ __forceinline__ int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ __forceinline__ int64 block_index() { return static_cast<int64>(blockIdx.y) * gridDim.x + blockIdx.x; }
__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) & 31; }
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) >> 5; }

// ---- Threads together -------------------------------------------------------------------------------------------------

__device__ __forceinline__ void sync_block() { __syncthreads(); }
__device__ __forceinline__ void sync_warp() { __syncwarp(); }

/// Returns the value of the lane whose index differs in the bits of lane_mask. All 32 lanes together.
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_mask) {
  return __shfl_xor_sync(0xffffffffu, value, lane_mask);
}
/// Returns the value of lane `source`. All 32 lanes together.
template <typename T>
__device__ __forceinline__ T shuffle(T value, int source) {
  return __shfl_sync(0xffffffffu, value, source);
}
/// Bit i of the result is lane i's predicate. All 32 lanes together.
__device__ __forceinline__ uint32 ballot(bool predicate) { return __ballot_sync(0xffffffffu, predicate); }
__device__ __forceinline__ bool any_in_warp(bool predicate) { return __any_sync(0xffffffffu, predicate); }
__device__ __forceinline__ bool all_in_warp(bool predicate) { return __all_sync(0xffffffffu, predicate); }

/// Returns the dynamic shared memory of this block, 16-byte aligned (1024 if the launch requests more than 48 KiB).
__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char tunesmith_dynamic_shared[];
  return tunesmith_dynamic_shared;
}

/// Converts a shared-memory address to the 32 bits that PTX takes, so that address arithmetic needs one register.
__device__ __forceinline__ uint32 shared_address(const void* shared) {
  return static_cast<uint32>(__cvta_generic_to_shared(shared));
}

// ---- Clusters (sm_90 and later) ---------------------------------------------------------------------------------------

#if TUNESMITH_SM >= 900
__device__ __forceinline__ int cluster_rank() {
  uint32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ __forceinline__ int cluster_size() {
  uint32 size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return static_cast<int>(size);
}
/// Waits for all threads of the cluster; shared-memory writes before it are visible to the whole cluster after it.
__device__ __forceinline__ void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/// The two halves of sync_cluster, for work between them: every thread arrives, and waits before it arrives again. One such
/// pair at the start of a kernel ensures that all blocks have started before any block accesses another's shared memory. All
/// 32 lanes together.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/// Returns the address of the same object in another block of the cluster.
template <typename T>
__device__ __forceinline__ T* shared_of_rank(T* object, int rank) {
  uint64 address;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(object), "r"(rank));
  return reinterpret_cast<T*>(address);
}
#endif

// ---- Blocks that are resident together --------------------------------------------------------------------------------

// An 8-byte word in global memory transfers 4 bytes between blocks; its upper half is a tag that identifies the exchange
// (NCCL's LL protocol). It takes one store and one load, without fence or barrier, because 8-byte accesses are atomic. They
// are relaxed and order no other writes. A waiting block requires that the other one is resident: a cooperative launch, or
// one cluster.

/// Writes tag and value in one store. The word is 8-byte aligned.
__device__ __forceinline__ void publish(uint64* word, uint32 tag, uint32 value) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(word), "l"(static_cast<uint64>(tag) << 32 | value) : "memory");
}
__device__ __forceinline__ uint64 load_relaxed(const uint64* word) {
  uint64 found;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(found) : "l"(word) : "memory");
  return found;
}
/// Waits for the value with this tag and returns it. If the word gets another tag first, the kernel hangs: use double
/// buffering.
__device__ __forceinline__ uint32 await(const uint64* word, uint32 tag) {
  uint64 found = load_relaxed(word);
  while (static_cast<uint32>(found >> 32) != tag) found = load_relaxed(word);
  return static_cast<uint32>(found);
}
/// Waits for `count` words, `distance` words apart, all in flight at once.
template <int count>
__device__ __forceinline__ void await_each(const uint64* word, int distance, uint32 tag, uint32 (&values)[count]) {
  bool complete;
  do {
    uint64 found[count];
#pragma unroll
    for (int i = 0; i < count; ++i) found[i] = load_relaxed(word + i * distance);
    complete = true;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      complete = complete && static_cast<uint32>(found[i] >> 32) == tag;
      values[i] = static_cast<uint32>(found[i]);
    }
  } while (!complete);
}
/// Returns the current tag of a word. Do not poll with it: await() lets other threads run in the host executor.
__device__ __forceinline__ uint32 tag_of(const uint64* word) { return static_cast<uint32>(load_relaxed(word) >> 32); }

// ---- When a block starts ----------------------------------------------------------------------------------------------

/// Returns the number of multiprocessors, or more if their identifiers have gaps.
__device__ __forceinline__ int multiprocessors() {
  int count;
  asm("mov.u32 %0, %%nsmid;" : "=r"(count));
  return count;
}
/// Waits for about this time.
__device__ __forceinline__ void wait_nanoseconds(int nanoseconds) {
  uint64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)::"memory");
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  } while (now - start < static_cast<uint64>(nanoseconds));
}

}  // namespace tunesmith
