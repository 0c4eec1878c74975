#pragma once
// One problem that is tuned in its own process, which compiles at once and measures when it has its turn.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {

/// Tunes one problem: tune_in_child(), or what a test puts in its place. Uses the GPU only after `turn` is given.
using TuneOne = std::function<Json(const TuneRequest&)>;

class PendingTuning {
 public:
  /// Starts at once. `tune_one` is called on a thread of its own.
  PendingTuning(TuneRequest request, TuneOne tune_one);
  /// Stops it unless it has ended.
  ~PendingTuning();
  PendingTuning(const PendingTuning&) = delete;
  PendingTuning& operator=(const PendingTuning&) = delete;

  void give_turn() noexcept { turn_.give(); }
  /// Also returns when it has ended.
  void wait_until_compiled();
  /// Reports whether it compiles no more.
  bool is_compiled();
  /// Waits for the end for at most `time`. Returns whether it has ended.
  bool wait_for(std::chrono::milliseconds time);
  /// Waits for the end. Throws what `tune_one` threw.
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
