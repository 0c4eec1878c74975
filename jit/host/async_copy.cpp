// ResidentGroup's asynchronous copies. The destination is filled with 0xFF bytes (NaNs) at once and gets its new contents
// only when the copying thread waits. So a kernel that reads too early, or overwrites data that others still read, fails
// here every time, not occasionally on a GPU.
#include <algorithm>
#include <cstring>

#include "jit/host/resident_group.h"

namespace tunesmith::host {

void ResidentGroup::async_copy(abi::Thread& thread, void* shared, const void* data, unsigned bytes) {
  Fiber& fiber = fiber_of(thread);
  ResidentGroup& group = *fiber.group;
  if (!group.shared_.contains(fiber.block, shared, bytes)) {
    group.failure_ = group.describe(fiber) + " copies asynchronously to an address that is not in its block's shared memory";
    group.stop(fiber);
  }
  Copy& copy = fiber.copies.emplace_back();
  copy.shared = shared;
  copy.group = fiber.copy_groups;
  copy.bytes = bytes;
  std::memcpy(copy.data.data(), data, bytes);
  std::memset(shared, 0xff, bytes);
}

void ResidentGroup::async_copy_commit(abi::Thread& thread) { ++fiber_of(thread).copy_groups; }

void ResidentGroup::async_copy_wait(abi::Thread& thread, unsigned pending) {
  Fiber& fiber = fiber_of(thread);
  const std::uint32_t landed_groups = fiber.copy_groups - std::min(fiber.copy_groups, pending);
  auto at = fiber.copies.begin();
  for (; at != fiber.copies.end() && at->group < landed_groups; ++at) std::memcpy(at->shared, at->data.data(), at->bytes);
  fiber.copies.erase(fiber.copies.begin(), at);
}

void ResidentGroup::check_complete(Fiber& fiber) {
  const auto check = [&](std::size_t count, const char* what) {
    if (count != 0) fail(fiber, "returns without waiting for " + std::to_string(count) + what);
  };
  check(fiber.copies.size(), " of its asynchronous copies");
  check(fiber.stores.size(), " of its stores through TMA");
  check(fiber.products.size(), " of its warpgroup's products");
}

}  // namespace tunesmith::host
