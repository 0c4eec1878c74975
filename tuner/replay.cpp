#include "tuner/replay.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "templates/op.h"
#include "tuner/candidate.h"
#include "tuner/decide.h"
#include "tuner/neighbours.h"
#include "tuner/recorded.h"

namespace tunesmith {
namespace {

bool is_timed(const Trial& trial) { return (trial.status == "timed" || trial.status == "dropped") && trial.median_us > 0; }

/// Returns the configuration that wins among `trials`, of which the first is the default.
const Trial& winner_of(const std::vector<const Trial*>& trials) {
  std::vector<Timing> timings;
  for (const Trial* trial : trials) timings.push_back(timing_of(*trial));
  return *trials[choose_winner(timings)];
}

/// The record has the time of its default, which is that of one trial.
std::size_t default_of(const TuningRecord& record, const std::vector<const Trial*>& timed) {
  const auto away = [&](const Trial* trial) { return std::fabs(trial->median_us - record.default_median_us); };
  return static_cast<std::size_t>(std::ranges::min_element(timed, {}, away) - timed.begin());
}

double at_share(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

std::optional<Replay> replay(const TuningRecord& record, Cache& cache, double least_distance) {
  const std::vector<Trial> trials = cache.find_trials(record.key);
  std::vector<const Trial*> timed;
  for (const Trial& trial : trials)
    if (is_timed(trial)) timed.push_back(&trial);
  if (timed.size() < 2 || record.provenance.contains("neighbours")) return std::nullopt;
  std::swap(timed[0], timed[default_of(record, timed)]);

  Replay result;
  result.key = record.key;
  result.candidates = static_cast<int>(trials.size());
  result.timed = result.chosen_timed = static_cast<int>(timed.size());
  std::vector<Config> space{{parse_fields(timed[0]->config, "recorded config")}};
  for (const Trial& trial : trials)
    if (&trial != timed[0]) space.push_back({parse_fields(trial.config, "recorded config")});
  const Op& op = find_op(record.key.op);
  auto near = find_neighbours(*recorded_problem(op, record), record.key, cache, record.provenance);
  std::erase_if(near, [&](const Neighbour& neighbour) {
    return shape_distance(record.key.n_cols, record.key.rows_bucket, neighbour) < least_distance;
  });
  const Shortlist list = shortlist(record.key.n_cols, record.key.rows_bucket, space, near);
  result.neighbours = list.neighbours;
  result.why_not = list.why_not;
  if (list.configs.empty()) return result;

  std::vector<const Trial*> chosen;
  bool is_contradicted = false;
  const auto add = [&](const Config& config, double predicted) {
    const auto trial = std::ranges::find(timed, config.text(), [](const Trial* each) { return each->config; });
    is_contradicted = is_contradicted || trial == timed.end();
    if (trial == timed.end()) return;
    chosen.push_back(*trial);
    is_contradicted =
        is_contradicted || contradicts(predicted, timing_of(**trial), list.predicted.front(), timing_of(*timed.front()));
  };
  for (std::size_t i = 0; i < list.configs.size(); ++i) add(list.configs[i], list.predicted[i]);
  for (std::size_t i = 0; i < list.more.size() && std::exchange(is_contradicted, false); ++i)
    add(list.more[i], list.predicted[list.configs.size() + i]);
  // The record names the choice of the search. Where it does not (as in an extract), its rule is applied to the trials.
  const auto recorded = std::ranges::find(timed, record.config, [](const Trial* each) { return each->config; });
  const Trial& all = recorded != timed.end() ? **recorded : winner_of(timed);
  const Trial& few = winner_of(chosen);
  result.chosen_timed = static_cast<int>(chosen.size());
  result.regret = few.median_us / all.median_us - 1;
  result.winner = all.config;
  result.chosen = few.config;
  result.other_winner = result.chosen != result.winner;
  return result;
}

ReplaySummary summarize(const std::vector<Replay>& replays) {
  ReplaySummary summary;
  std::vector<double> regrets;
  double all_timed = 0, listed_timed = 0, chosen = 0, all_chosen = 0;
  for (const Replay& each : replays) {
    ++summary.keys;
    all_timed += each.timed;
    all_chosen += each.chosen_timed;
    if (each.neighbours == 0) continue;
    ++summary.lists;
    listed_timed += each.timed;
    chosen += each.chosen_timed;
    regrets.push_back(each.regret);
    if (each.other_winner) ++summary.other_winners;
  }
  std::ranges::sort(regrets);
  if (listed_timed > 0) summary.share_of_timings = chosen / listed_timed;
  if (all_timed > 0) summary.share_of_all = all_chosen / all_timed;
  summary.median_regret = at_share(regrets, 0.5);
  summary.p95_regret = at_share(regrets, 0.95);
  summary.worst_regret = at_share(regrets, 1);
  return summary;
}

}  // namespace tunesmith
