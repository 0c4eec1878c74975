// ResidentGroup's waits for conditions: words in global memory, mbarriers, named barriers.
#include <chrono>
#include <thread>

#include "jit/host/resident_group.h"

namespace tunesmith::host {

// ---- Waits for other groups ---------------------------------------------------------------------------------------------

void CountWaits::change() {
  const std::lock_guard lock(mutex_);
  ++state_;
  without_progress_ = 0;
}

void CountWaits::leave() {
  const std::lock_guard lock(mutex_);
  --threads_;
  ++state_;
  without_progress_ = 0;
}

std::uint64_t CountWaits::state() const {
  const std::lock_guard lock(mutex_);
  return state_;
}

bool CountWaits::all_wait(std::uint64_t state, std::uint64_t& noted) {
  const std::lock_guard lock(mutex_);
  if (state != state_) return false;
  if (noted != state) ++without_progress_;
  noted = state;
  return without_progress_ == threads_;
}

void ResidentGroup::fail(Fiber& fiber, std::string what) {
  what.insert(0, fiber.group->describe(fiber) + " ");
  // Leaves no memory to the abandoned stack: the temporary frees the buffer that failure_ had.
  fiber.group->failure_ = std::string(std::move(what));
  fiber.group->stop(fiber);
}

// ---- Conditions ---------------------------------------------------------------------------------------------------------

void ResidentGroup::poll(Fiber& fiber, Wait wait) {
  fiber.next_awaiting = awaiting_;
  awaiting_ = &fiber;
  wait_in(fiber, wait);
}

bool ResidentGroup::is_satisfied(Fiber& fiber) noexcept {
  switch (fiber.wait) {
    case Wait::barrier_wait: return completes(*fiber.transaction_barrier, fiber.awaited_value);
    case Wait::sync_threads: return fiber.named_barrier->completed != fiber.awaited_value;
    case Wait::product_wait:
    case Wait::store_wait: return false;
    case Wait::wait_for_count: return __atomic_load_n(fiber.counter, __ATOMIC_ACQUIRE) == fiber.awaited_value;
    default: return tag_in(fiber.awaited_word) == fiber.awaited_tag;
  }
}

template <typename Condition>
void ResidentGroup::wake_if(const Condition& holds) noexcept {
  for (Fiber** link = &awaiting_; *link != nullptr;) {
    Fiber& fiber = **link;
    if (holds(fiber)) {
      *link = fiber.next_awaiting;
      make_ready(*fiber.warp_state, 1u << fiber.lane);
    } else {
      link = &fiber.next_awaiting;
    }
  }
}

bool ResidentGroup::wake_awaiting() noexcept {
  bool others_may_help = false;
  wake_if([&](Fiber& fiber) {
    const bool holds = is_satisfied(fiber);
    others_may_help = others_may_help || (!holds && fiber.wait == Wait::wait_for_count);
    return holds;
  });
  for (const Wait last : {Wait::product_wait, Wait::store_wait})
    if (queue_head_ == nullptr) wake_if([&](const Fiber& fiber) { return fiber.wait == last; });
  return others_may_help;
}

void ResidentGroup::wait_for_progress() noexcept {
  if (!wake_awaiting() || queue_head_ != nullptr) return;
  waits_->change();
  std::uint64_t noted = 0;
  for (int round = 0; queue_head_ == nullptr; ++round) {
    const std::uint64_t state = waits_->state();
    wake_awaiting();
    if (queue_head_ != nullptr || waits_->all_wait(state, noted)) break;
    if (round < 16)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // others may need this core
  }
  waits_->change();
}

void ResidentGroup::await(abi::Thread& thread, const unsigned long long* word, unsigned tag) {
  Fiber& fiber = fiber_of(thread);
  fiber.awaited_word = word;
  fiber.awaited_tag = tag;
  fiber.group->poll(fiber, Wait::await);
}

void ResidentGroup::wait_for_count(abi::Thread& thread, const unsigned* word, unsigned count) {
  Fiber& fiber = fiber_of(thread);
  fiber.counter = word;
  fiber.awaited_value = count;
  fiber.group->poll(fiber, Wait::wait_for_count);
}

// ---- mbarriers ----------------------------------------------------------------------------------------------------------

ResidentGroup::TransactionBarrier& ResidentGroup::barrier_at(Fiber& fiber, unsigned address) {
  if (address % sizeof(TransactionBarrier) != 0) fail(fiber, "uses a barrier that is not aligned to 8 bytes");
  return *static_cast<TransactionBarrier*>(shared_pointer(fiber, address, sizeof(TransactionBarrier)));
}

void ResidentGroup::barrier_init(abi::Thread& thread, unsigned barrier, int arrivals) {
  Fiber& fiber = fiber_of(thread);
  if (arrivals < 1 || arrivals > 0x7fff) fail(fiber, "initializes a barrier for " + std::to_string(arrivals) + " arrivals");
  const auto count = static_cast<std::uint16_t>(arrivals);
  barrier_at(fiber, barrier) = {count, count, 0};
}

void ResidentGroup::barrier_arrive(abi::Thread& thread, unsigned barrier, int announced_bytes) {
  Fiber& fiber = fiber_of(thread);
  TransactionBarrier& found = barrier_at(fiber, barrier);
  if (!found.is_initialized()) fail(fiber, "arrives at a barrier that is not initialized");
  if (found.missing == 0)
    fail(fiber, "arrives at a barrier that all " + std::to_string(found.arrivals) + " have reached; its phase waits for " +
                    std::to_string(found.bytes()) + " bytes");
  found.state += 2 * announced_bytes;
  --found.missing;
  found.complete_if_done();
}

void ResidentGroup::barrier_wait(abi::Thread& thread, unsigned barrier, unsigned parity) {
  Fiber& fiber = fiber_of(thread);
  TransactionBarrier& found = barrier_at(fiber, barrier);
  if (!found.is_initialized()) fail(fiber, "waits at a barrier that is not initialized");
  if (fiber.group->completes(found, parity)) return;
  fiber.transaction_barrier = &found;
  fiber.awaited_value = parity;
  fiber.group->poll(fiber, Wait::barrier_wait);
}

// ---- Named barriers -----------------------------------------------------------------------------------------------------

void ResidentGroup::meet_threads(abi::Thread& thread, int id, int threads, bool waits) {
  Fiber& fiber = fiber_of(thread);
  ResidentGroup& group = *fiber.group;
  if (id < 1 || id > 15 || threads % 32 != 0 || threads < 1 || threads > static_cast<int>(group.threads_))
    fail(fiber, "meets " + std::to_string(threads) + " threads at barrier " + std::to_string(id) +
                    "; allowed: a multiple of 32 in the block, at barriers 1 to 15");
  NamedBarrier& barrier = group.named_barriers_[fiber.block][static_cast<std::size_t>(id)];
  if (barrier.arrived != 0 && barrier.threads != threads)
    fail(fiber, "meets " + std::to_string(threads) + " threads at barrier " + std::to_string(id) + ", where others meet " +
                    std::to_string(barrier.threads));
  barrier.threads = threads;
  fiber.awaited_value = barrier.completed;
  if (++barrier.arrived == static_cast<std::uint32_t>(threads)) {
    barrier.arrived = 0;
    ++barrier.completed;
    return;
  }
  if (!waits) return;
  fiber.named_barrier = &barrier;
  group.poll(fiber, Wait::sync_threads);
}

}  // namespace tunesmith::host
