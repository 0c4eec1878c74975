#pragma once
// The candidates of a tuning run: all, or only those without a trial in earlier runs with the same key.

#include <optional>
#include <string>
#include <vector>

#include "tuner/tune.h"

namespace tunesmith {

struct Worklist {
  std::vector<Config> configs;         ///< to be looked at, the default first; empty: nothing is left to do
  std::optional<TuningRecord> record;  ///< the existing record, unless it is to be ignored
  std::vector<Trial> trials;           ///< of the record's runs
  int candidates = 0;                  ///< in the search space
};

/// Without force, candidates that have a trial are not tried again: the missing ones are measured together with the default
/// and the recorded winner. A record without trials, one that ships, only adds its winner. A stale record is measured anew
/// in full as soon as something is missing.
Worklist plan_work(const ParsedProblem& problem, const Workbench& bench, const TuningKey& key, const TuneOptions& options);

/// New trials replace old ones of the same configuration.
std::vector<Trial> merge_trials(std::vector<Trial> earlier, const std::vector<Trial>& now);

}  // namespace tunesmith
