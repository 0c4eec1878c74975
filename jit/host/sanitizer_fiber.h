// Reports fiber switches to AddressSanitizer and ThreadSanitizer, if the build uses one of them.
#pragma once

#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TUNESMITH_WITH_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TUNESMITH_WITH_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(TUNESMITH_WITH_ASAN)
#define TUNESMITH_WITH_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(TUNESMITH_WITH_TSAN)
#define TUNESMITH_WITH_TSAN 1
#endif

#ifdef TUNESMITH_WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef TUNESMITH_WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace tunesmith::host {

#ifdef TUNESMITH_WITH_ASAN
inline constexpr bool with_asan = true;
inline void poison(const void* address, std::size_t bytes) { ASAN_POISON_MEMORY_REGION(address, bytes); }
inline void unpoison(const void* address, std::size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(address, bytes); }
#else
inline constexpr bool with_asan = false;
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
#endif

/// The sanitizers' state of one stack. Calls do nothing in other builds.
class SanitizerFiber {
 public:
  SanitizerFiber() = default;
  SanitizerFiber(const SanitizerFiber&) = delete;
  SanitizerFiber& operator=(const SanitizerFiber&) = delete;

#ifdef TUNESMITH_WITH_TSAN
  ~SanitizerFiber() {
    if (owned_) __tsan_destroy_fiber(tsan_);
  }
#endif

  /// Registers a stack that is about to run from its beginning.
  void start([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) {
#ifdef TUNESMITH_WITH_ASAN
    bottom_ = bottom;
    bytes_ = bytes;
    fake_stack_ = nullptr;
#endif
#ifdef TUNESMITH_WITH_TSAN
    // Creating a fiber is slow, so reuse it. An abandoned run leaves entries on its shadow call stack, so renew it now and
    // then.
    if (owned_ && ++uses_ % 256 != 0) return;
    if (owned_) __tsan_destroy_fiber(tsan_);
    tsan_ = __tsan_create_fiber(0);
    owned_ = true;
#endif
  }
  /// Registers the operating system thread's own stack before its first switch to a fiber.
  void start_here() {
#ifdef TUNESMITH_WITH_TSAN
    tsan_ = __tsan_get_current_fiber();
#endif
  }

  /// Call before switching from this stack to another; `for_good` if it will not be resumed.
  void leave([[maybe_unused]] const SanitizerFiber& to, [[maybe_unused]] bool for_good) {
#ifdef TUNESMITH_WITH_ASAN
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, to.bottom_, to.bytes_);
#endif
#ifdef TUNESMITH_WITH_TSAN
    __tsan_switch_to_fiber(to.tsan_, 0);
#endif
  }
  /// Call after switching to this stack from another.
  void arrive([[maybe_unused]] SanitizerFiber& from) {
#ifdef TUNESMITH_WITH_ASAN
    __sanitizer_finish_switch_fiber(fake_stack_, &from.bottom_, &from.bytes_);
#endif
  }

 private:
#ifdef TUNESMITH_WITH_ASAN
  void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
#endif
#ifdef TUNESMITH_WITH_TSAN
  void* tsan_ = nullptr;
  bool owned_ = false;
  unsigned uses_ = 0;
#endif
};

}  // namespace tunesmith::host
