// ResidentGroup's deadlock reports.
#include <algorithm>
#include <cstdio>

#include "jit/host/resident_group.h"

namespace tunesmith::host {

// Returns "thread (3,0,0) of block 5". Omits the block if `relative_to` is in the same one.
std::string ResidentGroup::describe(const Fiber& fiber, const Fiber* relative_to) const {
  const std::uint32_t x = fiber.thread % shape_.block.x;
  const std::uint32_t y = fiber.thread / shape_.block.x % shape_.block.y;
  const std::uint32_t z = fiber.thread / shape_.block.x / shape_.block.y;
  std::string text = "thread (" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
  if (relative_to == nullptr || relative_to->block != fiber.block) text += " of block " + std::to_string(fiber.block_index);
  return text;
}

std::string ResidentGroup::describe_wait(const Fiber& fiber) const {
  static constexpr const char* names[] = {"sync_warp",
                                          "shuffle_xor",
                                          "shuffle",
                                          "ballot",
                                          "any_in_warp",
                                          "all_in_warp",
                                          "load_matrix_x4",
                                          "load_matrix_x4_transposed",
                                          "store_matrix_x4",
                                          "multiply_accumulate_16x8x16",
                                          "elect_one",
                                          "store_matrices_transposed",
                                          "wgmma"};
  switch (fiber.wait) {
    case Wait::nothing: return "runs";
    case Wait::returned: return "has returned";
    case Wait::sync_block:
      return "waits at sync_block (#" + std::to_string(block_barriers_[fiber.block].completed + 1) + ")";
    case Wait::sync_cluster:
    case Wait::cluster_wait:
      return std::string(fiber.wait == Wait::sync_cluster ? "waits at sync_cluster" : "waits in cluster_wait") + " (#" +
             std::to_string(fiber.cluster_arrivals) + ")";
    case Wait::await: {
      char text[96];
      std::snprintf(text, sizeof text, "waits in await for tag %u in the word at %p, which has tag %u", fiber.awaited_tag,
                    static_cast<const void*>(fiber.awaited_word), tag_in(fiber.awaited_word));
      return text;
    }
    case Wait::barrier_wait:
      return "waits at a barrier for phase " + std::to_string(fiber.awaited_value) + ", which lacks " +
             std::to_string(fiber.transaction_barrier->missing) + " arrivals and " +
             std::to_string(fiber.transaction_barrier->bytes()) + " bytes";
    case Wait::sync_threads:
      return "waits in sync_threads, where " + std::to_string(fiber.named_barrier->arrived) + " of " +
             std::to_string(fiber.named_barrier->threads) + " threads are";
    case Wait::wait_for_count:
      return "waits for the count " + std::to_string(fiber.awaited_value) + " of a word that is " +
             std::to_string(__atomic_load_n(fiber.counter, __ATOMIC_RELAXED));
    default: return std::string("waits in ") + names[static_cast<int>(fiber.wait)];
  }
}

// Returns the first thread that this one waits for; none if any thread could make the awaited condition true.
const ResidentGroup::Fiber* ResidentGroup::missing_partner(const Fiber& fiber) const {
  if (is_polled(fiber.wait)) return nullptr;
  std::size_t first = fiber.block * threads_;
  std::size_t last = first + threads_;
  if (fiber.wait == Wait::sync_cluster || fiber.wait == Wait::cluster_wait) {
    first = fiber.block / cluster_blocks_ * cluster_blocks_ * threads_;
    last = first + cluster_blocks_ * threads_;
    for (std::size_t i = first; i < last; ++i)
      if (fibers_[i]->cluster_arrivals != fiber.cluster_arrivals) return fibers_[i];
    return nullptr;
  }
  if (fiber.wait != Wait::sync_block) {
    first += fiber.thread / 32 * 32;
    last = std::min(last, first + 32);
  }
  for (std::size_t i = first; i < last; ++i)
    if (fibers_[i]->wait != fiber.wait) return fibers_[i];
  return nullptr;
}

// Reports whether this thread waits, directly or through others, for one that awaits a condition. A chain of partners goes
// from lanes to block to cluster; a longer chain is a cycle.
bool ResidentGroup::leads_to_await(const Fiber& fiber) const {
  const Fiber* at = &fiber;
  for (int step = 0; at != nullptr && step < 8; ++step) {
    if (is_polled(at->wait)) return true;
    at = at->wait == Wait::returned ? nullptr : missing_partner(*at);
  }
  return false;
}

// Reports the cause and not its consequences: first a thread that waits for one that has returned, then threads that wait
// for each other, then a condition that no thread can make true.
std::string ResidentGroup::describe_divergence() const {
  const Fiber* waiting = nullptr;
  const Fiber* missing = nullptr;
  const Fiber* awaiting = nullptr;
  std::size_t await_count = 0;
  for (std::size_t i = 0; i < blocks_ * threads_; ++i) {
    const Fiber& fiber = *fibers_[i];
    if (fiber.wait == Wait::returned) continue;
    if (is_polled(fiber.wait) && await_count++ == 0) awaiting = &fiber;
    const Fiber* const partner = missing_partner(fiber);
    if (partner == nullptr) continue;
    if (partner->wait == Wait::returned || (missing == nullptr && !leads_to_await(*partner))) {
      waiting = &fiber;
      missing = partner;
      if (missing->wait == Wait::returned) break;
    }
  }
  if (waiting != nullptr)
    return describe(*waiting) + " " + describe_wait(*waiting) + " but " + describe(*missing, waiting) + " " +
           describe_wait(*missing);
  if (awaiting == nullptr) return "no thread can run, and none waits (a defect of the host executor)";
  const bool is_word = awaiting->wait == Wait::await;
  std::string text = describe(*awaiting) + " " + describe_wait(*awaiting) + ", and no thread is left to " +
                     (is_word ? "publish it" : "change that");
  if (await_count > 1) text += "; " + std::to_string(await_count - 1) + (is_word ? " more wait in await" : " more wait");
  if (!shape_.cooperative && blocks_ < shape_.grid.count())
    text += "; only blocks of a cluster or of a cooperative launch are guaranteed to run concurrently";
  return text;
}

}  // namespace tunesmith::host
