#pragma once
// The reference of cross-entropy in float64 or better, row by row, with bounds of the kernels' errors. Internal to
// templates/.

#include <cmath>
#include <cstdint>
#include <span>

#include "templates/cross_entropy/problem.h"

namespace tunesmith::cross_entropy {

/// The target of a row.
struct Row {
  std::int64_t target = 0;  // as stored
  bool ignored = false, bad = false;
  std::int64_t column = -1;  // local column of the target; -1: not in this shard
  double target_weight = 1;

  bool counts() const { return !ignored && !bad; }
};

Row row_of(const Settings& settings, std::span<const HostArray> arrays, std::int64_t row);

/// Returns an element of logits; positions are rows if columns are not adjacent.
double logit_at(const HostArray& logits, std::int64_t row, std::int64_t column);
/// Applies scale and soft cap to a logit.
double transformed(const Settings& settings, double logit);
/// Returns the derivative of transformed(), given its result.
double slope(const Settings& settings, double logit);

/// Relative error: 2^-22 of the exponential plus the rounding of its argument, at most 2^-17 for the smallest values and
/// less than 2^-20 for relevant ones; then half a dozen roundings, the sum and the logarithm.
constexpr double relative_error = 0x1.0p-18;

/// Losses of a row and what they are computed from.
struct RowReference {
  double largest = -INFINITY, log_sum = 0, lse = 0, nll = 0, loss = 0, z_loss = 0;
  double target_logit = -INFINITY, target_rest = 0;  // p - 1
  double below = 0, weights = 0;                     // over all local classes, relative to `largest`
  double sum_excluding_max = 0;                      // exponentials relative to `largest`, without the target's
  double lse_error = 0, loss_error = 0, nll_error = 0, z_error = 0;  // allowed absolute errors
  double terms = 0;                                                  // sum of the magnitudes of the loss's terms
  double logit_error = 0;
  std::int64_t argmax = -1;
};

/// Computes a row's reference from its logits.
RowReference reference_of(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row);
/// Computes a row's reference from the partials of shards; completes the row's target.
RowReference combined(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, Row& row);
/// Computes the reference of a gradient from lse.
RowReference from_lse(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row);

}  // namespace tunesmith::cross_entropy
