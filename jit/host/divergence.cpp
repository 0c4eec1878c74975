// ResidentGroup's account of threads that wait for one another in vain.
#include <algorithm>

#include "jit/host/resident_group.h"

namespace tunesmith::host {

// "thread (3,0,0) of block 5"; the block is left out when it is that of `beside`.
std::string ResidentGroup::describe(const Fiber& fiber, const Fiber* beside) const {
  const std::uint32_t x = fiber.thread % shape_.block.x;
  const std::uint32_t y = fiber.thread / shape_.block.x % shape_.block.y;
  const std::uint32_t z = fiber.thread / shape_.block.x / shape_.block.y;
  std::string text = "thread (" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + ")";
  if (beside == nullptr || beside->block != fiber.block) text += " of block " + std::to_string(fiber.block_index);
  return text;
}

std::string ResidentGroup::describe_wait(const Fiber& fiber) const {
  static constexpr const char* names[] = {"sync_warp",   "shuffle_xor", "shuffle",    "ballot",
                                          "any_in_warp", "all_in_warp", "sync_block", "sync_cluster"};
  switch (fiber.wait) {
    case Wait::nothing: return "runs";
    case Wait::returned: return "has returned";
    case Wait::sync_block:
      return "waits at sync_block (#" + std::to_string(block_barriers_[fiber.block].completed + 1) + ")";
    case Wait::sync_cluster:
      return "waits at sync_cluster (#" + std::to_string(cluster_barriers_[fiber.block / cluster_blocks_].completed + 1) +
             ")";
    default: return std::string("waits in ") + names[static_cast<int>(fiber.wait)];
  }
}

const ResidentGroup::Fiber* ResidentGroup::missing_partner(const Fiber& fiber) const {
  std::size_t first = fiber.block * threads_;
  std::size_t last = first + threads_;
  if (fiber.wait == Wait::sync_cluster) {
    first = fiber.block / cluster_blocks_ * cluster_blocks_ * threads_;
    last = first + cluster_blocks_ * threads_;
  } else if (fiber.wait != Wait::sync_block) {
    first += fiber.thread / 32 * 32;
    last = std::min(last, first + 32);
  }
  for (std::size_t i = first; i < last; ++i)
    if (fibers_[i]->wait != fiber.wait) return fibers_[i];
  return nullptr;
}

// The cause rather than its consequences: when some thread waits for one that has returned, that is the one to report.
std::string ResidentGroup::describe_divergence() const {
  const Fiber* waiting = nullptr;
  const Fiber* missing = nullptr;
  for (std::size_t i = 0; i < blocks_ * threads_; ++i) {
    const Fiber& fiber = *fibers_[i];
    if (fiber.wait == Wait::returned) continue;
    const Fiber* const partner = missing_partner(fiber);
    if (partner == nullptr) continue;
    if (missing == nullptr || partner->wait == Wait::returned) {
      waiting = &fiber;
      missing = partner;
      if (missing->wait == Wait::returned) break;
    }
  }
  if (waiting == nullptr) return "the host executor lost its threads";
  return describe(*waiting) + " " + describe_wait(*waiting) + " but " + describe(*missing, waiting) + " " +
         describe_wait(*missing);
}

}  // namespace tunesmith::host
