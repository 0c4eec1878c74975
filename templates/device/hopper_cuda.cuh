// Hopper's asynchronous features for CUDA, as in platform_cuda.cuh. jit/host/tunesmith_hopper_host.h has the same names for
// the host executor; change both together.
#pragma once

#include "device/platform_cuda.cuh"
#include "device/tensor_map.cuh"

namespace tunesmith {

// ---- Barriers in shared memory (mbarrier) -------------------------------------------------------------------------------

// A barrier has 8 bytes, 8-byte aligned. A phase completes when `arrivals` threads have arrived and all announced bytes have
// been copied. A wait names the parity of the phase: 0, 1, 0, ... On a new barrier, a wait for parity 1 returns at once, so
// a producer finds every stage free at the start.

/// Called by one thread, followed by barriers_ready() and a block barrier before other threads use it.
__device__ __forceinline__ void barrier_init(uint32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialized barriers visible to TMA.
__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void barrier_arrive(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives and announces bytes of copies. Call it before issuing those copies.
__device__ __forceinline__ void barrier_arrive_expecting(uint32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
/// Returns whether the phase is complete; may sleep for a while before it returns false.
__device__ __forceinline__ bool barrier_try(uint32 barrier, uint32 parity) {
  uint32 complete;
  asm volatile(
      "{\n.reg .pred complete;\nmbarrier.try_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n}"
      : "=r"(complete)
      : "r"(barrier), "r"(parity)
      : "memory");
  return complete != 0;
}
/// Waits for the phase. Every thread that reads copied data must wait.
__device__ __forceinline__ void barrier_wait(uint32 barrier, uint32 parity) {
  while (!barrier_try(barrier, parity)) {
  }
}

// ---- TMA ----------------------------------------------------------------------------------------------------------------

/// Prefetches the map. Called by one thread.
__device__ __forceinline__ void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// Starts the copy of a box to shared memory. The coordinates of its first element start with dimension 0 and may be out of
/// bounds. `to` is 128-byte aligned, for full tiles with a 128-byte swizzle 1024-byte aligned. `barrier` counts the bytes of
/// the full box, zero fill included. Called by one thread.
__device__ __forceinline__ void load_tile(uint32 to, const TensorMap& map, uint32 barrier, L2Hint hint, int x0, int x1,
                                          int x2, int x3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
      "l"(&map), "r"(barrier), "l"(static_cast<uint64>(hint)), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}
__device__ __forceinline__ void load_tile(uint32 to, const TensorMap& map, uint32 barrier, L2Hint hint, int x0, int x1,
                                          int x2, int x3, int x4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(to),
      "l"(&map), "r"(barrier), "l"(static_cast<uint64>(hint)), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
      : "memory");
}

/// Makes this thread's writes to shared memory visible to TMA and the tensor cores. Every writing thread calls it before the
/// barrier that precedes the TMA store (or the wgmma).
__device__ __forceinline__ void fence_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Starts the copy of a box from shared memory to the array; elements out of bounds are not written. Called by one thread,
/// which also commits and waits.
__device__ __forceinline__ void store_tile(const TensorMap& map, uint32 from, int x0, int x1, int x2, int x3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
               "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
               : "memory");
}
__device__ __forceinline__ void store_tile(const TensorMap& map, uint32 from, int x0, int x1, int x2, int x3, int x4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(&map),
               "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
               : "memory");
}
/// store_tile() that adds the tile to what is there, each sum rounded to the map's element type.
__device__ __forceinline__ void add_tile(const TensorMap& map, uint32 from, int x0, int x1, int x2, int x3) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
      "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3)
      : "memory");
}
__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until at most `pending` of this thread's groups still read shared memory; the others' memory may be overwritten.
template <int pending>
__device__ __forceinline__ void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
/// Waits until at most `pending` of this thread's groups are incomplete. The block must not exit before their reads are
/// done.
template <int pending>
__device__ __forceinline__ void store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

// ---- Warpgroups and their roles -----------------------------------------------------------------------------------------

/// Releases registers to the block's pool or acquires them (waits until they are available): 24 to 256 per thread, a
/// multiple of 8. Called by all four warps of a warpgroup. The pool is the kernel's registers per thread times its threads,
/// not the multiprocessor's 64K. Without __launch_bounds__(threads, 1) the compiler ignores both (warning C7508).
template <int registers>
__device__ __forceinline__ void give_registers() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "a multiple of 8, 24 to 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void take_registers() {
  static_assert(registers % 8 == 0 && registers >= 24 && registers <= 256, "a multiple of 8, 24 to 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

/// Returns true in one lane of the warp, always the same one. All 32 lanes together.
__device__ __forceinline__ bool elect_one() {
  uint32 elected;
  asm volatile("{\n.reg .pred elected;\nelect.sync _|elected, 0xffffffff;\nselp.u32 %0, 1, 0, elected;\n}" : "=r"(elected));
  return elected != 0;
}

/// Waits at barrier `id` (1 to 15; sync_block uses 0) for `threads` threads of the block, a multiple of 32.
__device__ __forceinline__ void sync_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Arrives at the barrier without waiting; `threads` counts arriving and waiting threads.
__device__ __forceinline__ void arrive_threads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Returns the number of bits that are 1.
__device__ __forceinline__ int count_bits(uint32 bits) {
  int count;
  asm("popc.b32 %0, %1;" : "=r"(count) : "r"(bits));
  return count;
}

// ---- Blocks that share work ---------------------------------------------------------------------------------------------

__device__ __forceinline__ int64 grid_blocks() { return static_cast<int64>(gridDim.x) * gridDim.y; }
/// Adds to a word in global memory, atomically for the whole GPU; returns the old value. Relaxed order.
__device__ __forceinline__ uint32 atomic_add(uint32* word, uint32 value) {
  uint32 before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
  return before;
}

// ---- Registers to shared memory -----------------------------------------------------------------------------------------

/// Stores four 8x8 matrices of 16-bit elements: two packed accumulators side by side. Lane 8*i + r passes the address of row
/// r of matrix i (16 bytes); lane l holds elements 2*(l%4) and 2*(l%4) + 1 of row l/4 of each. All 32 lanes together.
__device__ __forceinline__ void store_matrices(uint32 row, const uint32 (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]), "r"(words[1]),
               "r"(words[2]), "r"(words[3])
               : "memory");
}
/// Stores each matrix transposed.
__device__ __forceinline__ void store_matrices_transposed(uint32 row, const uint32 (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}

}  // namespace tunesmith
