// Stacks and switching between them. A fiber switches directly to the next one, without a scheduler in between.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "jit/host/sanitizer_fiber.h"

namespace tunesmith::host {

/// A suspendable execution: a fiber, or the operating system thread that runs the fibers.
struct Context {
  boost::context::detail::fcontext_t suspended = nullptr;
  Context* going_to = nullptr;
  SanitizerFiber sanitizer;
};

/// Suspends the running context `from` and resumes `to`; returns when another context switches back.
inline void switch_context(Context& from, Context& to) {
  from.going_to = &to;
  from.sanitizer.leave(to.sanitizer, false);
  const auto transfer = boost::context::detail::jump_fcontext(to.suspended, &from);
  auto& previous = *static_cast<Context*>(transfer.data);
  previous.suspended = transfer.fctx;
  from.sanitizer.arrive(previous.sanitizer);
}

/// Resumes `to` and never returns to `from`.
[[noreturn]] inline void leave_context(Context& from, Context& to) {
  from.going_to = &to;
  from.sanitizer.leave(to.sanitizer, true);
  boost::context::detail::jump_fcontext(to.suspended, &from);
  __builtin_unreachable();
}

/// Completes the first switch to a new stack and returns its context.
inline Context& arrived_context(boost::context::detail::transfer_t transfer) {
  auto& previous = *static_cast<Context*>(transfer.data);
  previous.suspended = transfer.fctx;
  Context& self = *previous.going_to;
  self.sanitizer.arrive(previous.sanitizer);
  return self;
}

/// Memory for stacks. Each has 2^shift bytes, is aligned to its size, and has an inaccessible page at its low end.
class StackPool {
 public:
  explicit StackPool(unsigned shift) : shift_(shift) {}
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Allocates stacks until there are `count`. Throws Error(out_of_memory).
  void reserve(std::size_t count);
  /// Returns the lowest address of stack i, the start of its inaccessible page.
  std::byte* bottom(std::size_t i) const noexcept { return stacks_[i]; }
  std::size_t bytes() const noexcept { return std::size_t{1} << shift_; }
  unsigned shift() const noexcept { return shift_; }
  std::size_t guard_bytes() const noexcept { return guard_bytes_; }

 private:
  struct Mapping {
    void* address;
    std::size_t bytes;
  };
  unsigned shift_;
  std::size_t guard_bytes_ = 4096;
  std::vector<std::byte*> stacks_;
  std::vector<Mapping> mappings_;
};

}  // namespace tunesmith::host
