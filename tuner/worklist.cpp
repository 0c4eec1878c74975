#include "tuner/worklist.h"

#include <algorithm>
#include <set>

#include "tuner/neighbours.h"
#include "tuner/recorded.h"
#include "tuner/select.h"

namespace tunesmith {
namespace {

/// Replaces `work.configs`, the whole search space. The default and configurations of `winners` stay.
void keep_promising(Worklist& work, const std::vector<Config>& winners, const ParsedProblem& problem, const Workbench& bench,
                    const TuningKey& key) {
  Shortlist list = shortlist(key.n_cols, key.rows_bucket, work.configs,
                             find_neighbours(problem, key, bench.cache, bench.device.provenance()));
  work.why_all_tried = std::move(list.why_not);
  if (list.configs.empty()) return;
  for (const Config& winner : winners)
    if (std::ranges::find(list.configs, winner) == list.configs.end()) list.configs.push_back(winner);
  work.more = std::move(list.more);
  work.predicted = std::move(list.predicted);
  work.configs = std::move(list.configs);
  work.neighbours = list.neighbours;
}

}  // namespace

Worklist plan_work(const ParsedProblem& problem, const Workbench& bench, const TuningKey& key, const TuneOptions& options) {
  const DeviceInfo& device = bench.device.info();
  std::vector<Config> space = problem.search_space(device, options.effort);
  const Config standard = problem.default_config(device);
  std::erase(space, standard);
  space.insert(space.begin(), standard);

  Worklist work;
  work.candidates = static_cast<int>(space.size());
  if (!options.force) work.record = bench.cache.find_record(key);
  const auto winner = work.record ? recorded_config(problem, device, work.record->config) : std::nullopt;
  if (!winner) {
    work.record.reset();
    std::vector<Config> winners;
    // What won with older templates competes, even where the present search space leaves it out.
    if (!options.force)
      for (const TuningRecord& older : bench.cache.find_older(key, 1))
        if (const auto config = recorded_config(problem, device, older.config)) {
          winners.push_back(*config);
          if (std::ranges::find(space, *config) == space.end()) space.push_back(*config);
        }
    // What won for a related problem is tried first, after the default.
    if (const auto related = related_key(problem, key); related && !options.force)
      for (const TuningRecord& record : bench.cache.find_nearest(*related, 1))
        if (const auto config = recorded_config(problem, device, record.config); config && *config != standard) {
          std::erase(space, *config);
          space.insert(space.begin() + 1, *config);
          winners.push_back(*config);
        }
    work.configs = std::move(space);
    if (options.neighbours_first) keep_promising(work, winners, problem, bench, key);
    return work;
  }

  work.trials = bench.cache.find_trials(key);
  const bool is_stale_now = is_stale(*work.record, bench.device.provenance());
  const bool is_list_tried = work.record->provenance.contains("neighbours") &&
                             (options.effort == Effort::quick || work.record->effort == name(Effort::full));
  if (options.neighbours_first && is_list_tried && !is_stale_now) return work;
  std::set<std::string, std::less<>> tried;
  for (const Trial& trial : work.trials) tried.insert(trial.config);
  const auto is_tried = [&](const Config& config) { return tried.contains(config.text()); };
  if (std::ranges::all_of(space, is_tried)) return work;
  if (is_stale_now) {
    work.record.reset();
    work.trials.clear();
    work.configs = std::move(space);
    return work;
  }
  if (std::ranges::find(space, *winner) == space.end()) space.push_back(*winner);
  for (const Config& config : space)
    if (config == standard || config == *winner || !is_tried(config)) work.configs.push_back(config);
  // A record that came without its trials was measured elsewhere: its winner competes, its effort is not this run's.
  if (work.trials.empty()) work.record.reset();
  return work;
}

std::vector<Trial> merge_trials(std::vector<Trial> earlier, const std::vector<Trial>& now) {
  for (const Trial& trial : now) {
    const auto same = std::ranges::find(earlier, trial.config, &Trial::config);
    if (same != earlier.end())
      *same = trial;
    else
      earlier.push_back(trial);
  }
  return earlier;
}

}  // namespace tunesmith
