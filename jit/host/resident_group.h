// Runs the blocks that must be resident together (one block, a cluster, or a whole cooperative grid) on one operating system
// thread, with a fiber per CUDA thread. A fiber runs until it waits; the last one to arrive releases the others and
// continues. If no fiber can run and some wait, the kernel has deadlocked: that is an error that names the threads, not a
// hang.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "jit/host/fiber.h"
#include "jit/host/shared_memory.h"
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

class ResidentGroup {
 public:
  explicit ResidentGroup(unsigned stack_shift) : stacks_(stack_shift) {}
  ~ResidentGroup();
  ResidentGroup(const ResidentGroup&) = delete;
  ResidentGroup& operator=(const ResidentGroup&) = delete;

  /// Allocates stacks and shared memory for `blocks` blocks; call it before run(). Throws Error(out_of_memory).
  void prepare(const LaunchShape& shape, const abi::Entry& entry, std::size_t blocks);
  /// Runs blocks until they finish; the blocks of a cluster are consecutive. Throws Error(device_failed) for a fault that
  /// the executor detects; the group can be used again afterwards.
  void run(const std::vector<Dim3>& blocks, const void* params);

  static const abi::Services& services() noexcept;

 private:
  /// What a fiber waits for. The warp collectives come first, in the order of abi::Collective.
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
    sync_block,
    sync_cluster,
    cluster_wait,
    await,
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
  static void async_copy(abi::Thread& thread, void* shared, const void* data, unsigned bytes);
  static void async_copy_commit(abi::Thread& thread);
  static void async_copy_wait(abi::Thread& thread, unsigned pending);
  /// Fails if the thread did not wait for its copies: the kernel lacks a wait.
  static void check_copies_landed(Fiber& fiber);

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
  /// Wakes fibers whose awaited tag is present. Polls the words, so any kind of store works.
  void wake_awaiting() noexcept;
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
  std::size_t threads_ = 0;  // per block
  std::size_t blocks_ = 0;   // resident
  std::size_t cluster_blocks_ = 1;
  std::vector<Dim3> positions_;
  std::vector<Fiber*> fibers_;  // block by block
  std::vector<WarpState> warps_;
  std::vector<Barrier> block_barriers_, cluster_barriers_;
  WarpState* current_ = nullptr;  // the warp that runs; never in the queue
  WarpState *queue_head_ = nullptr, *queue_tail_ = nullptr;
  Fiber* awaiting_ = nullptr;  // fibers whose word had another tag when they looked
  std::size_t running_ = 0;    // fibers that have not returned
  Context caller_;
  std::string failure_;
};

}  // namespace tunesmith::host
