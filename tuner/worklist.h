#pragma once
// What a tuning run has to look at: everything, or only what earlier runs with the same key have not.

#include <optional>
#include <string>
#include <vector>

#include "tuner/tune.h"

namespace tunesmith {

struct Worklist {
  std::vector<Config> configs;         ///< to be looked at, the default first; empty: nothing is left to do
  std::optional<TuningRecord> record;  ///< what there is already, unless it is to be ignored
  std::vector<Trial> trials;           ///< of the record's runs
  int candidates = 0;                  ///< in the search space
  int neighbours = 0;                  ///< records whose trials chose `configs`; 0: nothing was left out
  std::vector<Config> more;            ///< Shortlist::more
  std::vector<double> predicted;       ///< Shortlist::predicted, of the first of `configs` and of `more`
  std::string why_all_tried;           ///< why neighbours_first left nothing out; else empty
};

/// Without force, candidates that have a trial are not tried again: the missing ones are measured together with the default
/// and the recorded winner. A record without trials, one that ships, only adds its winner. A stale record is measured anew
/// in full as soon as something is missing. With neighbours_first, a key without a record gets a short list
/// (tuner/neighbours.h) and the winners that would start its search, and a record that was found so needs nothing more.
Worklist plan_work(const ParsedProblem& problem, const Workbench& bench, const TuningKey& key, const TuneOptions& options);

/// New trials replace old ones of the same configuration.
std::vector<Trial> merge_trials(std::vector<Trial> earlier, const std::vector<Trial>& now);

}  // namespace tunesmith
