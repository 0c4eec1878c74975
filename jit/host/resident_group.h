// Runs the blocks that must be resident together (one block, a cluster, or a whole cooperative grid) on one operating system
// thread, with a fiber per CUDA thread. A fiber runs until it waits; the last one to arrive releases the others and
// continues. If no fiber can run and some wait, the kernel has deadlocked: that is an error that names the threads, not a
// hang.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "jit/host/fiber.h"
#include "jit/host/shared_memory.h"
#include "jit/host/tensor_map.h"
#include "jit/host/tunesmith_host_abi.h"
#include "tunesmith/types.h"

namespace tunesmith::host {

namespace abi = tunesmith_host_abi;

/// The checked geometry of one kernel launch.
struct LaunchShape {
  std::string entry;
  Dim3 grid, block, cluster;
  std::size_t dynamic_smem_bytes = 0;
  std::size_t max_smem_bytes = 0;  // static and dynamic together
  bool cooperative = false;

  /// Returns the linear block index that kernels see.
  std::int64_t block_index(const Dim3& at) const noexcept { return std::int64_t{at.y} * grid.x + at.x; }
};

/// The operating system threads of a launch, which wait for counts that others change. Detects that each waits for another.
/// Thread-safe.
class CountWaits {
 public:
  explicit CountWaits(std::size_t threads) : threads_(threads) {}

  /// Call it when a thread begins to wait: what it wrote before may be what others wait for; and when it goes on.
  void change();
  /// Call it when a thread runs no more groups.
  void leave();
  /// Returns a number that every change increments. Read it before looking for progress.
  std::uint64_t state() const;
  /// Notes that a waiting thread looked in this state and found no progress. Returns whether all threads did, which is a
  /// deadlock. `noted`: the state of the thread's last note, kept by the caller; 0 at first.
  bool all_wait(std::uint64_t state, std::uint64_t& noted);

 private:
  mutable std::mutex mutex_;
  std::size_t threads_;
  std::size_t without_progress_ = 0;  ///< threads that looked since the last change
  std::uint64_t state_ = 1;
};

class ResidentGroup {
 public:
  explicit ResidentGroup(unsigned stack_shift) : stacks_(stack_shift) {}
  ~ResidentGroup();
  ResidentGroup(const ResidentGroup&) = delete;
  ResidentGroup& operator=(const ResidentGroup&) = delete;

  /// Allocates stacks and shared memory for `blocks` blocks; call it before run(). Throws Error(out_of_memory).
  void prepare(const LaunchShape& shape, const abi::Entry& entry, std::size_t blocks);
  /// Runs blocks until they finish; the blocks of a cluster are consecutive. Throws Error(device_failed) for a fault that
  /// the executor detects; the group can be used again afterwards. `waits`: of the launch.
  void run(const std::vector<Dim3>& blocks, const void* params, CountWaits& waits);

  static const abi::Services& services() noexcept;

 private:
  /// The event that a fiber waits for. The warp collectives come first, in the order of abi::Collective.
  enum class Wait : std::uint8_t {
    sync_warp,
    shuffle_xor,
    shuffle,
    ballot,
    any_in_warp,
    all_in_warp,
    load_matrix_x4,
    load_matrix_x4_transposed,
    store_matrix_x4,
    multiply_accumulate,
    elect_one,
    store_matrix_x4_transposed,
    warpgroup_product,
    sync_block,
    sync_cluster,
    cluster_wait,
    await,  // from here to store_wait: conditions that are polled
    barrier_wait,
    sync_threads,
    wait_for_count,
    product_wait,  // products take until no other thread can run
    store_wait,    // stores until no product can complete either, so that what they read is overwritten if it can be
    nothing,
    returned,
  };
  struct WarpState;
  /// An asynchronous copy that is not complete.
  struct Copy {
    void* shared;
    std::uint32_t group, bytes;
    std::array<std::byte, 16> data;
  };
  /// An mbarrier, 8 bytes in shared memory.
  struct TransactionBarrier {
    std::uint16_t arrivals, missing;  ///< of a phase
    std::int32_t state;               ///< twice the bytes that are announced and have not landed, plus the phase's parity

    bool is_initialized() const noexcept { return state != -1 || arrivals != 0xffff; }
    std::uint32_t parity() const noexcept { return static_cast<std::uint32_t>(state) & 1u; }
    std::int32_t bytes() const noexcept { return state >> 1; }
    void complete_if_done() noexcept {
      if (missing != 0 || bytes() != 0) return;
      state ^= 1;
      missing = arrivals;
    }
  };
  struct NamedBarrier {
    std::uint32_t arrived = 0, completed = 0;
    int threads = 0;
  };
  /// A copy to shared memory that has not landed.
  struct Flight {
    TransactionBarrier* barrier;
    unsigned char* to;
    std::uint32_t address;  ///< of `to`
    int swizzle_bytes;
    std::vector<std::byte> data;
  };
  /// A store or an addition from shared to global memory that has not read its source.
  struct BulkStore {
    TensorMap map;  ///< unless there are floats
    std::array<int, TensorMap::max_rank> at;
    float* floats;
    const unsigned char* from;
    std::vector<unsigned char> issued;  ///< what was at `from` when the store was issued
    std::uint32_t address;              ///< of `from`
    std::uint32_t group;
    bool adds;
  };
  struct PendingProduct {
    abi::MatrixProduct product;
    std::vector<float> before;  ///< accumulators, unless an earlier product has not left them
    std::uint32_t group;
  };
  struct Fiber : abi::Thread, Context {
    ResidentGroup* group;
    WarpState* warp_state;
    std::uint32_t block;   // in the group
    std::uint32_t thread;  // linear, in the block
    Wait wait = Wait::nothing;
    std::uint32_t cluster_arrivals, cluster_waits;  // at the cluster's barrier, including the current ones
    std::uint32_t awaited_tag;
    const unsigned long long* awaited_word;
    Fiber* next_awaiting;
    std::vector<Copy> copies;   // in the order of their groups
    std::uint32_t copy_groups;  // groups committed so far; also the number of the open group
    // What barrier_wait, sync_threads and wait_for_count wait for.
    TransactionBarrier* transaction_barrier;
    NamedBarrier* named_barrier;
    const unsigned* counter;
    std::uint32_t awaited_value;  ///< parity, completed phases or count
    std::vector<BulkStore> stores;
    std::vector<PendingProduct> products;
    std::uint32_t store_groups, product_groups;
  };
  struct WarpState : abi::Warp {
    WarpState* next_ready;
    Fiber* const* fibers;  // of lane 0
    std::uint32_t ready;   // bit i: lane i can run
    std::uint32_t joined;  // lanes that wait in `collective`
    abi::Collective collective;
    bool queued;
  };
  struct Barrier {
    std::uint32_t arrived = 0;
    std::uint32_t completed = 0;
  };

  static void run_fiber(boost::context::detail::transfer_t transfer);
  static void sync_block(abi::Thread& thread);
  static void sync_cluster(abi::Thread& thread);
  static void cluster_arrive(abi::Thread& thread);
  static void cluster_wait(abi::Thread& thread);
  static void await(abi::Thread& thread, const unsigned long long* word, unsigned tag);
  static void join_warp(abi::Thread& thread, abi::Collective collective);
  static void* static_shared(abi::Thread& thread, const void* key, unsigned long long bytes, unsigned long long alignment);
  static void* shared_of_rank(abi::Thread& thread, void* object, int rank);
  static void misaligned(abi::Thread& thread, const char* access, const void* address, int bytes);
  static void misaligned_object(abi::Thread& thread, const char* type, const char* file, unsigned line, const void* address,
                                int bytes);
  static void in_other_memory(abi::Thread& thread, const char* access, const void* address);
  static void async_copy(abi::Thread& thread, void* shared, const void* data, unsigned bytes);
  static void async_copy_commit(abi::Thread& thread);
  static void async_copy_wait(abi::Thread& thread, unsigned pending);
  /// Fails if the thread has not waited for its copies, stores or products: the kernel lacks a wait.
  static void check_complete(Fiber& fiber);

  static unsigned shared_address(abi::Thread& thread, const void* object);
  static void* shared_pointer(abi::Thread& thread, unsigned address, unsigned bytes);
  static void barrier_init(abi::Thread& thread, unsigned barrier, int arrivals);
  static void barrier_arrive(abi::Thread& thread, unsigned barrier, int announced_bytes);
  static void barrier_wait(abi::Thread& thread, unsigned barrier, unsigned parity);
  static void meet_threads(abi::Thread& thread, int id, int threads, bool waits);
  static void wait_for_count(abi::Thread& thread, const unsigned* word, unsigned count);
  static void bulk_copy(abi::Thread& thread, unsigned to, const void* from, unsigned bytes, unsigned barrier);
  static void load_tile(abi::Thread& thread, unsigned to, const void* map, unsigned barrier, const int* at, int rank);
  static void store_tile(abi::Thread& thread, const void* map, unsigned from, const int* at, int rank, bool adds);
  static void bulk_store(abi::Thread& thread, float* to, unsigned from, unsigned bytes, bool adds);
  static void add_floats(float* to, const float* values, unsigned count);
  static void store_commit(abi::Thread& thread);
  static void store_wait(abi::Thread& thread, unsigned pending);
  static void product(abi::Thread& thread, const abi::MatrixProduct& product);
  static void product_commit(abi::Thread& thread);
  static void product_wait(abi::Thread& thread, unsigned pending);

  static TransactionBarrier& barrier_at(Fiber& fiber, unsigned address);
  static TensorMap tensor_map_at(Fiber& fiber, const void* map, int rank);
  [[noreturn]] static void fail(Fiber& fiber, std::string what);
  /// Lets copies that the barrier counts land until its phase is complete; returns whether it is.
  bool completes(TransactionBarrier& barrier, std::uint32_t parity) noexcept;
  static void write(const BulkStore& store);

  /// Reads the upper half of an exchange word, atomically because blocks outside of this group may write it.
  static std::uint32_t tag_in(const unsigned long long* word) noexcept {
    return static_cast<std::uint32_t>(__atomic_load_n(word, __ATOMIC_RELAXED) >> 32);
  }
  static Fiber& fiber_of(abi::Thread& thread) noexcept { return static_cast<Fiber&>(thread); }

  void start_fibers(const std::vector<Dim3>& blocks);
  void start_fiber(Fiber& fiber);
  void make_ready(WarpState& warp, std::uint32_t lanes) noexcept;
  /// Returns the next fiber that can run, or the context of run(), which finds out why there is none.
  Context& next() noexcept;
  void wait_in(Fiber& fiber, Wait wait);
  Barrier& cluster_barrier(const Fiber& fiber) noexcept { return cluster_barriers_[fiber.block / cluster_blocks_]; }
  void arrive_at_cluster(Fiber& fiber, const char* what);
  void wait_for_cluster(Fiber& fiber, Wait wait);
  void poll(Fiber& fiber, Wait wait);
  bool is_satisfied(Fiber& fiber) noexcept;
  template <typename Condition>
  void wake_if(const Condition& holds) noexcept;
  static bool is_polled(Wait wait) noexcept { return wait >= Wait::await && wait <= Wait::store_wait; }
  /// Wakes fibers whose condition holds; if there are none, those that wait for products, and then for stores. Returns
  /// whether one of the others waits for a count that other groups may change. Polls, so any kind of store works.
  bool wake_awaiting() noexcept;
  /// Wakes fibers whose condition holds, and waits for other groups if that may help.
  void wait_for_progress() noexcept;
  /// Ends the run because of failure_. The caller's stack is abandoned, so it must hold nothing that needs a destructor.
  [[noreturn]] void stop(Fiber& fiber);

  std::string describe(const Fiber& fiber, const Fiber* relative_to = nullptr) const;
  std::string describe_wait(const Fiber& fiber) const;
  std::string describe_divergence() const;
  const Fiber* missing_partner(const Fiber& fiber) const;
  bool leads_to_await(const Fiber& fiber) const;

  std::size_t warps_per_block() const noexcept { return (threads_ + 31) / 32; }

  StackPool stacks_;
  SharedMemory shared_;
  LaunchShape shape_;
  abi::Entry entry_{};
  const void* params_ = nullptr;
  CountWaits* waits_ = nullptr;
  std::size_t threads_ = 0;  // per block
  std::size_t blocks_ = 0;   // resident
  std::size_t cluster_blocks_ = 1;
  std::vector<Dim3> positions_;
  std::vector<Fiber*> fibers_;  // block by block
  std::vector<WarpState> warps_;
  std::vector<Barrier> block_barriers_, cluster_barriers_;
  std::vector<std::array<NamedBarrier, 16>> named_barriers_;  // of each block
  std::vector<Flight> flights_;                               // in the order in which they began
  WarpState* current_ = nullptr;                              // the warp that runs; never in the queue
  WarpState *queue_head_ = nullptr, *queue_tail_ = nullptr;
  Fiber* awaiting_ = nullptr;  // fibers whose condition did not hold when they looked
  std::size_t running_ = 0;    // fibers that have not returned
  Context caller_;
  std::string failure_;
};

}  // namespace tunesmith::host
