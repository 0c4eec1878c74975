// Hopper's asynchronous features for the host executor: the functions of templates/device/hopper_cuda.cuh and bulk.cuh on
// the CPU. Change them together. No include guard: see tunesmith_platform_host.h.

namespace tunesmith {

namespace host {
__device__ __forceinline__ tunesmith_host_abi::Thread& self() { return tunesmith_host_abi::current_thread(); }
__device__ __forceinline__ const tunesmith_host_abi::Services& services() { return *tunesmith_host_abi::services; }
/// Returns the object at an address in shared memory, of this block or, after address_of_rank(), of another one.
template <typename T>
__device__ __forceinline__ T* shared_object(uint32 address) {
  void* const object = services().shared_pointer(self(), address, sizeof(T));
  check_aligned("access to shared memory at", object, sizeof(T));
  return static_cast<T*>(object);
}
}  // namespace host

__device__ __forceinline__ uint32 shared_address(const void* object) {
  return host::services().shared_address(host::self(), object);
}

// ---- Barriers in shared memory (mbarrier) -------------------------------------------------------------------------------

__device__ __forceinline__ void barrier_init(uint32 barrier, int arrivals) {
  host::services().barrier_init(host::self(), barrier, arrivals);
}
__device__ __forceinline__ void barriers_ready() {}
__device__ __forceinline__ void barrier_arrive(uint32 barrier) { host::services().barrier_arrive(host::self(), barrier, 0); }
__device__ __forceinline__ void barrier_arrive_expecting(uint32 barrier, int bytes) {
  host::services().barrier_arrive(host::self(), barrier, bytes);
}
__device__ __forceinline__ void barrier_wait(uint32 barrier, uint32 parity) {
  host::services().barrier_wait(host::self(), barrier, parity);
}
__device__ __forceinline__ void barrier_wait_cluster(uint32 barrier, uint32 parity) { barrier_wait(barrier, parity); }

// ---- TMA ----------------------------------------------------------------------------------------------------------------

// Templates, because a source contains the types of tensor maps and of L2 hints only where it uses them.

template <typename Map>
__device__ __forceinline__ void prefetch_tensor_map(const Map&) {}
template <typename Map, typename Hint>
__device__ __forceinline__ void load_tile(uint32 to, const Map& map, uint32 barrier, Hint, int x0, int x1, int x2, int x3) {
  const int at[] = {x0, x1, x2, x3};
  host::services().load_tile(host::self(), to, &map, barrier, at, 4);
}
template <typename Map, typename Hint>
__device__ __forceinline__ void load_tile(uint32 to, const Map& map, uint32 barrier, Hint, int x0, int x1, int x2, int x3,
                                          int x4) {
  const int at[] = {x0, x1, x2, x3, x4};
  host::services().load_tile(host::self(), to, &map, barrier, at, 5);
}
template <typename Hint>
__device__ __forceinline__ void copy_bulk(uint32 to, const void* from, int bytes, uint32 barrier, Hint) {
  host::check_global("copy_bulk from", from, 16);
  host::services().bulk_copy(host::self(), to, from, static_cast<uint32>(bytes), barrier);
}
__device__ __forceinline__ void fence_async_shared() {}

template <typename Map>
__device__ __forceinline__ void store_tile(const Map& map, uint32 from, int x0, int x1, int x2, int x3) {
  const int at[] = {x0, x1, x2, x3};
  host::services().store_tile(host::self(), &map, from, at, 4, false);
}
template <typename Map>
__device__ __forceinline__ void store_tile(const Map& map, uint32 from, int x0, int x1, int x2, int x3, int x4) {
  const int at[] = {x0, x1, x2, x3, x4};
  host::services().store_tile(host::self(), &map, from, at, 5, false);
}
template <typename Map>
__device__ __forceinline__ void add_tile(const Map& map, uint32 from, int x0, int x1, int x2, int x3) {
  const int at[] = {x0, x1, x2, x3};
  host::services().store_tile(host::self(), &map, from, at, 4, true);
}
template <typename Hint>
__device__ __forceinline__ void reduce_add_bulk(float* to, uint32 from, int bytes, Hint) {
  host::check_global("reduce_add_bulk to", to, 16);
  host::services().bulk_store(host::self(), to, from, static_cast<uint32>(bytes), true);
}
template <typename Hint>
__device__ __forceinline__ void store_or_add_bulk(float* to, uint32 from, int bytes, Hint, bool stores) {
  host::check_global("store_or_add_bulk to", to, 16);
  host::services().bulk_store(host::self(), to, from, static_cast<uint32>(bytes), !stores);
}
__device__ __forceinline__ void store_commit() { host::services().store_commit(host::self()); }
/// Like store_wait(): the executor reads shared memory and writes to global memory in one step.
template <int pending>
__device__ __forceinline__ void store_wait_read() {
  host::services().store_wait(host::self(), pending);
}
template <int pending>
__device__ __forceinline__ void store_wait() {
  host::services().store_wait(host::self(), pending);
}

// ---- Warpgroups and their roles -----------------------------------------------------------------------------------------

template <int registers>
__device__ __forceinline__ void give_registers() {}
template <int registers>
__device__ __forceinline__ void take_registers() {}

__device__ __forceinline__ bool elect_one() {
  host::join_warp(host::self(), tunesmith_host_abi::Collective::elect_one);
  return lane_index() == 0;
}
__device__ __forceinline__ void sync_threads(int id, int threads) {
  host::services().meet_threads(host::self(), id, threads, true);
}
__device__ __forceinline__ void arrive_threads(int id, int threads) {
  host::services().meet_threads(host::self(), id, threads, false);
}
__device__ __forceinline__ int count_bits(uint32 bits) { return __builtin_popcount(bits); }

// ---- Blocks that share work ---------------------------------------------------------------------------------------------

__device__ __forceinline__ int64 grid_blocks() { return host::self().grid_blocks; }
__device__ __forceinline__ uint32 atomic_add(uint32* word, uint32 value) {
  host::check_global("atomic_add to", word, 4);
  return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}
__device__ __forceinline__ uint32 atomic_add_in_order(uint32* word, uint32 value) {
  host::check_global("atomic_add_in_order to", word, 4);
  return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL);
}
__device__ __forceinline__ void add_relaxed(uint32* word, uint32 value) { atomic_add(word, value); }
__device__ __forceinline__ uint32 load_relaxed(const uint32* word) {
  host::check_global("load_relaxed from", word, 4);
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}
__device__ __forceinline__ uint32 atomic_cas(uint32* word, uint32 expected, uint32 desired) {
  host::check_global("atomic_cas of", word, 4);
  __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  return expected;
}
/// Runs other fibers until the word has the value; an error if no thread of the grid can change it.
__device__ __forceinline__ void wait_for_count(const uint32* counter, uint32 count) {
  if (load_relaxed(counter) != count) host::services().wait_for_count(host::self(), counter, count);
}
__device__ __forceinline__ void fence_gpu() { __atomic_thread_fence(__ATOMIC_ACQ_REL); }
__device__ __forceinline__ void reduce_add(float* to, const float* values) {
  host::check_global("reduce_add to", to, 16);
  host::services().add_floats(to, values, 4);
}

template <typename Map, typename Hint>
__device__ __forceinline__ void load_tile_multicast(uint32 to, const Map& map, uint32 barrier, Hint, uint32 ranks, int x0,
                                                    int x1, int x2, int x3) {
  const int at[] = {x0, x1, x2, x3};
  const auto in_rank = [](uint32 address, int rank) {
    return (address & 0xffffffu) | static_cast<uint32>(rank + 1) << 24;  // as address_of_rank()
  };
  for (int rank = 0; ranks >> rank != 0; ++rank)
    if ((ranks >> rank & 1) != 0)
      host::services().load_tile(host::self(), in_rank(to, rank), &map, in_rank(barrier, rank), at, 4);
}

__device__ __forceinline__ void cluster_arrive_relaxed() { cluster_arrive(); }
__device__ __forceinline__ uint32 address_of_rank(uint32 address, int rank) {
  return (address & 0xffffffu) | static_cast<uint32>(rank + 1) << 24;
}
__device__ __forceinline__ void barrier_arrive_cluster(uint32 barrier) { barrier_arrive(barrier); }
__device__ __forceinline__ void send_async(uint32 to, uint32 a, uint32 b, uint32 c, uint32 d, uint32 barrier) {
  const uint32 words[] = {a, b, c, d};
  host::services().bulk_copy(host::self(), to, words, sizeof words, barrier);
}

// ---- Registers and shared memory ----------------------------------------------------------------------------------------

template <int bytes>
__device__ __forceinline__ Bits<bytes> load_shared(uint32 address) {
  static_assert(bytes == 8 || bytes == 16, "two words or four");
  return *host::shared_object<Bits<bytes>>(address);
}
__device__ __forceinline__ uint32 load_shared_word(uint32 address) { return *host::shared_object<uint32>(address); }
__device__ __forceinline__ void store_shared_word(uint32 address, uint32 word) {
  *host::shared_object<uint32>(address) = word;
}
__device__ __forceinline__ void store_shared(uint32 address, const uint32 (&words)[4]) {
  *host::shared_object<Bits<16>>(address) = {{words[0], words[1], words[2], words[3]}};
}
__device__ __forceinline__ void store_shared(uint32 address, const float* values) {
  *host::shared_object<Bits<16>>(address) = {
      {bits_of(values[0]), bits_of(values[1]), bits_of(values[2]), bits_of(values[3])}};
}
/// Every lane writes the words that it holds, at the addresses that other lanes pass.
__device__ inline void store_matrices(uint32 row, const uint32 (&words)[4]) {
  const int lane = lane_index();
  const uint64* const rows = host::gather(reinterpret_cast<uint64>(host::shared_object<Bits<16>>(row)),
                                          tunesmith_host_abi::Collective::store_matrix_x4);
  for (int matrix = 0; matrix < 4; ++matrix)
    reinterpret_cast<uint32*>(rows[8 * matrix + lane / 4])[lane % 4] = words[matrix];
  sync_warp();
}
__device__ inline void store_matrices_transposed(uint32 row, const uint32 (&words)[4]) {
  const int lane = lane_index();
  const uint64* const rows = host::gather(reinterpret_cast<uint64>(host::shared_object<Bits<16>>(row)),
                                          tunesmith_host_abi::Collective::store_matrix_x4_transposed);
  for (int matrix = 0; matrix < 4; ++matrix)
    for (int half = 0; half < 2; ++half)
      reinterpret_cast<uint16*>(rows[8 * matrix + lane % 4 * 2 + half])[lane / 4] =
          static_cast<uint16>(words[matrix] >> 16 * half);
  sync_warp();
}

}  // namespace tunesmith
