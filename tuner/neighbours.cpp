#include "tuner/neighbours.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <set>

#include "tuner/recorded.h"
#include "tuner/select.h"
#include "tuner/traits.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

constexpr int looked_at = 16;          // records, before trials are read
constexpr double farthest = 2;         // octaves
constexpr std::size_t least_used = 2;  // one record alone may be an exception
constexpr std::size_t most_used = 4;
constexpr std::size_t timed_of = 5;        // one candidate in that many is timed
constexpr std::size_t least_chosen = 2;    // the default and one more
constexpr double farthest_nearest = 0.51;  // octaves: half an octave, and what rounding adds
// Chosen on stored trials; bench/results/tuning.md says how, and what other values do.
constexpr double most_expected_slowdown = 0.012;
constexpr double steps_to_half = 0.25;
constexpr double octaves_to_half = 1;

/// What is timed in the mean is a fifth: lists begin with one less, and end with a quarter.
constexpr std::size_t share_at_most = 4;
constexpr double allowed_regret = 0.015;

std::size_t list_length(std::size_t candidates) { return std::max(candidates / timed_of, least_chosen); }
std::size_t first_length(std::size_t candidates) { return std::max(list_length(candidates) - 1, least_chosen); }
std::size_t most_length(std::size_t candidates) {
  return std::max((candidates + share_at_most / 2) / share_at_most, list_length(candidates) + 1);
}

double octaves(std::int64_t a, std::int64_t b) {
  const auto positive = [](std::int64_t value) { return static_cast<double>(std::max<std::int64_t>(value, 1)); };
  return std::fabs(std::log2(positive(a) / positive(b)));
}

/// What one neighbour knows about a candidate.
struct Opinion {
  double slowdown = 0;
  double similarity = 0;  ///< of its most similar trial; at most 1
};

Opinion opinion(const Traits& candidate, const Neighbour& neighbour, const std::vector<Traits>& traits) {
  Opinion result;
  double sum = 0, similarities = 0;
  for (std::size_t i = 0; i < traits.size(); ++i) {
    const double similarity = std::exp2(-steps_between(candidate, traits[i]) / steps_to_half);
    sum += similarity * neighbour.trials[i].slowdown;
    similarities += similarity;
    result.similarity = std::max(result.similarity, similarity);
  }
  result.slowdown = similarities > 0 ? sum / similarities : most_slowdown;
  return result;
}

/// What the neighbours together predict.
class Prediction {
 public:
  Prediction(std::int64_t n_cols, std::int64_t rows_bucket, std::span<const Config> space,
             std::span<const Neighbour* const> neighbours);

  /// Returns the indices of the candidates, the most promising first.
  std::vector<std::size_t> ranking() const;
  double slowdown(std::size_t candidate) const { return slowdowns_[candidate]; }
  /// Returns the slowdown of the fastest of `chosen` in the mean of the neighbours.
  double expected_slowdown(std::span<const std::size_t> chosen) const;

 private:
  std::vector<double> weights_;                 // of the neighbours; their sum is 1
  std::vector<std::vector<Opinion>> opinions_;  // of each neighbour on each candidate
  std::vector<double> slowdowns_;               // of each candidate, in the mean
};

Prediction::Prediction(std::int64_t n_cols, std::int64_t rows_bucket, std::span<const Config> space,
                       std::span<const Neighbour* const> neighbours) {
  std::vector<Traits> candidates;
  for (const Config& config : space) candidates.push_back(traits_of(config, n_cols));
  double weights = 0;
  for (const Neighbour* neighbour : neighbours) {
    std::vector<Traits> tried;
    for (const Neighbour::Measured& trial : neighbour->trials) tried.push_back(traits_of(trial.config, neighbour->n_cols));
    std::vector<Opinion>& opinions = opinions_.emplace_back();
    for (const Traits& candidate : candidates) opinions.push_back(opinion(candidate, *neighbour, tried));
    weights_.push_back(std::exp2(-shape_distance(n_cols, rows_bucket, *neighbour) / octaves_to_half));
    weights += weights_.back();
  }
  for (double& weight : weights_) weight /= weights;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    double sum = 0, shares = 0;
    for (std::size_t n = 0; n < weights_.size(); ++n) {
      const double share_of_neighbour = weights_[n] * opinions_[n][i].similarity;
      sum += share_of_neighbour * opinions_[n][i].slowdown;
      shares += share_of_neighbour;
    }
    slowdowns_.push_back(shares > 0 ? sum / shares : most_slowdown);
  }
}

std::vector<std::size_t> Prediction::ranking() const {
  std::vector<std::size_t> order(slowdowns_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return slowdowns_[i]; });
  return order;
}

double Prediction::expected_slowdown(std::span<const std::size_t> chosen) const {
  double expected = 0;
  for (std::size_t n = 0; n < weights_.size(); ++n) {
    double least = most_slowdown;
    for (const std::size_t i : chosen) {  // where a neighbour tried nothing similar, the mean stands in for its opinion
      const auto& [slowdown, similarity] = opinions_[n][i];
      least = std::min(least, similarity * slowdown + (1 - similarity) * slowdowns_[i]);
    }
    expected += weights_[n] * least;
  }
  return expected;
}

Value variant_of(const Config& config) {
  const Value* const variant = config.fields.find("variant");
  return variant == nullptr ? Value{} : *variant;
}

std::string decimal(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

bool has_time(const Trial& trial) { return (trial.status == "timed" || trial.status == "dropped") && trial.median_us > 0; }

}  // namespace

double shape_distance(std::int64_t n_cols, std::int64_t rows_bucket, const Neighbour& neighbour) {
  return octaves(n_cols, neighbour.n_cols) + 0.5 * octaves(rows_bucket, neighbour.rows_bucket);
}

Neighbour make_neighbour(const TuningKey& key, const std::vector<Trial>& trials) {
  Neighbour neighbour{key.n_cols, key.rows_bucket, {}};
  double best_us = std::numeric_limits<double>::infinity();
  for (const Trial& trial : trials)
    if (has_time(trial)) best_us = std::min(best_us, trial.median_us);
  if (std::isinf(best_us)) return neighbour;
  for (const Trial& trial : trials) {
    const double slowdown = has_time(trial) ? std::log(trial.median_us / best_us) : most_slowdown;
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

bool contradicts(double predicted, const Timing& candidate, double predicted_standard, const Timing& standard) {
  constexpr double known = 0.75 * most_slowdown;
  const double beyond = std::log(candidate.median_us / standard.median_us) - (predicted - predicted_standard);
  const double noise = std::hypot(noise_us(candidate) / candidate.median_us, noise_us(standard) / standard.median_us);
  const bool may_be_so = beyond > 0 ? predicted > known : predicted_standard > known;
  return !may_be_so && std::fabs(beyond) > allowed_regret + noise;
}

Shortlist shortlist(std::int64_t n_cols, std::int64_t rows_bucket, std::span<const Config> space,
                    std::span<const Neighbour> neighbours) {
  const auto none = [](std::string why) { return Shortlist{{}, {}, {}, 0, std::move(why)}; };
  const std::size_t length = list_length(space.size());
  if (space.size() < least_chosen * timed_of)
    return none("the search space has " + std::to_string(space.size()) + " candidates only");
  std::vector<const Neighbour*> used;
  for (const Neighbour& neighbour : neighbours)
    if (2 * neighbour.trials.size() >= space.size() && used.size() < most_used) used.push_back(&neighbour);
  if (used.size() < least_used) return none(std::to_string(used.size()) + " near records have trials; expected at least 2");
  if (const double nearest = shape_distance(n_cols, rows_bucket, *used.front()); nearest > farthest_nearest)
    return none("the nearest record with trials is " + decimal(nearest) + " octaves away; allowed " +
                decimal(farthest_nearest));
  std::set<Value> tried;
  for (const Neighbour* neighbour : used)
    for (const Neighbour::Measured& trial : neighbour->trials) tried.insert(variant_of(trial.config));
  const auto is_tried = [&](const Config& config) { return tried.contains(variant_of(config)); };
  if (!is_tried(space.front())) return none("no near record tried the variant of the default, " + space.front().text());
  if (2 * static_cast<std::size_t>(std::ranges::count_if(space, is_tried)) < space.size())
    return none("near records tried the variants of less than half of the candidates");

  const Prediction prediction(n_cols, rows_bucket, space, used);
  std::vector<std::size_t> chosen{0};
  for (const std::size_t i : prediction.ranking())
    if (i != 0 && chosen.size() < most_length(space.size())) chosen.push_back(i);
  if (const double expected = prediction.expected_slowdown({chosen.data(), length}); expected > most_expected_slowdown)
    return none("the best of a short list is expected to be " + decimal(100 * expected) +
                "% slower than the fastest; allowed " + decimal(100 * most_expected_slowdown) + "%");

  Shortlist list{{}, {}, {}, static_cast<int>(used.size()), {}};
  for (const std::size_t i : chosen) {
    (list.configs.size() < first_length(space.size()) ? list.configs : list.more).push_back(space[i]);
    list.predicted.push_back(prediction.slowdown(i));
  }
  return list;
}

}  // namespace tunesmith
