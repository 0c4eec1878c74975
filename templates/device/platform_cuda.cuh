// The platform for CUDA: thin wrappers over PTX, so that kernels need no CUDA header. jit/host/tunesmith_platform_host.h has
// the same names for the host executor; change both together.
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

// ---- Clusters (sm_90 and later) -----------------------------------------------------------------------------------------

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

// ---- Blocks that are resident together ----------------------------------------------------------------------------------

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

// ---- Memory -----------------------------------------------------------------------------------------------------------

// Not volatile, so that the compiler creates each policy once per kernel. For sm_80 and later.
__device__ __forceinline__ uint64 evict_first_policy() {
  uint64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
__device__ __forceinline__ uint64 evict_last_policy() {
  uint64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

#if TUNESMITH_SM >= 900
/// Starts a prefetch of bytes of global memory into L2, with the eviction priority of loads with this hint. Both ends are
/// rounded down to multiples of 16 bytes. Called by one thread.
template <LoadHint hint>
__device__ __forceinline__ void prefetch_to_l2(const void* first, int64 bytes) {
  const uint64 begin = reinterpret_cast<uint64>(first) & ~uint64{15};
  const uint64 end = (reinterpret_cast<uint64>(first) + static_cast<uint64>(bytes)) & ~uint64{15};
  if (begin == end) return;
  const uint32 size = static_cast<uint32>(end - begin);
  if constexpr (hint == LoadHint::evict_last)
    asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(begin), "r"(size),
                 "l"(evict_last_policy()));
  else if constexpr (hint == LoadHint::evict_first || hint == LoadHint::streaming)
    asm volatile("cp.async.bulk.prefetch.L2.global.L2::cache_hint [%0], %1, %2;" ::"l"(begin), "r"(size),
                 "l"(evict_first_policy()));
  else
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(begin), "r"(size));
}
#endif

// The macros below take an instruction, the operand of its policy as a string, and the policy if there is one.
#define TUNESMITH_NO_POLICY(operand) ""
#define TUNESMITH_POLICY(operand) ", %" #operand

/// Expands `access` for the load instruction of `hint`.
#define TUNESMITH_IF(name, access)        \
  if constexpr (hint == LoadHint::name) { \
    access;                               \
  } else
#define TUNESMITH_BY_LOAD_HINT(access)                                                                         \
  static_assert(TUNESMITH_SM >= 800 || hint < LoadHint::evict_first, "L2 policies need sm_80 or later");       \
  TUNESMITH_IF(no_allocate, access("ld.global.nc.L1::no_allocate", TUNESMITH_NO_POLICY))                       \
  TUNESMITH_IF(streaming, access("ld.global.cs", TUNESMITH_NO_POLICY))                                         \
  TUNESMITH_IF(evict_first, access("ld.global.L2::cache_hint", TUNESMITH_POLICY, , "l"(evict_first_policy()))) \
  TUNESMITH_IF(evict_last, access("ld.global.L2::cache_hint", TUNESMITH_POLICY, , "l"(evict_last_policy())))   \
  TUNESMITH_IF(stay_in_l1, access("ld.global.L1::evict_last", TUNESMITH_NO_POLICY))                            \
  TUNESMITH_IF(read_only, access("ld.global.nc.L1::evict_last", TUNESMITH_NO_POLICY))                          \
  access("ld.global", TUNESMITH_NO_POLICY);

// Volatile keeps loads in program order with stores, which in-place kernels need. PTX has no 8-bit registers.
#define TUNESMITH_LOAD(instruction, policy_operand, ...)                                                            \
  if constexpr (bytes == 1) {                                                                                       \
    uint16 wide;                                                                                                    \
    asm volatile(instruction ".b8 %0, [%1]" policy_operand(2) ";" : "=h"(wide) : "l"(address)__VA_ARGS__);          \
    bits.word = static_cast<unsigned char>(wide);                                                                   \
  } else if constexpr (bytes == 2)                                                                                  \
    asm volatile(instruction ".b16 %0, [%1]" policy_operand(2) ";" : "=h"(bits.word) : "l"(address)__VA_ARGS__);    \
  else if constexpr (bytes == 4)                                                                                    \
    asm volatile(instruction ".b32 %0, [%1]" policy_operand(2) ";" : "=r"(bits.word[0]) : "l"(address)__VA_ARGS__); \
  else if constexpr (bytes == 8)                                                                                    \
    asm volatile(instruction ".v2.b32 {%0, %1}, [%2]" policy_operand(3) ";"                                         \
                 : "=r"(bits.word[0]), "=r"(bits.word[1])                                                           \
                 : "l"(address)__VA_ARGS__);                                                                        \
  else                                                                                                              \
    asm volatile(instruction ".v4.b32 {%0, %1, %2, %3}, [%4]" policy_operand(5) ";"                                 \
                 : "=r"(bits.word[0]), "=r"(bits.word[1]), "=r"(bits.word[2]), "=r"(bits.word[3])                   \
                 : "l"(address)__VA_ARGS__)

/// Loads `bytes` (1, 2, 4, 8 or 16) from global memory in one instruction; the address is a multiple of `bytes`.
template <int bytes, LoadHint hint>
__device__ __forceinline__ Bits<bytes> load(const void* address) {
  Bits<bytes> bits;
  TUNESMITH_BY_LOAD_HINT(TUNESMITH_LOAD)
  return bits;
}

#define TUNESMITH_LOAD_IF(instruction, policy_operand, ...)                                       \
  if constexpr (bytes == 2)                                                                       \
    asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %2, 0;\n@there " instruction           \
                 ".b16 %0, [%1]" policy_operand(3) ";\n}"                                         \
                 : "+h"(bits.word)                                                                \
                 : "l"(address), "r"(wanted)__VA_ARGS__);                                         \
  else if constexpr (bytes == 4)                                                                  \
    asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %2, 0;\n@there " instruction           \
                 ".b32 %0, [%1]" policy_operand(3) ";\n}"                                         \
                 : "+r"(bits.word[0])                                                             \
                 : "l"(address), "r"(wanted)__VA_ARGS__);                                         \
  else if constexpr (bytes == 8)                                                                  \
    asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %3, 0;\n@there " instruction           \
                 ".v2.b32 {%0, %1}, [%2]" policy_operand(4) ";\n}"                                \
                 : "+r"(bits.word[0]), "+r"(bits.word[1])                                         \
                 : "l"(address), "r"(wanted)__VA_ARGS__);                                         \
  else                                                                                            \
    asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %5, 0;\n@there " instruction           \
                 ".v4.b32 {%0, %1, %2, %3}, [%4]" policy_operand(6) ";\n}"                        \
                 : "+r"(bits.word[0]), "+r"(bits.word[1]), "+r"(bits.word[2]), "+r"(bits.word[3]) \
                 : "l"(address), "r"(wanted)__VA_ARGS__)

/// Loads 2, 4, 8 or 16 bytes if `there`, otherwise returns `otherwise`. Predicated, so that the compiler issues it together
/// with the loads around it.
template <int bytes, LoadHint hint>
__device__ __forceinline__ Bits<bytes> load_if(bool there, const void* address, Bits<bytes> otherwise) {
  Bits<bytes> bits = otherwise;
  const int wanted = there ? 1 : 0;
  TUNESMITH_BY_LOAD_HINT(TUNESMITH_LOAD_IF)
  return bits;
}

#define TUNESMITH_STORE(instruction, policy_operand, ...)                                                                 \
  if constexpr (bytes == 1)                                                                                               \
    asm volatile(instruction ".b8 [%0], %1" policy_operand(2) ";" ::"l"(address),                                         \
                 "h"(static_cast<uint16>(bits.word))__VA_ARGS__                                                           \
                 : "memory");                                                                                             \
  else if constexpr (bytes == 2)                                                                                          \
    asm volatile(instruction ".b16 [%0], %1" policy_operand(2) ";" ::"l"(address), "h"(bits.word)__VA_ARGS__ : "memory"); \
  else if constexpr (bytes == 4)                                                                                          \
    asm volatile(instruction ".b32 [%0], %1" policy_operand(2) ";" ::"l"(address), "r"(bits.word[0])__VA_ARGS__           \
                 : "memory");                                                                                             \
  else if constexpr (bytes == 8)                                                                                          \
    asm volatile(instruction ".v2.b32 [%0], {%1, %2}" policy_operand(3) ";" ::"l"(address), "r"(bits.word[0]),            \
                 "r"(bits.word[1])__VA_ARGS__                                                                             \
                 : "memory");                                                                                             \
  else                                                                                                                    \
    asm volatile(instruction ".v4.b32 [%0], {%1, %2, %3, %4}" policy_operand(5) ";" ::"l"(address), "r"(bits.word[0]),    \
                 "r"(bits.word[1]), "r"(bits.word[2]), "r"(bits.word[3])__VA_ARGS__                                       \
                 : "memory")

/// Stores `bytes` (1, 2, 4, 8 or 16) to global memory in one instruction; the address is a multiple of `bytes`.
template <int bytes, StoreHint hint>
__device__ __forceinline__ void store(void* address, Bits<bytes> bits) {
  static_assert(TUNESMITH_SM >= 800 || hint != StoreHint::evict_first, "L2 eviction policies need sm_80 or later");
  if constexpr (hint == StoreHint::streaming) {
    TUNESMITH_STORE("st.global.cs", TUNESMITH_NO_POLICY);
  } else if constexpr (hint == StoreHint::evict_first) {
    TUNESMITH_STORE("st.global.L2::cache_hint", TUNESMITH_POLICY, , "l"(evict_first_policy()));
  } else {
    TUNESMITH_STORE("st.global", TUNESMITH_NO_POLICY);
  }
}

#undef TUNESMITH_NO_POLICY
#undef TUNESMITH_POLICY
#undef TUNESMITH_IF
#undef TUNESMITH_BY_LOAD_HINT
#undef TUNESMITH_LOAD
#undef TUNESMITH_LOAD_IF
#undef TUNESMITH_STORE

#if TUNESMITH_SM >= 800
/// Copies `bytes` (4, 8 or 16) from global to shared memory, bypassing registers; complete after async_copy_wait. Has no L2
/// eviction policy: ptxas 13.0 encodes a policy and a uniform part of the shared address in the same bits, which is an
/// illegal instruction.
template <int bytes>
__device__ __forceinline__ void async_copy(void* shared, const void* global) {
  const uint32 address = shared_address(shared);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(global), "n"(bytes) : "memory");
}
/// Commits the copies that this thread has issued so far as a group.
__device__ __forceinline__ void async_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `pending` of this thread's groups are incomplete; other threads' copies need a barrier as well.
template <int pending>
__device__ __forceinline__ void async_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
#endif

/// Hides the value from the optimizer, so that the compiler recomputes dependent values instead of keeping them in
/// registers.
__device__ __forceinline__ void forget(uint32& word) { asm volatile("" : "+r"(word)); }
__device__ __forceinline__ void forget(uint16& word) { asm volatile("" : "+h"(word)); }

// ---- Arithmetic -------------------------------------------------------------------------------------------------------

/// Returns `sum + value` if `condition`, else `sum`, in one predicated instruction. A selection of the operand takes two.
__device__ __forceinline__ float add_if(bool condition, float sum, float value) {
  asm("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\t@p add.rn.f32 %0, %0, %2;\n\t}"
      : "+f"(sum)
      : "r"(static_cast<int>(condition)), "f"(value));
  return sum;
}
/// Returns 2^x with a relative error of at most 2^-22; NaN for NaN, 0 for -inf.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// a * b + c, a * b, a + b, a - b, a / b, each rounded once and never contracted, as two-float arithmetic requires.
__device__ __forceinline__ float fused_multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float subtract(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ float divide(float a, float b) { return __fdiv_rn(a, b); }
/// Returns 1 / x within one unit in the last place; 0 for infinities, infinity for denormals.
__device__ __forceinline__ float reciprocal_approx(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Returns the larger argument; if one is NaN, the other.
__device__ __forceinline__ float maximum(float a, float b) { return fmaxf(a, b); }
/// Returns the larger argument, +0 rather than -0; NaN if either is NaN.
__device__ __forceinline__ float maximum_or_nan(float a, float b) {
#if TUNESMITH_SM >= 800
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
#else
  return (a != a || b != b) ? __uint_as_float(0x7fffffffu) : fmaxf(a, b);
#endif
}
__device__ __forceinline__ uint32 bits_of(float value) { return __float_as_uint(value); }
__device__ __forceinline__ float float_of(uint32 bits) { return __uint_as_float(bits); }

// ---- 16-bit floats ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(f16 value) {
  float wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(value.bits));
  return wide;
}
__device__ __forceinline__ float to_float(bf16 value) { return __uint_as_float(static_cast<uint32>(value.bits) << 16); }

/// Rounds to nearest even; overflow gives infinity.
template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float value) {
  f16 narrow;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
  return narrow;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
  bf16 narrow;
#if TUNESMITH_SM >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(value));
#else
  const uint32 bits = __float_as_uint(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  narrow.bits = static_cast<uint16>(is_nan ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
  return narrow;
}

/// Packs two values into a 32-bit word, the first in the low half: one instruction on sm_80 and later.
template <typename T>
__device__ __forceinline__ uint32 pack(float low, float high);
template <>
__device__ __forceinline__ uint32 pack<f16>(float low, float high) {
#if TUNESMITH_SM >= 800
  uint32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return from_float<f16>(low).bits | static_cast<uint32>(from_float<f16>(high).bits) << 16;
#endif
}
template <>
__device__ __forceinline__ uint32 pack<bf16>(float low, float high) {
#if TUNESMITH_SM >= 800
  uint32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#else
  return from_float<bf16>(low).bits | static_cast<uint32>(from_float<bf16>(high).bits) << 16;
#endif
}

/// Elementwise maximum_or_nan of two packed pairs: one instruction on sm_80 and later.
template <typename T>
__device__ __forceinline__ uint32 maximum_or_nan_pair(uint32 a, uint32 b);
#if TUNESMITH_SM >= 800
template <>
__device__ __forceinline__ uint32 maximum_or_nan_pair<f16>(uint32 a, uint32 b) {
  uint32 larger;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
template <>
__device__ __forceinline__ uint32 maximum_or_nan_pair<bf16>(uint32 a, uint32 b) {
  uint32 larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
#else
template <typename T>
__device__ __forceinline__ uint32 maximum_or_nan_pair(uint32 a, uint32 b) {
  return pack<T>(maximum_or_nan(to_float(T{static_cast<uint16>(a)}), to_float(T{static_cast<uint16>(b)})),
                 maximum_or_nan(to_float(T{static_cast<uint16>(a >> 16)}), to_float(T{static_cast<uint16>(b >> 16)})));
}
#endif

// ---- When a block starts ------------------------------------------------------------------------------------------------

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
