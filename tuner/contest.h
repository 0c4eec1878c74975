#pragma once
// The timing of a tuning run: rounds in which the slow drop out, a final among the fastest, a winner.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tuner/disturbance.h"
#include "tuner/rounds.h"
#include "tuner/tune.h"

namespace tunesmith {

/// Most rounds that a contest takes, for progress reports.
int contest_rounds(Effort effort);

class Contest {
 public:
  Contest(Device& device, std::span<void* const> arrays, const Budget& budget, const TuneOptions& options);

  /// Times the live candidates and settles each that it got to. The first one is the default: it is measured however short
  /// the budget is. `progress` gets the rounds done so far, up to contest_rounds(). Throws what Rounds::sample throws.
  void run(std::vector<Candidate>& candidates, const std::function<void(int, const std::string&)>& progress);

  const Candidate* winner() const noexcept { return winner_; }
  /// "+12%" when the default's time changed by more than 10% between the first and the last rounds, else empty.
  const std::string& drift() const noexcept { return drift_; }
  /// How often the final was measured again, because the default's time changed during it, or because another process came
  /// or left.
  int repeats() const noexcept { return repeats_; }
  /// Causes that disturbed the measurements, as far as the device reports them; empty if there were none.
  std::string disturbance() const { return disturbance_.text(); }

 private:
  void heats(std::vector<Candidate*>& live);
  std::vector<Candidate*> finalists(const std::vector<Candidate*>& live) const;
  void final(std::vector<Candidate*>& finalists);
  /// Replaces the samples of the finalists, the default first. Returns whether the final should be measured again.
  bool measure(std::vector<Candidate*>& finalists);

  const Device& device_;
  const Budget& budget_;
  const TuneOptions& options_;
  Rounds rounds_;
  std::function<void(int, const std::string&)> progress_;
  const Candidate* winner_ = nullptr;
  std::vector<double> first_default_us_;
  std::string drift_;
  int repeats_ = 0;
  Disturbance disturbance_;
};

}  // namespace tunesmith
