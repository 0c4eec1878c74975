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
  double budget_s = 10;  ///< wall time for one key; the default configuration is measured whatever the budget
  int jobs = 0;          ///< compile threads; 0: one per core
  bool force = false;    ///< measure anew even when an exact record exists
  std::int64_t memory_cap_bytes = std::int64_t{2} << 30;  ///< for the tuner's own arrays; rows are reduced to fit
  std::uint64_t seed = 1;
  const std::atomic<bool>* cancel = nullptr;  ///< when it becomes true: stop soon, store nothing, throw Error(cancelled)
  /// (done, total, what): called from the tuning thread.
  std::function<void(int, int, const std::string&)> progress;
};

struct TuneResult {
  TuningRecord record;
  std::vector<Trial> trials;
  double wall_s = 0, compile_s = 0;
  int candidates = 0, compiled = 0, verified = 0, timed = 0;
};

/// Tunes one problem and stores record and trials. Works on its own buffers. Throws Error(unsupported) on a device that
/// cannot time, Error(verification_failed) when not even the default configuration is right, and whatever the default
/// configuration's compilation throws; other candidates' failures are recorded in their trials.
TuneResult tune(const Op& op, const Problem& problem, const Workbench& bench, const TuneOptions& options);

}  // namespace tunesmith
