#pragma once
// One configuration on its way through a tuning run.

#include <memory>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jit/executable.h"
#include "tuner/build.h"
#include "tuner/statistics.h"
#include "tunesmith/problem.h"

namespace tunesmith {

struct Candidate {
  KernelConfig config;
  bool is_default = false;
  Built built;                                   ///< kept until it is known who wins
  Trial trial;                                   ///< an empty status: not looked at (yet)
  std::unique_ptr<const Executable> executable;  ///< of the timed problem; null: not in the running
  std::vector<double> samples_us;

  bool is_live() const noexcept { return executable != nullptr; }

  /// Keeps what was measured so far in the trial.
  void settle_timed(const std::string& status) {
    const Timing timing = summarize(samples_us);
    trial.status = status;
    trial.median_us = timing.median_us;
    trial.mad_us = timing.mad_us;
    trial.samples = timing.samples;
  }

  /// Removes the candidate from the running, with the reason.
  void settle(const std::string& status, const std::string& reason) {
    trial.status = status;
    trial.reason = reason.substr(0, reason.find('\n'));
    executable.reset();
  }
};

/// Throws Error(device_failed) when the device no longer works after `failure` of what `culprit` names (a kernel that
/// faulted takes the context with it): then no later candidate can be checked.
void require_working(Device& device, const std::string& culprit, const std::string& failure);

}  // namespace tunesmith
