#include "templates/cross_entropy/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/half.h"
#include "templates/row/check.h"

namespace tunesmith::cross_entropy {

namespace {

/// Returns a bound of the kernel's error of a transformed logit.
double logit_error(const Settings& settings, double logit) {
  if (!std::isfinite(logit)) return 0;
  const double rounding = errors_of(settings).rounding, denormal = errors_of(settings).denormal;
  double error = 0;
  if (settings.scale != 1) error += rounding * std::fabs(logit) + denormal;
  // Roundings of the quotient and the product, and tanh's two units. The cap multiplies the error of the quotient.
  if (settings.softcap != 0) error += 8 * rounding * std::fabs(logit) + (1 + settings.softcap) * denormal;
  return error;
}

/// Returns a number of the array, one for each row or class.
double number_at(const Settings& settings, const HostArray& array, std::int64_t index) {
  return read_element(settings.number(), array.data, index);
}

/// Computes the losses from largest, sum_excluding_max, below, weights and the target's logit.
template <typename Real>
void complete(const Settings& settings, const Row& row, double target_weight, RowReference<Real>& out) {
  const Real share = out.target_logit == -INFINITY ? 0 : std::exp(out.target_logit - out.largest);
  const bool finite = std::isfinite(out.largest);
  if (out.target_logit == out.largest)
    out.log_sum = std::log1p(out.sum_excluding_max);
  else
    out.log_sum = std::log(out.sum_excluding_max + share);
  if (!finite) out.log_sum = NAN;
  out.lse = finite ? out.largest + out.log_sum : out.largest;
  out.nll = out.largest - out.target_logit + out.log_sum;
  out.target_rest = finite ? -out.sum_excluding_max / (out.sum_excluding_max + share) : NAN;
  const Real hard = 1 - static_cast<Real>(settings.label_smoothing);
  const Real smooth = settings.label_smoothing / static_cast<Real>(settings.vocab_size);
  out.loss = hard * target_weight * out.nll;
  Real smoothed = 0;
  if (settings.label_smoothing != 0) smoothed = smooth * (out.below + out.weights * out.log_sum);
  out.loss += smoothed;
  out.z_loss = settings.z_loss * out.lse * out.lse;
  if (settings.z_loss != 0) out.loss += out.z_loss;

  const Errors errors = errors_of(settings);
  const auto nll = static_cast<double>(out.nll);
  // The sum relative to the maximum is at least 1 and is rounded, unless the maximum is the target's and left out of it.
  const int rounded = out.target_logit == out.largest ? 0 : 1;
  out.lse_error = static_cast<double>(4 * errors.rounding * (std::fabs(out.largest) + rounded) +
                                      errors.relative * std::fabs(out.log_sum) + 2 * out.logit_error);
  out.z_error = static_cast<double>(errors.underflow + errors.relative * out.z_loss +
                                    settings.z_loss * (2 * std::fabs(out.lse) + out.lse_error) * out.lse_error);
  out.nll_error = errors.relative * nll + 2 * out.logit_error * std::min(1.0, 2 * nll) + errors.underflow;
  out.terms = static_cast<double>(std::fabs(hard * target_weight) * out.nll + smoothed + out.z_loss);
  out.loss_error = static_cast<double>(errors.relative * out.terms + std::fabs(hard * target_weight) * out.nll_error +
                                       out.z_error + 2 * smooth * out.weights * out.logit_error);
  if (row.ignored) out.loss = out.z_loss = out.nll = 0;
  if (row.bad) out.loss = out.z_loss = out.nll = NAN;
}

}  // namespace

Row row_of(const Settings& settings, std::span<const HostArray> arrays, std::int64_t row) {
  Row result;
  result.target = read_integer(settings.target, find(arrays, "targets")->data, row);
  result.ignored = result.target == settings.ignore_index;
  result.bad = !result.ignored && (result.target < 0 || result.target >= settings.vocab_size);
  const std::int64_t local = result.counts() ? result.target - settings.vocab_start : -1;
  const std::int64_t at_hand = settings.kind == Kind::combine ? settings.vocab_size : settings.shape.cols;
  if (local >= 0 && local < at_hand) result.column = local;
  const HostArray* const weight = find(arrays, "weight");
  if (weight != nullptr && result.column >= 0) result.target_weight = number_at(settings, *weight, result.column);
  return result;
}

template <typename Real>
Real transformed(const Settings& settings, Real logit) {
  logit = in_range(settings.number(),
                   logit * static_cast<Real>(settings.wide() ? settings.scale : static_cast<float>(settings.scale)));
  if (settings.softcap != 0 && logit != -INFINITY) logit = settings.softcap * std::tanh(logit / settings.softcap);
  return logit;
}
template <typename Real>
Real slope(const Settings& settings, Real logit) {
  if (settings.softcap == 0) return settings.scale;
  if (logit == -INFINITY) return 0;
  const Real share = logit / settings.softcap;
  return settings.scale * (1 - share) * (1 + share);
}

double logit_at(const HostArray& logits, std::int64_t row, std::int64_t column) {
  return read_element(logits.info.dtype, logits.data, row::Elements{logits.info}.at(row, column));
}

template <typename Real>
RowReference<Real> reference_of(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index,
                                const Row& row) {
  const row::Shape& shape = settings.shape;
  const HostArray& logits = *find(arrays, "logits");
  const HostArray* const weight = find(arrays, "weight");
  RowReference<Real> out;
  std::vector<Real> values(static_cast<std::size_t>(shape.cols));
  bool has_nan = false;
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    const Real value = transformed<Real>(settings, logit_at(logits, index, c));
    values[static_cast<std::size_t>(c)] = value;
    if (std::isnan(value) && !has_nan) out.argmax = c;
    has_nan = has_nan || std::isnan(value);
    if (!has_nan && (value > out.largest || out.argmax < 0)) out.argmax = c;
    out.largest = std::max(out.largest, value);
    out.logit_error = std::max(out.logit_error, logit_error(settings, static_cast<double>(value)));
  }
  if (has_nan) out.largest = NAN;
  if (out.logit_error > 0)
    out.maxima = std::ranges::count_if(values, [&](Real value) { return value >= out.largest - 2 * out.logit_error; });
  if (row.column >= 0) out.target_logit = values[static_cast<std::size_t>(row.column)];
  long double sum_excluding_max = 0, below = 0, weights = 0;
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    const Real value = values[static_cast<std::size_t>(c)];
    if (c != row.column && value != -INFINITY) sum_excluding_max += std::exp(value - out.largest);
    const double w = weight == nullptr ? 1.0 : number_at(settings, *weight, c);
    if (settings.label_smoothing != 0) below += w * (out.largest - value);
    weights += w;
  }
  out.sum_excluding_max = static_cast<Real>(sum_excluding_max);
  out.below = static_cast<Real>(below);
  out.weights = static_cast<Real>(weights);
  const auto overflows = [&](long double finite) {
    return std::isfinite(finite) && std::isinf(in_range<long double>(settings.number(), finite));
  };
  out.smoothing_overflows = settings.label_smoothing != 0 &&
                            (overflows(out.largest) || overflows(below) || (std::isnan(below) && !std::isnan(out.largest)));
  complete(settings, row, row.target_weight, out);
  return out;
}

template <typename Real>
bool may_be_argmax(const Settings& settings, const HostArray& logits, std::int64_t row, std::int64_t column,
                   const RowReference<Real>& reference) {
  if (column == reference.argmax) return true;
  if (reference.maxima == 1 || column < 0 || column >= settings.shape.cols) return false;
  return transformed<Real>(settings, logit_at(logits, row, column)) >= reference.largest - 2 * reference.logit_error;
}

std::int64_t class_of_partial(const Settings& settings, const std::byte* partials, std::int64_t row) {
  const std::int64_t at = row * 8 + 7;
  if (settings.wide()) return static_cast<std::int64_t>(read_element(DType::f64, partials, at));
  std::int32_t bits = 0;
  std::memcpy(&bits, partials + at * 4, sizeof bits);
  return bits;
}

template <typename Real>
RowReference<Real> combined(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, Row& row) {
  const std::byte* const parts = find(arrays, "partials")->data;
  const auto value = [&](std::int64_t shard, int field) -> Real {
    return read_element(settings.number(), parts, (shard * settings.shape.rows + index) * 8 + field);
  };
  RowReference<Real> out;
  bool has_target = false;
  for (std::int64_t s = 0; s < settings.shards; ++s) {
    out.largest = std::max(out.largest, value(s, 0));
    if (value(s, 6) == 0) continue;
    has_target = true;
    out.target_logit = value(s, 4);
    row.target_weight = static_cast<double>(value(s, 5));
  }
  for (std::int64_t s = 0; s < settings.shards; ++s) {
    const Real lift = out.largest - (value(s, 0) == -INFINITY ? 0 : value(s, 0));
    if (value(s, 0) != -INFINITY) out.sum_excluding_max += value(s, 1) * std::exp(value(s, 0) - out.largest);
    out.below += value(s, 2) + value(s, 3) * lift;
    out.weights += value(s, 3);
    if (value(s, 0) == out.largest) {
      const std::int64_t first = class_of_partial(settings, parts, s * settings.shape.rows + index);
      out.argmax = out.argmax < 0 ? first : std::min(out.argmax, first);
    }
  }
  row.bad = row.bad || (row.counts() && !has_target);
  if (row.counts()) {
    out.below += row.target_weight * (out.largest - out.target_logit);
    out.weights += row.target_weight;
  }
  complete(settings, row, row.target_weight, out);
  return out;
}

template <typename Real>
RowReference<Real> from_lse(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index,
                            const Row& row) {
  RowReference<Real> out;
  out.lse = out.largest = number_at(settings, *find(arrays, "lse"), index);
  if (const HostArray* const low = find(arrays, "lse_low"); low != nullptr) out.log_sum = number_at(settings, *low, index);
  const HostArray* const weight = find(arrays, "weight");
  if (weight == nullptr)
    out.weights = static_cast<Real>(settings.vocab_size);
  else
    for (std::int64_t c = 0; c < settings.shape.cols; ++c) out.weights += number_at(settings, *weight, c);
  const HostArray& logits = *find(arrays, "logits");
  for (std::int64_t c = 0; c < settings.shape.cols; ++c)
    out.logit_error = std::max(out.logit_error, logit_error(settings, transformed(settings, logit_at(logits, index, c))));
  if (row.column >= 0) {
    out.target_logit = transformed<Real>(settings, logit_at(logits, index, row.column));
    const HostArray* const nll = find(arrays, "nll");
    out.nll = nll == nullptr ? out.lse - out.target_logit + out.log_sum : number_at(settings, *nll, index);
    out.target_rest = std::expm1(-out.nll);
  }
  return out;
}

template double transformed(const Settings&, double);
template long double transformed(const Settings&, long double);
template double slope(const Settings&, double);
template long double slope(const Settings&, long double);
template RowReference<double> reference_of(const Settings&, std::span<const HostArray>, std::int64_t, const Row&);
template RowReference<long double> reference_of(const Settings&, std::span<const HostArray>, std::int64_t, const Row&);
template bool may_be_argmax(const Settings&, const HostArray&, std::int64_t, std::int64_t, const RowReference<double>&);
template bool may_be_argmax(const Settings&, const HostArray&, std::int64_t, std::int64_t, const RowReference<long double>&);
template RowReference<double> combined(const Settings&, std::span<const HostArray>, std::int64_t, Row&);
template RowReference<long double> combined(const Settings&, std::span<const HostArray>, std::int64_t, Row&);
template RowReference<double> from_lse(const Settings&, std::span<const HostArray>, std::int64_t, const Row&);
template RowReference<long double> from_lse(const Settings&, std::span<const HostArray>, std::int64_t, const Row&);

}  // namespace tunesmith::cross_entropy
