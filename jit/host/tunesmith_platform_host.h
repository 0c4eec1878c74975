// The platform of the host executor: the functions of templates/device/platform_cuda.cuh on the CPU. Change both together.
// No include guard: a library of several kernels holds one copy per source, each in a namespace. A thread is a fiber; every
// wait goes through tunesmith_host_abi::Services.

/// Declares static shared memory: an array of `count` objects of `type` per block, filled with 0xFF bytes.
#undef TUNESMITH_SHARED
#define TUNESMITH_SHARED(type, name, count)                                                      \
  static char name##_key;                                                                        \
  type(&name)[count] = *static_cast<type(*)[count]>(tunesmith_host_abi::services->static_shared( \
      tunesmith_host_abi::current_thread(), &name##_key, sizeof(type[count]), alignof(type)))

namespace tunesmith {

// ---- Indices ----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ int thread_index() { return tunesmith_host_abi::current_thread().thread_x; }
__device__ __forceinline__ int64 block_index() { return tunesmith_host_abi::current_thread().block_index; }
__device__ __forceinline__ int multiprocessors() { return 1; }
__device__ __forceinline__ int lane_index() { return thread_index() & 31; }
__device__ __forceinline__ int warp_index() { return thread_index() >> 5; }

// ---- Checks of addresses ------------------------------------------------------------------------------------------------

namespace host {
__device__ __forceinline__ void check_aligned(const char* access, const void* address, int bytes) {
  if ((reinterpret_cast<uint64>(address) & static_cast<uint64>(bytes - 1)) != 0)
    tunesmith_host_abi::services->misaligned(tunesmith_host_abi::current_thread(), access, address, bytes);
}
__device__ __forceinline__ bool in_shared(const tunesmith_host_abi::Thread& thread, const void* address) {
  return reinterpret_cast<uint64>(address) - thread.shared_begin < thread.shared_bytes;
}
/// Fails if an address of an instruction for global memory is in shared memory or on this thread's stack.
__device__ __forceinline__ void check_global(const char* access, const void* address) {
  tunesmith_host_abi::Thread& thread = tunesmith_host_abi::current_thread();
  const uint64 from_stack = reinterpret_cast<uint64>(address) ^ reinterpret_cast<uint64>(&thread);
  if (in_shared(thread, address) || from_stack >> tunesmith_host_abi::stack_shift == 0)
    tunesmith_host_abi::services->in_other_memory(thread, access, address);
}
__device__ __forceinline__ void check_global(const char* access, const void* address, int bytes) {
  check_aligned(access, address, bytes);
  check_global(access, address);
}
/// Fails if an address of an instruction for shared memory is elsewhere.
__device__ __forceinline__ void check_shared(const char* access, const void* address, int bytes) {
  check_aligned(access, address, bytes);
  tunesmith_host_abi::Thread& thread = tunesmith_host_abi::current_thread();
  if (!in_shared(thread, address)) tunesmith_host_abi::services->in_other_memory(thread, access, address);
}
}  // namespace host

// ---- Warps and blocks -------------------------------------------------------------------------------------------------

__device__ __forceinline__ void sync_block() {
  tunesmith_host_abi::services->sync_block(tunesmith_host_abi::current_thread());
}

namespace host {
/// Waits for the lanes of the warp and returns the index of the set that holds their values.
__device__ __forceinline__ uint32 join_warp(tunesmith_host_abi::Thread& thread, tunesmith_host_abi::Collective collective) {
  const uint32 set = thread.warp->generation & 1u;
  tunesmith_host_abi::services->join_warp(thread, collective);
  return set;
}
}  // namespace host

__device__ __forceinline__ void sync_warp() {
  host::join_warp(tunesmith_host_abi::current_thread(), tunesmith_host_abi::Collective::sync_warp);
}

__device__ __forceinline__ void wait_nanoseconds(int) {}
/// Reads the first and the last byte, so that the address sanitizer checks the range.
template <LoadHint hint>
__device__ __forceinline__ void prefetch_to_l2(const void* first, int64 bytes) {
  host::check_global("prefetch of", first);
  const auto* const range = static_cast<const volatile unsigned char*>(first);
  static_cast<void>(range[0]);
  static_cast<void>(range[bytes - 1]);
}

namespace host {
/// Returns the value of each lane of the warp; read it before this lane's next collective.
__device__ __forceinline__ const uint64* gather(uint64 mine, tunesmith_host_abi::Collective collective) {
  tunesmith_host_abi::Thread& thread = tunesmith_host_abi::current_thread();
  thread.warp->values[thread.warp->generation & 1u][thread.lane] = mine;
  return thread.warp->values[join_warp(thread, collective)];
}
__device__ __forceinline__ uint64 two_words(uint32 low, uint32 high) { return static_cast<uint64>(high) << 32 | low; }

template <typename T>
__device__ __forceinline__ T exchange(T value, int source, tunesmith_host_abi::Collective collective) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  tunesmith_host_abi::Thread& thread = tunesmith_host_abi::current_thread();
  __builtin_memcpy(&thread.warp->values[thread.warp->generation & 1u][thread.lane], &value, sizeof(T));
  const uint32 set = host::join_warp(thread, collective);
  T result;
  __builtin_memcpy(&result, &thread.warp->values[set][source], sizeof(T));
  return result;
}
}  // namespace host

/// Returns the value of the lane whose index differs in the bits of lane_mask. All existing lanes must take part; the value
/// of a lane beyond the end of a partial warp is undefined (0xFF bytes here).
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int lane_mask) {
  const int lane = tunesmith_host_abi::current_thread().lane;
  const int source = lane ^ lane_mask;
  return host::exchange(value, source >= 0 && source < 32 ? source : lane, tunesmith_host_abi::Collective::shuffle_xor);
}
template <typename T>
__device__ __forceinline__ T shuffle(T value, int source) {
  return host::exchange(value, source & 31, tunesmith_host_abi::Collective::shuffle);
}

namespace host {
__device__ __forceinline__ uint32 vote(bool predicate, tunesmith_host_abi::Collective collective) {
  tunesmith_host_abi::Thread& thread = tunesmith_host_abi::current_thread();
  tunesmith_host_abi::Warp& warp = *thread.warp;
  warp.votes[warp.generation & 1u] |= static_cast<uint32>(predicate) << thread.lane;
  return warp.votes[host::join_warp(thread, collective)];
}
}  // namespace host
__device__ __forceinline__ uint32 ballot(bool predicate) {
  return host::vote(predicate, tunesmith_host_abi::Collective::ballot);
}
__device__ __forceinline__ bool any_in_warp(bool predicate) {
  return host::vote(predicate, tunesmith_host_abi::Collective::any_in_warp) != 0;
}
__device__ __forceinline__ bool all_in_warp(bool predicate) {
  return host::vote(predicate, tunesmith_host_abi::Collective::all_in_warp) ==
         tunesmith_host_abi::current_thread().warp->present;
}

/// Returns the dynamic shared memory, aligned to 1024 bytes if the launch requests more than 48 KiB, otherwise only to 16.
__device__ __forceinline__ unsigned char* dynamic_shared() { return tunesmith_host_abi::current_thread().dynamic_shared; }

// ---- Clusters (sm_90 and later) -----------------------------------------------------------------------------------------

#if TUNESMITH_SM >= 900
__device__ __forceinline__ int cluster_rank() { return tunesmith_host_abi::current_thread().cluster_rank; }
__device__ __forceinline__ int cluster_size() { return tunesmith_host_abi::current_thread().cluster_size; }
__device__ __forceinline__ void sync_cluster() {
  tunesmith_host_abi::services->sync_cluster(tunesmith_host_abi::current_thread());
}
__device__ __forceinline__ void cluster_arrive() {
  tunesmith_host_abi::services->cluster_arrive(tunesmith_host_abi::current_thread());
}
__device__ __forceinline__ void cluster_wait() {
  tunesmith_host_abi::services->cluster_wait(tunesmith_host_abi::current_thread());
}
template <typename T>
__device__ __forceinline__ T* shared_of_rank(T* object, int rank) {
  return static_cast<T*>(tunesmith_host_abi::services->shared_of_rank(
      tunesmith_host_abi::current_thread(), const_cast<void*>(static_cast<const volatile void*>(object)), rank));
}
#endif

// ---- Cooperative launches -----------------------------------------------------------------------------------------------

__device__ __forceinline__ void publish(uint64* word, uint32 tag, uint32 value) {
  host::check_global("publish to", word, 8);
  __atomic_store_n(word, static_cast<uint64>(tag) << 32 | value, __ATOMIC_RELAXED);
}
/// Runs other fibers until the word has the tag; an error if no fiber remains that could publish it.
__device__ __forceinline__ uint32 await(const uint64* word, uint32 tag) {
  host::check_global("await of", word, 8);
  uint64 found = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (static_cast<uint32>(found >> 32) != tag) {
    tunesmith_host_abi::services->await(tunesmith_host_abi::current_thread(), word, tag);
    found = __atomic_load_n(word, __ATOMIC_RELAXED);
  }
  return static_cast<uint32>(found);
}
template <int count>
__device__ __forceinline__ void await_each(const uint64* word, int distance, uint32 tag, uint32 (&values)[count]) {
  for (int i = 0; i < count; ++i) values[i] = await(word + i * distance, tag);
}
__device__ __forceinline__ uint32 tag_of(const uint64* word) {
  host::check_global("tag_of", word, 8);
  return static_cast<uint32>(__atomic_load_n(word, __ATOMIC_RELAXED) >> 32);
}

// ---- Memory -----------------------------------------------------------------------------------------------------------

template <int bytes, LoadHint hint>
__device__ __forceinline__ Bits<bytes> load(const void* address) {
  static_assert(TUNESMITH_SM >= 800 || (hint != LoadHint::evict_first && hint != LoadHint::evict_last),
                "this architecture has no L2 eviction policies (sm_80 and later have)");
  host::check_global("load from", address, bytes);
  Bits<bytes> bits;
  __builtin_memcpy(&bits, address, sizeof bits);
  return bits;
}

template <int bytes, LoadHint hint>
__device__ __forceinline__ Bits<bytes> load_if(bool there, const void* address, Bits<bytes> otherwise) {
  return there ? load<bytes, hint>(address) : otherwise;
}

template <int bytes, StoreHint hint>
__device__ __forceinline__ void store(void* address, Bits<bytes> bits) {
  static_assert(TUNESMITH_SM >= 800 || hint != StoreHint::evict_first,
                "this architecture has no L2 eviction policies (sm_80 and later have)");
  host::check_global("store to", address, bytes);
  __builtin_memcpy(address, &bits, sizeof bits);
}

#if TUNESMITH_SM >= 800
// Placeholders, so that kernels with L2 eviction policies compile.
__device__ __forceinline__ uint64 evict_first_policy() { return 0; }
__device__ __forceinline__ uint64 evict_last_policy() { return 0; }

/// Starts an asynchronous copy. Reads the source here, so that a fault shows the caller; async_copy_wait writes the
/// destination.
template <int bytes>
__device__ __forceinline__ void async_copy(void* shared, const void* global) {
  static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async moves 4, 8 or 16 bytes");
  host::check_aligned("async_copy to", shared, bytes);
  host::check_global("async_copy from", global, bytes);
  Bits<bytes> bits;
  __builtin_memcpy(&bits, global, sizeof bits);
  tunesmith_host_abi::services->async_copy(tunesmith_host_abi::current_thread(), shared, &bits, sizeof bits);
}
__device__ __forceinline__ void async_copy_commit() {
  tunesmith_host_abi::services->async_copy_commit(tunesmith_host_abi::current_thread());
}
template <int pending>
__device__ __forceinline__ void async_copy_wait() {
  static_assert(pending >= 0, "a number of groups");
  tunesmith_host_abi::services->async_copy_wait(tunesmith_host_abi::current_thread(), pending);
}
#endif

// ---- Arithmetic -------------------------------------------------------------------------------------------------------

__device__ __forceinline__ uint32 bits_of(float value) {
  uint32 bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
__device__ __forceinline__ float float_of(uint32 bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

/// Does nothing on the host, where no register pressure needs to be relieved.
inline void forget(uint32&) {}
inline void forget(uint16&) {}

/// Computes 2^x, more exactly than the GPU. Flushes denormal results to 0, like ex2.approx.ftz.
__device__ __forceinline__ float exp2_approx(float x) { return x < -126.0f ? 0.0f : __builtin_exp2f(x); }
__device__ __forceinline__ float fused_multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// The library is compiled with -ffp-contract=off.
__device__ __forceinline__ float multiply(float a, float b) { return a * b; }
__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float add_if(bool condition, float sum, float value) { return condition ? sum + value : sum; }
__device__ __forceinline__ float subtract(float a, float b) { return a - b; }
__device__ __forceinline__ float divide(float a, float b) { return a / b; }
/// Computes 1/x, more exactly than the GPU. Flushes denormal inputs and results to 0, like rcp.approx.ftz.
__device__ __forceinline__ float reciprocal_approx(float x) {
  if (__builtin_fabsf(x) < 0x1.0p-126f) return __builtin_copysignf(__builtin_inff(), x);
  const float y = 1.0f / x;
  return __builtin_fabsf(y) < 0x1.0p-126f ? __builtin_copysignf(0.0f, x) : y;
}
/// Computes 1 / sqrt(x), rounded like __frsqrt_rn: float64 has more than twice the digits.
__device__ __forceinline__ float reciprocal_sqrt(float x) {
  return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x)));
}
/// Computes tanh(x), more exactly than the GPU.
__device__ __forceinline__ float tanh_approx(float x) { return __builtin_tanhf(x); }
/// Returns the maximum, or NaN (0x7fffffff) if an operand is NaN. +0 is larger than -0, as in PTX.
__device__ __forceinline__ float maximum_or_nan(float a, float b) {
  if (a > b) return a;
  if (a < b) return b;
  return a == b ? float_of(bits_of(a) & bits_of(b)) : float_of(0x7fffffffu);
}
__device__ __forceinline__ float maximum(float a, float b) {
  if (a != a) return b == b ? b : float_of(0x7fffffffu);
  return b == b ? maximum_or_nan(a, b) : a;
}

// ---- 16-bit floats ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(f16 value) {
  const uint32 sign = static_cast<uint32>(value.bits & 0x8000u) << 16;
  const uint32 magnitude = value.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x0400u) return float_of(sign | ((magnitude << 13) + (112u << 23)));
  return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24f));
}
__device__ __forceinline__ float to_float(bf16 value) { return float_of(static_cast<uint32>(value.bits) << 16); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float value) {
  const uint32 sign = bits_of(value) >> 16 & 0x8000u;
  const uint32 magnitude = bits_of(value) & 0x7fffffffu;
  uint32 narrow;
  if (magnitude > 0x7f800000u) return f16{0x7fff};
  if (magnitude >= 0x477ff000u)  // 65520 and beyond round to infinity
    narrow = 0x7c00u;
  else if (magnitude >= 0x38800000u)  // normal: rebias the exponent, round on the 13 bits that go
    narrow = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  else  // denormal: adding 1/2 leaves multiples of 2^-24 in the low bits, rounded by the addition itself
    narrow = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  return f16{static_cast<uint16>(sign | narrow)};
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float value) {
  const uint32 bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16{0x7fff};
  return bf16{static_cast<uint16>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

template <typename T>
__device__ __forceinline__ uint32 pack(float low, float high);
template <>
__device__ __forceinline__ uint32 pack<f16>(float low, float high) {
  return from_float<f16>(low).bits | static_cast<uint32>(from_float<f16>(high).bits) << 16;
}
template <>
__device__ __forceinline__ uint32 pack<bf16>(float low, float high) {
  return from_float<bf16>(low).bits | static_cast<uint32>(from_float<bf16>(high).bits) << 16;
}

template <typename T>
__device__ __forceinline__ uint32 maximum_or_nan_pair(uint32 a, uint32 b) {
  return pack<T>(maximum_or_nan(to_float(T{static_cast<uint16>(a)}), to_float(T{static_cast<uint16>(b)})),
                 maximum_or_nan(to_float(T{static_cast<uint16>(a >> 16)}), to_float(T{static_cast<uint16>(b >> 16)})));
}

}  // namespace tunesmith
