#include "jit/host/resident_group.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <new>

#include "tunesmith/error.h"

namespace tunesmith::host {
namespace {

std::string hex(const void* address) {
  char text[2 + 2 * sizeof address + 1];
  std::snprintf(text, sizeof text, "%p", address);
  return text;
}

}  // namespace

const abi::Services& ResidentGroup::services() noexcept {
  static constexpr abi::Services table = {
      .version = abi::version,
      .sync_block = &sync_block,
      .sync_cluster = &sync_cluster,
      .cluster_arrive = &cluster_arrive,
      .cluster_wait = &cluster_wait,
      .await = &await,
      .join_warp = &join_warp,
      .static_shared = &static_shared,
      .shared_of_rank = &shared_of_rank,
      .misaligned = &misaligned,
      .misaligned_object = &misaligned_object,
      .in_other_memory = &in_other_memory,
      .async_copy = &async_copy,
      .async_copy_commit = &async_copy_commit,
      .async_copy_wait = &async_copy_wait,
      .shared_address = &shared_address,
      .shared_pointer = &shared_pointer,
      .barrier_init = &barrier_init,
      .barrier_arrive = &barrier_arrive,
      .barrier_wait = &barrier_wait,
      .bulk_copy = &bulk_copy,
      .load_tile = &load_tile,
      .store_tile = &store_tile,
      .bulk_store = &bulk_store,
      .add_floats = &add_floats,
      .store_commit = &store_commit,
      .store_wait = &store_wait,
      .meet_threads = &meet_threads,
      .wait_for_count = &wait_for_count,
      .product = &product,
      .product_commit = &product_commit,
      .product_wait = &product_wait,
  };
  return table;
}

void ResidentGroup::prepare(const LaunchShape& shape, const abi::Entry& entry, std::size_t blocks) {
  static_assert(sizeof(Fiber) <= abi::thread_area_bytes && alignof(Fiber) <= 64);
  shape_ = shape;
  entry_ = entry;
  threads_ = shape.block.count();
  blocks_ = blocks;
  cluster_blocks_ = shape.cluster.count();
  shared_.prepare(blocks, shape.dynamic_smem_bytes);

  const std::size_t known = fibers_.size();
  stacks_.reserve(blocks * threads_);
  for (std::size_t i = known; i < blocks * threads_; ++i) {
    const auto bottom = reinterpret_cast<std::uintptr_t>(stacks_.bottom(i));
    abi::Thread* area = abi::thread_at(bottom, stacks_.shift());
    fibers_.push_back(new (static_cast<void*>(area)) Fiber{});
  }
  warps_.assign(blocks * warps_per_block(), WarpState{});
  block_barriers_.resize(blocks);
  cluster_barriers_.resize(blocks / cluster_blocks_);
}

ResidentGroup::~ResidentGroup() {
  for (Fiber* fiber : fibers_) fiber->~Fiber();
}

void ResidentGroup::run(const std::vector<Dim3>& blocks, const void* params, CountWaits& waits) {
  params_ = params;
  waits_ = &waits;
  positions_ = blocks;
  failure_.clear();
  shared_.poison_contents();
  start_fibers(blocks);

  caller_.sanitizer.start_here();
  switch_context(caller_, next());

  const bool completed = running_ == 0 && flights_.empty();
  if (const std::optional<std::size_t> block = shared_.take_overrun(); completed && block)
    throw Error(ErrorCode::device_failed, "kernel '", shape_.entry, "': block ", shape_.block_index(positions_[*block]),
                " writes beyond its ", shape_.dynamic_smem_bytes, " bytes of dynamic shared memory");
  if (completed) return;
  // Unfinished fibers are abandoned; the next run reuses their stacks from the start.
  if (failure_.empty())
    failure_ = running_ != 0 ? describe_divergence()
                             : "its blocks end before " + std::to_string(flights_.size()) +
                                   " copies to shared memory that no thread waits for";
  for (std::size_t i = 0; i < blocks_ * threads_; ++i)
    unpoison(stacks_.bottom(i) + stacks_.guard_bytes(), stacks_.bytes() - stacks_.guard_bytes());
  throw Error(ErrorCode::device_failed, "kernel '", shape_.entry, "': ", failure_);
}

void ResidentGroup::start_fibers(const std::vector<Dim3>& blocks) {
  current_ = queue_head_ = queue_tail_ = nullptr;
  awaiting_ = nullptr;
  block_barriers_.assign(blocks_, {});
  cluster_barriers_.assign(cluster_barriers_.size(), {});
  named_barriers_.assign(blocks_, {});
  flights_.clear();
  running_ = blocks_ * threads_;
  for (std::size_t block = 0; block < blocks_; ++block) {
    for (std::size_t w = 0; w < warps_per_block(); ++w) {
      const std::size_t lanes = std::min<std::size_t>(32, threads_ - w * 32);
      WarpState& warp = warps_[block * warps_per_block() + w];
      warp.generation = warp.votes[0] = warp.votes[1] = 0;
      warp.present = lanes == 32 ? ~0u : (1u << lanes) - 1;
      std::memset(warp.values, 0xff, sizeof warp.values);
      warp.fibers = &fibers_[block * threads_ + w * 32];
      warp.ready = warp.joined = 0;
      warp.queued = false;
      make_ready(warp, warp.present);
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        Fiber& fiber = *warp.fibers[lane];
        const auto thread = static_cast<std::uint32_t>(w * 32 + lane);
        fiber.warp = &warp;
        fiber.dynamic_shared = shared_.dynamic(block);
        fiber.block_index = shape_.block_index(blocks[block]);
        fiber.thread_x = static_cast<int>(thread % shape_.block.x);
        fiber.lane = static_cast<int>(lane);
        fiber.cluster_rank = static_cast<int>(block % cluster_blocks_);
        fiber.cluster_size = static_cast<int>(cluster_blocks_);
        fiber.grid_blocks = static_cast<long long>(shape_.grid.count());
        fiber.shared_begin = reinterpret_cast<std::uintptr_t>(shared_.begin());
        fiber.shared_bytes = shared_.bytes();
        fiber.group = this;
        fiber.warp_state = &warp;
        fiber.block = static_cast<std::uint32_t>(block);
        fiber.thread = thread;
        fiber.wait = Wait::nothing;
        fiber.cluster_arrivals = fiber.cluster_waits = 0;
        fiber.copies.clear();
        fiber.copy_groups = fiber.store_groups = fiber.product_groups = 0;
        fiber.stores.clear();
        fiber.products.clear();
        start_fiber(fiber);
      }
    }
  }
}

void ResidentGroup::start_fiber(Fiber& fiber) {
  std::byte* const bottom = stacks_.bottom(fiber.block * threads_ + fiber.thread) + stacks_.guard_bytes();
  auto* const top = reinterpret_cast<std::byte*>(&fiber);
  const auto bytes = static_cast<std::size_t>(top - bottom);
  fiber.sanitizer.start(bottom, bytes);
  fiber.suspended = boost::context::detail::make_fcontext(top, bytes, &run_fiber);
}

void ResidentGroup::run_fiber(boost::context::detail::transfer_t transfer) {
  auto& fiber = static_cast<Fiber&>(arrived_context(transfer));
  ResidentGroup& group = *fiber.group;
  group.entry_.invoke(group.params_);
  check_complete(fiber);
  fiber.wait = Wait::returned;
  --group.running_;
  leave_context(fiber, group.next());
}

void ResidentGroup::make_ready(WarpState& warp, std::uint32_t lanes) noexcept {
  warp.ready |= lanes;
  if (&warp == current_ || warp.queued || lanes == 0) return;
  warp.queued = true;
  warp.next_ready = nullptr;
  (queue_head_ == nullptr ? queue_head_ : queue_tail_->next_ready) = &warp;
  queue_tail_ = &warp;
}

Context& ResidentGroup::next() noexcept {
  if (current_ == nullptr || current_->ready == 0) {
    current_ = nullptr;
    if (queue_head_ == nullptr) wait_for_progress();
    current_ = queue_head_;
    if (current_ == nullptr) return caller_;
    queue_head_ = current_->next_ready;
    current_->queued = false;
  }
  const int lane = std::countr_zero(current_->ready);
  current_->ready &= current_->ready - 1;
  return *current_->fibers[lane];
}

void ResidentGroup::wait_in(Fiber& fiber, Wait wait) {
  fiber.wait = wait;
  Context& to = next();
  if (&to != &fiber) switch_context(fiber, to);  // nobody else can go on, and what this one waits for has come
  fiber.wait = Wait::nothing;
}

void ResidentGroup::join_warp(abi::Thread& thread, abi::Collective collective) {
  Fiber& fiber = fiber_of(thread);
  WarpState& warp = *fiber.warp_state;
  const std::uint32_t lane = 1u << fiber.lane;
  const auto wait = static_cast<Wait>(collective);
  if (warp.joined != 0 && warp.collective != collective) {
    const Fiber& other = *warp.fibers[std::countr_zero(warp.joined)];
    fiber.wait = wait;
    fiber.group->failure_ = fiber.group->describe(other) + " " + fiber.group->describe_wait(other) + " but " +
                            fiber.group->describe(fiber, &other) + " " + fiber.group->describe_wait(fiber);
    fiber.group->stop(fiber);
  }
  if (collective >= abi::Collective::load_matrix_x4 && warp.present != ~0u) {
    fiber.wait = wait;
    fiber.group->failure_ = fiber.group->describe(fiber) + " " + fiber.group->describe_wait(fiber) + ", whose warp has " +
                            std::to_string(std::popcount(warp.present)) + " threads; all 32 must take part";
    fiber.group->stop(fiber);
  }
  warp.collective = collective;
  warp.joined |= lane;
  if (warp.joined != warp.present) return fiber.group->wait_in(fiber, wait);
  warp.joined = 0;
  ++warp.generation;
  warp.votes[warp.generation & 1u] = 0;  // every lane has read this set of two collectives ago
  fiber.group->make_ready(warp, warp.present & ~lane);
}

void ResidentGroup::sync_block(abi::Thread& thread) {
  Fiber& fiber = fiber_of(thread);
  ResidentGroup& group = *fiber.group;
  Barrier& barrier = group.block_barriers_[fiber.block];
  if (++barrier.arrived != group.threads_) return group.wait_in(fiber, Wait::sync_block);
  barrier.arrived = 0;
  ++barrier.completed;
  for (std::size_t w = 0; w < group.warps_per_block(); ++w) {
    WarpState& warp = group.warps_[fiber.block * group.warps_per_block() + w];
    group.make_ready(warp, &warp == fiber.warp_state ? warp.present & ~(1u << fiber.lane) : warp.present);
  }
}

void ResidentGroup::arrive_at_cluster(Fiber& fiber, const char* what) {
  if (fiber.cluster_arrivals != fiber.cluster_waits) {
    failure_ = describe(fiber) + " calls " + what + " after cluster_arrive; cluster_wait must come first";
    stop(fiber);
  }
  ++fiber.cluster_arrivals;
  Barrier& barrier = cluster_barrier(fiber);
  if (++barrier.arrived != cluster_blocks_ * threads_) return;
  barrier.arrived = 0;
  ++barrier.completed;
  // Wake the fibers that wait already; others may not have reached cluster_wait yet.
  const std::size_t first_block = fiber.block / cluster_blocks_ * cluster_blocks_;
  for (std::size_t w = first_block * warps_per_block(); w < (first_block + cluster_blocks_) * warps_per_block(); ++w) {
    std::uint32_t waiting = 0;
    for (std::uint32_t present = warps_[w].present; present != 0; present &= present - 1) {
      const int lane = std::countr_zero(present);
      const Wait wait = warps_[w].fibers[lane]->wait;
      if (wait == Wait::sync_cluster || wait == Wait::cluster_wait) waiting |= 1u << lane;
    }
    make_ready(warps_[w], waiting);
  }
}

void ResidentGroup::wait_for_cluster(Fiber& fiber, Wait wait) {
  ++fiber.cluster_waits;
  if (cluster_barrier(fiber).completed != fiber.cluster_arrivals) wait_in(fiber, wait);
}

void ResidentGroup::sync_cluster(abi::Thread& thread) {
  Fiber& fiber = fiber_of(thread);
  fiber.group->arrive_at_cluster(fiber, "sync_cluster");
  fiber.group->wait_for_cluster(fiber, Wait::sync_cluster);
}

void ResidentGroup::cluster_arrive(abi::Thread& thread) {
  Fiber& fiber = fiber_of(thread);
  fiber.group->arrive_at_cluster(fiber, "cluster_arrive");
}

void ResidentGroup::cluster_wait(abi::Thread& thread) {
  Fiber& fiber = fiber_of(thread);
  if (fiber.cluster_arrivals == fiber.cluster_waits) {
    fiber.group->failure_ = fiber.group->describe(fiber) + " calls cluster_wait without cluster_arrive before it";
    fiber.group->stop(fiber);
  }
  fiber.group->wait_for_cluster(fiber, Wait::cluster_wait);
}

void* ResidentGroup::static_shared(abi::Thread& thread, const void* key, unsigned long long bytes,
                                   unsigned long long alignment) {
  Fiber& fiber = fiber_of(thread);
  ResidentGroup& group = *fiber.group;
  void* const object = group.shared_.static_object(fiber.block, key, bytes, alignment);
  if (object == nullptr) {
    group.failure_ = "static shared memory of " + std::to_string(group.shared_.static_bytes() + bytes) +
                     " bytes; allowed: at most " + std::to_string(SharedMemory::max_static_bytes);
    group.stop(fiber);
  }
  const std::size_t total = group.shared_.static_bytes() + group.shape_.dynamic_smem_bytes;
  if (total > group.shape_.max_smem_bytes) {
    group.failure_ = "static and dynamic shared memory of " + std::to_string(total) + " bytes; allowed: at most " +
                     std::to_string(group.shape_.max_smem_bytes);
    group.stop(fiber);
  }
  return object;
}

void* ResidentGroup::shared_of_rank(abi::Thread& thread, void* object, int rank) {
  Fiber& fiber = fiber_of(thread);
  ResidentGroup& group = *fiber.group;
  if (rank < 0 || rank >= fiber.cluster_size) {
    group.failure_ = group.describe(fiber) + " calls shared_of_rank for rank " + std::to_string(rank) + " of a cluster of " +
                     std::to_string(fiber.cluster_size);
    group.stop(fiber);
  }
  const std::size_t to = fiber.block / group.cluster_blocks_ * group.cluster_blocks_ + static_cast<std::size_t>(rank);
  void* const twin = group.shared_.twin(object, fiber.block, to);
  if (twin == nullptr) {
    group.failure_ = group.describe(fiber) + " calls shared_of_rank for an object that is not in its block's shared memory";
    group.stop(fiber);
  }
  return twin;
}

// Messages are complete before stop(), which abandons the stack.

void ResidentGroup::misaligned(abi::Thread& thread, const char* access, const void* address, int bytes) {
  Fiber& fiber = fiber_of(thread);
  fiber.group->failure_ = fiber.group->describe(fiber) + ": misaligned " + access + " " + hex(address) +
                          "; the address must be a multiple of " + std::to_string(bytes);
  fiber.group->stop(fiber);
}

void ResidentGroup::misaligned_object(abi::Thread& thread, const char* type, const char* file, unsigned line,
                                      const void* address, int bytes) {
  Fiber& fiber = fiber_of(thread);
  fiber.group->failure_ = fiber.group->describe(fiber) + ": misaligned access to " + type + " at " + hex(address) + " in " +
                          file + ":" + std::to_string(line) + "; the address must be a multiple of " + std::to_string(bytes);
  fiber.group->stop(fiber);
}

void ResidentGroup::in_other_memory(abi::Thread& thread, const char* access, const void* address) {
  Fiber& fiber = fiber_of(thread);
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  const auto on_stack = (place ^ reinterpret_cast<std::uintptr_t>(&fiber)) >> fiber.group->stacks_.shift() == 0;
  const bool shared = place - fiber.shared_begin < fiber.shared_bytes;
  fiber.group->failure_ = fiber.group->describe(fiber) + ": " + access + " " + hex(address) +
                          (shared     ? ", which is in shared memory; the instruction is for global memory"
                           : on_stack ? ", which is a local variable; the instruction is for global memory"
                                      : ", which is not in shared memory");
  fiber.group->stop(fiber);
}

void ResidentGroup::stop(Fiber& fiber) { leave_context(fiber, caller_); }

}  // namespace tunesmith::host
