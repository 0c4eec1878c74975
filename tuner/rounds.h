#pragma once
// Interleaved timing: every round takes one sample of each candidate, in an order of its own.

#include <random>
#include <span>
#include <vector>

#include "tuner/budget.h"
#include "tuner/candidate.h"

namespace tunesmith {

/// When a candidate is given up: after `rounds` samples its median is more than `ratio` times the best one's, noise allowed.
struct DropRule {
  int rounds = 0;
  double ratio = 0;
};

class Rounds {
 public:
  /// `arrays` as Executable::enqueue takes them.
  Rounds(Device& device, std::span<void* const> arrays, const Budget& budget, std::uint64_t seed);

  /// Runs each candidate once, in the given order, and keeps no sample: instruction caches, TLBs and clocks are cold.
  /// Candidates that were not reached before `until_s` are removed, but for the first. Otherwise as sample().
  void warm_up(std::vector<Candidate*>& candidates, double until_s);

  /// Appends one sample to each candidate's samples_us. A candidate that cannot be launched is settled as "launch_failed";
  /// the default's failure is thrown. Returns false when `until_s` (of the budget's clock) passed before the round was
  /// complete. Throws Error(cancelled), and Error(unsupported) from a device that cannot time.
  bool sample(std::vector<Candidate*>& candidates, double until_s);

 private:
  /// Returns how many were reached in time.
  std::size_t pass(std::span<Candidate* const> order, double until_s);
  void time_together(std::span<Candidate* const> candidates);
  void time_alone(Candidate& candidate);

  Device& device_;
  std::span<void* const> arrays_;
  const Budget& budget_;
  std::mt19937_64 random_;
};

/// Settles candidates that the rule gives up as "dropped", and removes them. The default stays.
void drop_slow(std::vector<Candidate*>& candidates, const DropRule& rule);

}  // namespace tunesmith
