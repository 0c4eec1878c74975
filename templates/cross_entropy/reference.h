#pragma once
// The reference of cross-entropy, row by row, with bounds of the kernels' errors: in float64, and in long double for logits
// of f64. Internal to templates/.

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
/// Returns the value, or infinity if the value exceeds the largest number of the dtype.
template <typename Real>
Real in_range(DType dtype, Real value) {
  long double most = 0x1.ffffffp127;
  if (dtype == DType::f64) most = 0x1.fffffffffffff8p1023L;
  if (dtype == DType::f16) most = 65520;
  if (dtype == DType::bf16) most = 0x1.ffp127;
  return std::fabs(value) >= most ? std::copysign(static_cast<Real>(INFINITY), value) : value;
}
/// Applies scale and soft cap to a logit. A product of logit and scale may be infinite, and -inf masks the logit.
template <typename Real>
Real transformed(const Settings& settings, Real logit);
/// Returns the derivative of transformed(), given its result.
template <typename Real>
Real slope(const Settings& settings, Real logit);

/// Bounds of errors that depend on the type in which kernels compute.
struct Errors {
  double relative;    ///< of a sum of exponentials and values computed from it
  double rounding;    ///< unit roundoff
  double underflow;   ///< absolute error of a product that is or passes through a denormal number
  double negligible;  ///< exponentials below it, relative to the sum, may be 0
  double denormal;    ///< smallest number: a product that is a denormal number is off by at most half of it
};

/// float32, 2^-18: 2^-22 of the exponential plus the rounding of its argument, at most 2^-17 for the smallest values and
/// less than 2^-20 for relevant ones; then half a dozen roundings, the sum and the logarithm.
///
/// f64, 2^-47 or 64 roundings, as many as of float32: 4 of the exponential (device/double_exponential.cuh), twice in p; 5
/// each time that the maximum of a running sum grows by enough to matter, which is a few times in random rows of any length;
/// 10 of the sum over threads; a dozen of the quotient, the logarithm, weights and factors. The terms of label smoothing are
/// added without compensation: a rounding for each term of a thread, of either sign. Tests see and assert less than half of
/// it.
inline Errors errors_of(const Settings& settings) {
  return settings.wide() ? Errors{0x1.0p-47, 0x1.0p-53, 0x1.0p-1022, 0x1.0p-1000, 0x1.0p-1074}
                         : Errors{0x1.0p-18, 0x1.0p-24, 0x1.0p-126, 0x1.0p-120, 0x1.0p-149};
}

/// Losses of a row and their terms. `Real`: double or long double.
template <typename Real>
struct RowReference {
  Real largest = -INFINITY, log_sum = 0, lse = 0, nll = 0, loss = 0, z_loss = 0;
  Real target_logit = -INFINITY, target_rest = 0;  // p - 1
  Real below = 0, weights = 0;                     // over all local classes, relative to `largest`
  Real sum_excluding_max = 0;                      // exponentials relative to `largest`, without the target's
  double lse_error = 0, loss_error = 0, nll_error = 0, z_error = 0;  // allowed absolute errors
  double terms = 0;                                                  // sum of the magnitudes of the loss's terms
  double logit_error = 0;                                            ///< of a transformed logit
  bool smoothing_overflows = false;  ///< the loss is infinite or NaN, as the order of the sum and weights of 0 decide
  std::int64_t argmax = -1;
  std::int64_t maxima = 1;  ///< classes whose logit may be the maximum after the roundings of scale and soft cap
};

/// Computes a row's reference from its logits.
template <typename Real>
RowReference<Real> reference_of(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index,
                                const Row& row);
/// Returns whether a kernel may report `column` as the first one with the maximum logit.
template <typename Real>
bool may_be_argmax(const Settings& settings, const HostArray& logits, std::int64_t row, std::int64_t column,
                   const RowReference<Real>& reference);
/// Returns the first class with the maximum logit of a row's partial: the bits of the last of its eight floats, or the value
/// of the last double.
std::int64_t class_of_partial(const Settings& settings, const std::byte* partials, std::int64_t row);
/// Computes a row's reference from the partials of shards; completes the row's target.
template <typename Real>
RowReference<Real> combined(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, Row& row);
/// Computes the reference of a gradient from lse.
template <typename Real>
RowReference<Real> from_lse(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row);

}  // namespace tunesmith::cross_entropy
