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

/// Slower candidates, and those that do not compile or run, are all alike: ln 4.
inline constexpr double most_slowdown = 1.3862943611198906;

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
  std::vector<Config> configs;  ///< the default, then the most promising; empty: time the whole search space
  int neighbours = 0;           ///< number of records whose trials chose them
  std::string why_not;          ///< why there is no list, one line; empty if there is one
};

/// Chooses a fifth of the search space. `space` starts with the default; `neighbours` are in the order of
/// find_neighbours().
///
/// Candidates are ordered by their mean slowdown in the nearest four neighbours, weighted by distance. A configuration that
/// a neighbour did not try counts like the most similar one of the same variant. There is no list if
/// - `space` has fewer than ten candidates, or a variant that no neighbour tried;
/// - fewer than two neighbours tried half as many candidates as `space` has;
/// - the neighbours disagree: for one of them, the list that the others choose misses its fastest candidate by more than
///   1.5%.
Shortlist shortlist(std::int64_t n_cols, std::int64_t rows_bucket, std::span<const Config> space,
                    std::span<const Neighbour> neighbours);

}  // namespace tunesmith
