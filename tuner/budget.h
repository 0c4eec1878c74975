#pragma once
// The remaining time of a tuning run, and its cancellation.

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "tunesmith/error.h"

namespace tunesmith {

/// Wall clock of one tuning run. Thread-safe but for restart().
class Budget {
 public:
  /// `now_s` returns seconds from any origin and never goes back; empty: the steady clock.
  Budget(double seconds, const std::atomic<bool>* cancel, std::function<double()> now_s = {})
      : now_s_(now_s ? std::move(now_s) : steady_s), start_s_(now_s_()), total_s_(seconds), cancel_(cancel) {}

  double total_s() const noexcept { return total_s_; }
  double elapsed_s() const { return now_s_() - start_s_; }

  void restart() { start_s_ = now_s_(); }

  /// Throws Error(cancelled).
  void check_wanted() const {
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed))
      throw Error(ErrorCode::cancelled, "tuning was cancelled after ", elapsed_s(), " s; nothing was stored");
  }

 private:
  static double steady_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  std::function<double()> now_s_;
  double start_s_, total_s_;
  const std::atomic<bool>* cancel_;
};

}  // namespace tunesmith
