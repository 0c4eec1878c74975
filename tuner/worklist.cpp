#include "tuner/worklist.h"

#include <algorithm>
#include <set>

#include "tuner/recorded.h"
#include "tuner/select.h"

namespace tunesmith {

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
    // The winner of older templates competes, even if it is not in the present search space.
    if (!options.force)
      for (const TuningRecord& older : bench.cache.find_older(key, 1))
        if (const auto config = recorded_config(problem, device, older.config);
            config && std::ranges::find(space, *config) == space.end())
          space.push_back(*config);
    // The winner of a related problem comes right after the default.
    if (const auto related = related_key(problem.key(), key); related && !options.force)
      for (const TuningRecord& record : bench.cache.find_nearest(*related, 1))
        if (const auto config = recorded_config(problem, device, record.config); config && *config != standard) {
          std::erase(space, *config);
          space.insert(space.begin() + 1, *config);
        }
    work.configs = std::move(space);
    return work;
  }

  work.trials = bench.cache.find_trials(key);
  std::set<std::string, std::less<>> tried;
  for (const Trial& trial : work.trials) tried.insert(trial.config);
  const auto is_tried = [&](const Config& config) { return tried.contains(config.text()); };
  if (std::ranges::all_of(space, is_tried)) return work;
  if (is_stale(*work.record, bench.device.provenance())) {
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
