#pragma once
// How long a tuning run may still take, and whether it is still wanted.

#include <algorithm>
#include <atomic>
#include <chrono>

#include "tunesmith/error.h"

namespace tunesmith {

/// Wall clock of one tuning run. Thread-safe but for restart().
class Budget {
 public:
  Budget(double seconds, const std::atomic<bool>* cancel) : total_s_(seconds), cancel_(cancel) {}

  double total_s() const noexcept { return total_s_; }
  double elapsed_s() const noexcept { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  void restart() noexcept { start_ = Clock::now(); }

  /// Throws Error(cancelled).
  void check_wanted() const {
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed))
      throw Error(ErrorCode::cancelled, "tuning was cancelled after ", elapsed_s(), " s; nothing was stored");
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
  double total_s_;
  const std::atomic<bool>* cancel_;
};

}  // namespace tunesmith
