// Global memory for CUDA: loads, stores, prefetches and asynchronous copies. Part of platform_cuda.cuh.
#pragma once

#include "device/threads_cuda.cuh"

namespace tunesmith {

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

#define TUNESMITH_LOAD_IF(instruction, policy_operand, ...)                                     \
  if constexpr (bytes == 2)                                                                     \
    asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %2, 0;\n@there " instruction         \
                 ".b16 %0, [%1]" policy_operand(3) ";\n}"                                       \
                 : "+h"(bits.word)                                                              \
                 : "l"(address), "r"(wanted)__VA_ARGS__);                                       \
  else if constexpr (bytes == 4)                                                                \
    asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %2, 0;\n@there " instruction         \
                 ".b32 %0, [%1]" policy_operand(3) ";\n}"                                       \
                 : "+r"(bits.word[0])                                                           \
                 : "l"(address), "r"(wanted)__VA_ARGS__);                                       \
  else if constexpr (bytes == 8)                                                                \
    asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %3, 0;\n@there " instruction         \
                 ".v2.b32 {%0, %1}, [%2]" policy_operand(4) ";\n}"                              \
                 : "+r"(bits.word[0]), "+r"(bits.word[1])                                       \
                 : "l"(address), "r"(wanted)__VA_ARGS__);                                       \
  else if constexpr (bytes == 16)                                                               \
  asm volatile("{\n.reg .pred there;\nsetp.ne.s32 there, %5, 0;\n@there " instruction           \
               ".v4.b32 {%0, %1, %2, %3}, [%4]" policy_operand(6) ";\n}"                        \
               : "+r"(bits.word[0]), "+r"(bits.word[1]), "+r"(bits.word[2]), "+r"(bits.word[3]) \
               : "l"(address), "r"(wanted)__VA_ARGS__)

/// Loads 1 to 16 bytes if `there`, otherwise returns `otherwise`. Predicated, to be issued with the loads around it.
template <int bytes, LoadHint hint>
__device__ __forceinline__ Bits<bytes> load_if(bool there, const void* address, Bits<bytes> otherwise) {
  Bits<bytes> bits = otherwise;
  if constexpr (bytes == 1) bits = there ? load<1, hint>(address) : otherwise;  // there are no 8-bit registers
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

}  // namespace tunesmith
