#pragma once
// Replays stored trials: what tuning by neighbours would have timed and chosen for keys that were tuned in full.

#include <optional>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace tunesmith {

struct Replay {
  TuningKey key;
  int candidates = 0;    ///< with a trial
  int timed = 0;         ///< by the search that stored the trials
  int chosen_timed = 0;  ///< by neighbours first; `timed` if there is no short list
  double regret = 0;  ///< time of the configuration that neighbours first chooses over that of the search's choice, minus 1
  bool other_winner = false;
  std::string winner, chosen;  ///< what the search and neighbours first choose; empty if there is no short list
  int neighbours = 0;          ///< 0: no short list
  std::string why_not;         ///< why there is none
};

/// Leaves the key of `record` out, and tunes it by the trials of the others and its own, choosing as choose_winner() does
/// from the stored medians. Some of these are of the heats and some of the final; a search of few candidates would have a
/// final of its own, so that small regrets are uncertain (bench/list_regret.py measures them). Also leaves out records
/// nearer than `least_distance` octaves, as if the cache had fewer of them. Nothing for a record without trials, or with a
/// single timed one. Throws Error for a record of another version.
std::optional<Replay> replay(const TuningRecord& record, Cache& cache, double least_distance = 0);

struct ReplaySummary {
  int keys = 0, lists = 0;
  double share_of_timings = 0;                                 ///< of keys with a short list
  double share_of_all = 0;                                     ///< of all keys
  double median_regret = 0, p95_regret = 0, worst_regret = 0;  ///< of keys with a short list
  int other_winners = 0;
};
ReplaySummary summarize(const std::vector<Replay>& replays);

}  // namespace tunesmith
