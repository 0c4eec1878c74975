#include "jit/host/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "tunesmith/error.h"

namespace tunesmith::host {
namespace {

constexpr std::size_t stacks_per_mapping = 64;
// Every guard page splits a mapping, and Linux limits a process to 65530 mappings by default.
constexpr std::size_t max_guarded_stacks = 4096;

}  // namespace

StackPool::~StackPool() {
  for (const Mapping& mapping : mappings_) {
    unpoison(mapping.address, mapping.bytes);
    munmap(mapping.address, mapping.bytes);
  }
}

void StackPool::reserve(std::size_t count) {
  guard_bytes_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  while (stacks_.size() < count) {
    const std::size_t more = std::max(stacks_per_mapping, count - stacks_.size());
    const std::size_t mapped = (more + 1) * bytes();  // one more for alignment
    stacks_.reserve(stacks_.size() + more);
    mappings_.reserve(mappings_.size() + 1);
    void* address =
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (address == MAP_FAILED)
      throw Error(ErrorCode::out_of_memory, "cannot map ", mapped, " bytes for the stacks of ", more,
                  " threads of the host executor");
    mappings_.push_back({address, mapped});
    // A huge page would use 2 MiB for stacks that need a few KiB.
    madvise(address, mapped, MADV_NOHUGEPAGE);
    const auto first = (reinterpret_cast<std::uintptr_t>(address) + bytes() - 1) & ~(std::uintptr_t{bytes()} - 1);
    for (std::size_t i = 0; i < more; ++i) {
      auto* stack = reinterpret_cast<std::byte*>(first + i * bytes());
      if (stacks_.size() < max_guarded_stacks) mprotect(stack, guard_bytes_, PROT_NONE);
      stacks_.push_back(stack);
    }
  }
}

}  // namespace tunesmith::host
