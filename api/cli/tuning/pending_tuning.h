#pragma once
// One problem that is tuned in its own process, which compiles at once and measures after it gets its turn.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {

/// Tunes one problem: tune_in_child(), or a test's replacement. Uses the GPU only after `turn` is given.
using TuneOne = std::function<Json(const TuneRequest&)>;

class PendingTuning {
 public:
  /// Starts at once. Calls `tune_one` on its own thread.
  PendingTuning(TuneRequest request, TuneOne tune_one);
  /// Stops the tuning unless it has ended.
  ~PendingTuning();
  PendingTuning(const PendingTuning&) = delete;
  PendingTuning& operator=(const PendingTuning&) = delete;

  void give_turn() noexcept { turn_.give(); }
  /// Also returns if the tuning has ended.
  void wait_until_compiled();
  /// Reports whether compilation is complete.
  bool is_compiled();
  /// Waits for the end for at most `time`. Returns whether it has ended.
  bool wait_for(std::chrono::milliseconds time);
  /// Waits for the end. Throws the error of `tune_one`.
  Json answer();

 private:
  void finish(bool& step);

  TuneRequest request_;
  const TuneOne tune_one_;
  Turn turn_;
  std::atomic<bool> unwanted_{false};
  std::mutex mutex_;  // guards the members below; the thread alone writes answer_ and failure_
  std::condition_variable changed_;
  bool compiled_ = false, ended_ = false;
  Json answer_;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace tunesmith::cli
