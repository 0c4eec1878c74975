#pragma once
// Search: compile candidates in parallel, verify each, time them interleaved, keep the winner.

#include <atomic>
#include <functional>
#include <vector>

#include "tuner/build.h"
#include "tuner/select.h"

namespace tunesmith {

struct TuneOptions {
  Effort effort = Effort::full;
  double budget_s = 10;           ///< wall time for one key; the default configuration is measured whatever the budget
  std::function<double()> now_s;  ///< what the budget is measured with: seconds from any origin; empty: the steady clock
  int jobs = 0;                   ///< compile threads; 0: one per core
  bool force = false;             ///< measure anew even when an exact record exists
  std::int64_t memory_cap_bytes = std::int64_t{2} << 30;  ///< for the tuner's own arrays; rows are reduced to fit
  std::uint64_t seed = 1;
  const std::atomic<bool>* cancel = nullptr;  ///< when it becomes true: stop soon, store nothing, throw Error(cancelled)
  /// (done, total, what): called from the tuning thread.
  std::function<void(int, int, const std::string&)> progress;
  /// Called once while candidates compile, before the device is used for the first time: it may wait until another run has
  /// ended on the device, and returns soon when the run is cancelled. The budget starts when it returns. Compile threads
  /// have a low priority, so that they do not disturb the other run. Not called when there is nothing to measure.
  std::function<void()> before_device;
  /// Called once when all compilation has ended, so that another run may compile. Not called when there is nothing to
  /// measure.
  std::function<void()> compiled;
};

/// Returns the seconds within which tuning one key with this budget ends unless a candidate hangs. `start_s` is the time for
/// starting a process, CUDA and NVRTC if it is tuned in a process of its own: 0.5 s on an H200 machine, times 20 for cold
/// disks. When the budget has passed, one compilation, one verification and a few rounds may be under way; they are given
/// the budget once more.
constexpr double tuning_limit_s(double budget_s, double start_s = 10) { return start_s + 2 * budget_s; }

struct TuneResult {
  TuningRecord record;
  std::vector<Trial> trials;  ///< of this and of earlier runs
  double wall_s = 0;          ///< without the time before before_device() returned
  double compile_s = 0;       ///< compiler time, summed over the threads
  int candidates = 0;         ///< in the search space
  /// In this run: compiled (rather than found in the cache), found right, timed. All 0 when there was nothing left to do.
  int compiled = 0, verified = 0, timed = 0;
  /// Of the winner's binary: whether this run compiled it, and how long that took.
  bool winner_compiled = false;
  double winner_compile_ms = 0;
};

/// Tunes one problem and stores record and trials. Works on its own buffers. Unless forced, candidates that have a trial
/// already are not tried again: the missing ones (cut off by a budget, or new in this version) compete with the default and
/// the recorded winner, and without any the record is returned as it is.
///
/// Throws Error(unsupported) on a device that cannot time, Error(invalid_argument) for a problem without work (no rows),
/// Error(out_of_memory) naming the size when its arrays do not fit, Error(verification_failed) when not even the default
/// configuration is right, and whatever the default configuration's compilation throws; other candidates' failures, and
/// what their compilation alone says against them (tuner/acceptance.h), are recorded in their trials. Error(device_failed):
/// a candidate faulted and took the device with it; nothing is stored. `progress` and `cancel` are the only ties to other
/// threads; several runs may be under way at once.
TuneResult tune(const ParsedProblem& problem, const Workbench& bench, const TuneOptions& options);

}  // namespace tunesmith
