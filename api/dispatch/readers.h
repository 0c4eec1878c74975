#pragma once
// Counts readers of a lock-free structure, so that a writer knows when no reader can still see a replaced value. Internal.

#include <array>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>

namespace tunesmith {

/// Thread-safe. Threads share counters only by chance, so that entering costs one uncontended atomic addition.
class Readers {
 public:
  static constexpr std::size_t counters = 64;

  /// Counts a reader while it lives.
  class Reading {
   public:
    explicit Reading(std::atomic<std::uint32_t>& counter) noexcept : counter_(counter) {
      counter_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Reading() { counter_.fetch_sub(1, std::memory_order_release); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    std::atomic<std::uint32_t>& counter_;
  };

  Reading enter() const noexcept { return Reading(counters_[of_this_thread()].count); }

  /// Readers that a writer still waits for after it has replaced something: every counter must have been 0 once.
  class Grace {
   public:
    /// Reports whether all readers who entered before the construction have left. Never waits.
    bool is_over(const Readers& readers) noexcept {
      for (std::size_t i = 0; i < counters; ++i)
        if (!passed_[i] && readers.counters_[i].count.load(std::memory_order_seq_cst) == 0) passed_.set(i);
      return passed_.all();
    }

   private:
    std::bitset<counters> passed_;
  };

 private:
  struct alignas(64) Counter {
    std::atomic<std::uint32_t> count{0};
  };

  static std::size_t of_this_thread() noexcept {
    static thread_local const char here = 0;
    return (reinterpret_cast<std::uintptr_t>(&here) >> 4) * 0x9e3779b97f4a7c15U >> 58;
  }

  mutable std::array<Counter, counters> counters_;
};

}  // namespace tunesmith
