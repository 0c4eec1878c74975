#include "tuner/neighbours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "tuner/recorded.h"
#include "tuner/select.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr int looked_at = 16;          // records, before trials are read
constexpr double farthest = 2;         // octaves
constexpr std::size_t least_used = 2;  // a single neighbour cannot be checked
constexpr std::size_t most_used = 4;
constexpr std::size_t share = 5;         // one candidate in that many is timed
constexpr std::size_t least_chosen = 2;  // the default and one more
constexpr double most_regret = 0.015;
constexpr double per_difference = 0.02;  // slowdown that one step between two configurations may hide
constexpr double sharpness = 0.5;        // octaves at which the weight is half of the weight at the same shape

std::size_t list_length(std::size_t candidates) { return std::max(candidates / share, least_chosen); }

double octaves(std::int64_t a, std::int64_t b) {
  const auto positive = [](std::int64_t value) { return static_cast<double>(std::max<std::int64_t>(value, 1)); };
  return std::fabs(std::log2(positive(a) / positive(b)));
}

/// One step is a factor of two of a number, or another string.
double difference(const Value& a, const Value& b) {
  const auto* const x = std::get_if<std::int64_t>(&a);
  const auto* const y = std::get_if<std::int64_t>(&b);
  if (x == nullptr || y == nullptr || *x < 0 || *y < 0) return a == b ? 0 : 1;
  return std::fabs(std::log2(static_cast<double>(*x + 1) / static_cast<double>(*y + 1)));
}

/// Returns the number of steps between two configurations; infinite if their variants differ.
double difference(const Config& a, const Config& b) {
  double steps = std::fabs(static_cast<double>(a.fields.size()) - static_cast<double>(b.fields.size()));
  auto same_place = b.fields.begin();  // configurations of one variant have their fields in one order
  for (const auto& [field, value] : a.fields) {
    const bool is_in_place = same_place != b.fields.end() && same_place->first == field;
    const Value* const other = is_in_place ? &same_place->second : b.fields.find(field);
    if (same_place != b.fields.end()) ++same_place;
    if (field == "variant" && (other == nullptr || *other != value)) return std::numeric_limits<double>::infinity();
    steps += other == nullptr ? 1 : difference(value, *other);
  }
  return steps;
}

/// Returns nothing if the neighbour tried no configuration of this variant.
std::optional<double> slowdown_at(const Neighbour& neighbour, const Config& config) {
  if (const auto same = std::ranges::find(neighbour.trials, config, &Neighbour::Measured::config);
      same != neighbour.trials.end())
    return same->slowdown;
  double least = std::numeric_limits<double>::infinity(), slowdown = 0;
  for (const Neighbour::Measured& trial : neighbour.trials) {
    const double steps = difference(config, trial.config);
    if (steps >= least) continue;
    least = steps;
    slowdown = trial.slowdown;
  }
  if (std::isinf(least)) return std::nullopt;
  return slowdown + per_difference * least;
}

/// Returns the indices of `configs`, the most promising first. Configurations of unknown variants come last.
template <typename ConfigAt>
std::vector<std::size_t> ranked(std::int64_t n_cols, std::int64_t rows_bucket, std::size_t count, const ConfigAt& config_at,
                                std::span<const Neighbour* const> neighbours) {
  std::vector<double> scores;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < count; ++i) {
    double sum = 0, weights = 0;
    for (const Neighbour* neighbour : neighbours)
      if (const auto slowdown = slowdown_at(*neighbour, config_at(i))) {
        const double weight = 1 / (sharpness + shape_distance(n_cols, rows_bucket, *neighbour));
        sum += weight * *slowdown;
        weights += weight;
      }
    scores.push_back(weights > 0 ? sum / weights : std::numeric_limits<double>::infinity());
    order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return scores[i]; });
  return order;
}

/// Returns by how much the list that `others` choose for this neighbour misses its fastest candidate.
double regret(const Neighbour& of, std::span<const Neighbour* const> others) {
  const auto config_at = [&](std::size_t i) -> const Config& { return of.trials[i].config; };
  const auto order = ranked(of.n_cols, of.rows_bucket, of.trials.size(), config_at, others);
  double least = std::numeric_limits<double>::infinity();
  // The default is timed in any case; which one it was is unknown here.
  for (std::size_t i = 0; i + 1 < list_length(of.trials.size()); ++i) least = std::min(least, of.trials[order[i]].slowdown);
  return std::expm1(least);
}

bool agree(std::span<const Neighbour* const> neighbours) {
  for (const Neighbour* of : neighbours) {
    std::vector<const Neighbour*> others(neighbours.begin(), neighbours.end());
    std::erase(others, of);
    if (regret(*of, others) > most_regret) return false;
  }
  return true;
}

bool is_timed(const Trial& trial) { return (trial.status == "timed" || trial.status == "dropped") && trial.median_us > 0; }

}  // namespace

double shape_distance(std::int64_t n_cols, std::int64_t rows_bucket, const Neighbour& neighbour) {
  return octaves(n_cols, neighbour.n_cols) + 0.5 * octaves(rows_bucket, neighbour.rows_bucket);
}

Neighbour make_neighbour(const TuningKey& key, const std::vector<Trial>& trials) {
  Neighbour neighbour{key.n_cols, key.rows_bucket, {}};
  double best_us = std::numeric_limits<double>::infinity();
  for (const Trial& trial : trials)
    if (is_timed(trial)) best_us = std::min(best_us, trial.median_us);
  if (std::isinf(best_us)) return neighbour;
  for (const Trial& trial : trials) {
    const double slowdown = is_timed(trial) ? std::log(trial.median_us / best_us) : most_slowdown;
    try {
      neighbour.trials.push_back({{parse_fields(trial.config, "recorded config")}, std::min(slowdown, most_slowdown)});
    } catch (const Error&) {  // written by another version or hand
    }
  }
  return neighbour;
}

std::vector<Neighbour> find_neighbours(const ParsedProblem& problem, const TuningKey& key, Cache& cache,
                                       const std::map<std::string, std::string>& provenance) {
  std::vector<TuningRecord> records = cache.find_nearest(key, looked_at);
  if (const auto related = related_key(problem, key))
    for (TuningRecord& record : cache.find_nearest(*related, looked_at)) {
      try {  // trials are kept for the problem that was measured
        record.key.problem_class = recorded_problem(problem.op(), record)->key().problem_class;
        records.push_back(std::move(record));
      } catch (const Error&) {  // written by another version or hand
      }
    }

  std::vector<Neighbour> neighbours;
  std::set<TuningKey> known{key};
  for (const TuningRecord& record : records) {
    const bool is_near =
        shape_distance(key.n_cols, key.rows_bucket, {record.key.n_cols, record.key.rows_bucket, {}}) <= farthest;
    if (!is_near || !known.insert(record.key).second) continue;
    if (record.provenance.contains("neighbours") || is_stale(record, provenance)) continue;
    if (Neighbour neighbour = make_neighbour(record.key, cache.find_trials(record.key)); !neighbour.trials.empty())
      neighbours.push_back(std::move(neighbour));
  }
  std::ranges::stable_sort(
      neighbours, {}, [&](const Neighbour& neighbour) { return shape_distance(key.n_cols, key.rows_bucket, neighbour); });
  return neighbours;
}

Shortlist shortlist(std::int64_t n_cols, std::int64_t rows_bucket, std::span<const Config> space,
                    std::span<const Neighbour> neighbours) {
  const auto none = [](std::string why) { return Shortlist{{}, 0, std::move(why)}; };
  const std::size_t length = list_length(space.size());
  if (space.size() < least_chosen * share)
    return none("the search space has " + std::to_string(space.size()) + " candidates only");
  std::vector<const Neighbour*> used;
  for (const Neighbour& neighbour : neighbours)
    if (2 * neighbour.trials.size() >= space.size() && used.size() < most_used) used.push_back(&neighbour);
  if (used.size() < least_used) return none(std::to_string(used.size()) + " near records have trials; expected at least 2");
  for (const Config& config : space)
    if (std::ranges::none_of(used, [&](const Neighbour* neighbour) { return slowdown_at(*neighbour, config).has_value(); }))
      return none("no near record tried the variant of " + config.text());
  if (!agree(used)) return none("the trials of " + std::to_string(used.size()) + " near records disagree");

  Shortlist list{{space.front()}, static_cast<int>(used.size()), {}};
  const auto config_at = [&](std::size_t i) -> const Config& { return space[i]; };
  for (const std::size_t i : ranked(n_cols, rows_bucket, space.size(), config_at, used))
    if (i != 0 && list.configs.size() < length) list.configs.push_back(space[i]);
  return list;
}

}  // namespace tunesmith
