#pragma once
// Neighbours first: the trials of records with near shapes choose the candidates that a new key times.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "templates/op.h"
#include "tuner/statistics.h"

namespace tunesmith {

/// A tuned key of the same operation and cost class, with a trial of each candidate.
struct Neighbour {
  struct Measured {
    Config config;
    double slowdown = 0;  ///< natural logarithm of its time over the fastest candidate's; most_slowdown if it failed
  };
  std::int64_t n_cols = 0, rows_bucket = 0;
  std::vector<Measured> trials;
};

/// Slower candidates, and those that do not compile or run, are all alike: the search drops them after a few rounds.
inline constexpr double most_slowdown = 0.2;

/// Returns the distance between two shapes in octaves: of n_cols, plus half of that of rows_bucket.
double shape_distance(std::int64_t n_cols, std::int64_t rows_bucket, const Neighbour& neighbour);

/// Returns the timed trials as slowdowns. Trials whose configuration cannot be read are left out.
Neighbour make_neighbour(const TuningKey& key, const std::vector<Trial>& trials);

/// Finds the neighbours of `key`, which is the tuning key of `problem`, in the cache, nearest first and without the key
/// itself: records of the same problem class, and of related problems (KeyParts::related_class). Leaves out records far
/// away, records without trials, records whose own candidates were chosen by neighbours, and records of another driver,
/// clock or power limit than `provenance` names. Never throws for what a cache may hold.
std::vector<Neighbour> find_neighbours(const ParsedProblem& problem, const TuningKey& key, Cache& cache,
                                       const std::map<std::string, std::string>& provenance);

struct Shortlist {
  std::vector<Config> configs;    ///< the default, then the most promising; empty: time the whole search space
  std::vector<Config> more;       ///< the next ones, for a list whose times contradict the prediction
  std::vector<double> predicted;  ///< natural logarithms of the slowdowns of `configs` and `more`
  int neighbours = 0;             ///< number of records whose trials chose them
  std::string why_not;            ///< why there is no list, one line; empty if there is one
};

/// Returns whether the time of a candidate over that of the default differs from the prediction by more than the noise of
/// both and the regret that is allowed: then the neighbours are not to be trusted, and the next candidate is timed, too. The
/// predicted slowdowns are those of Shortlist; one near most_slowdown says "at least".
bool contradicts(double predicted, const Timing& candidate, double predicted_standard, const Timing& standard);

/// Chooses one candidate less than a fifth of the search space, but at least two; and more, up to a quarter of it. `space`
/// starts with the default; `neighbours` are in the order of find_neighbours().
///
/// A neighbour predicts the slowdown of a candidate by the mean over its trials, weighted by similarity: a sixteenth for
/// each step between the two configurations (tuner/traits.h). The candidates with the least mean prediction of the nearest
/// four neighbours are chosen. A neighbour's weight halves with each octave, and counts less for a candidate unlike its
/// trials. There is no list if
/// - `space` has fewer than ten candidates;
/// - fewer than two neighbours tried half as many candidates as `space` has, or the nearest of them is more than half an
///   octave away;
/// - no neighbour tried the variant of the default, or those of half of the candidates: the neighbours lie where other
///   kernels are promising;
/// - the list is not expected to be good enough: the best fifth is predicted to be more than 1.2% slower than the fastest
///   candidate, in the mean of the neighbours.
Shortlist shortlist(std::int64_t n_cols, std::int64_t rows_bucket, std::span<const Config> space,
                    std::span<const Neighbour> neighbours);

}  // namespace tunesmith
