// Inputs of the linear loss, and the comparison of its results with float64 logits.

#include <algorithm>
#include <cmath>
#include <string>

#include "core/half.h"
#include "templates/linear_loss/op.h"
#include "templates/linear_loss/reference.h"

namespace tunesmith {

using linear_loss::find;
void ParsedLinearLoss::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  linear_loss::fill_inputs(product(), p_.scale, p_.ignore_index, seed, kind, arrays);
}

CheckResult ParsedLinearLoss::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const HostArray &hidden = *find(arrays, "hidden"), &targets = *find(arrays, "targets");
  const HostArray* const dloss = find(arrays, "dloss");
  const HostArray *const exponentials = find(arrays, "exponentials"), *const scaled = find(arrays, "scaled_hidden");
  const std::int64_t k = p_.hidden_size, stride = p_.exponentials_row_stride.value_or(p_.columns());
  const auto value_of = [&](const char* name, std::int64_t t) {
    return read_element(DType::f32, find(arrays, name)->data, t);
  };

  linear_loss::Comparison comparison(product(), max_rows);
  const auto compare = [&](const std::string& what, double found, double expected, double allowed) {
    comparison.compare(what, DType::f32, found, expected, allowed);
  };
  for (std::int64_t i = 0; i < comparison.tokens(); ++i) {
    const std::int64_t t = comparison.token(i);
    const auto at = [t](const char* array) { return std::string(array) + "[" + std::to_string(t) + "]"; };
    const linear_loss::Token token(product(), p_.scale, p_.softcap, arrays, t);
    const std::int64_t target = read_integer(p_.target_dtype, targets.data, t);
    const bool ignored = target == p_.ignore_index, bad = !ignored && (target < 0 || target >= p_.vocab_size);
    const bool counts = !ignored && !bad;
    const double lse = token.lse();
    const double of_target = counts ? token.share(target) : 0;
    // The shares of the other classes, without cancellation.
    double rest = 0;
    for (std::int64_t c = 0; c < p_.vocab_size; ++c)
      if (c != target) rest += token.share(c);

    const double error_of_exponential = token.error_of_exponential();
    const double lse_error = error_of_exponential + (std::fabs(lse) + 64) * 0x1p-23;
    if (token.has_known_lse()) compare(at("lse"), value_of("lse", t), lse, lse_error);
    if (token.is_vague()) continue;
    // Sums of exponentials times their distance from the origin, which is up to 160.
    if (p_.entropy) compare(at("entropy"), value_of("entropy", t), token.entropy(), 64 * (error_of_exponential + 0x1p-21));
    const double missing = ignored ? 0 : NAN;
    const double nll =
        counts ? (of_target > 0.5 ? std::log1p(rest / of_target) : lse - token.logits[static_cast<std::size_t>(target)])
               : missing;
    const double nll_error = 2 * rest * error_of_exponential + nll * 0x1p-21 + (of_target > 0.4 ? 0 : lse_error) +
                             static_cast<double>(p_.vocab_size) * 0x1p-79;  // exponentials 55 below the target are 0
    const double z_loss = counts ? p_.z_loss * lse * lse : missing;
    const double z_error = 2 * p_.z_loss * std::fabs(lse) * lse_error + z_loss * 0x1p-22;
    compare(at("loss"), value_of("loss", t), nll + z_loss, nll_error + z_error + std::fabs(nll + z_loss) * 0x1p-23);
    if (p_.z_loss > 0) compare(at("z_loss"), value_of("z_loss", t), z_loss, z_error);
    if (p_.nll) compare(at("nll"), value_of("nll", t), nll, nll_error);
    if (!p_.gradient) continue;

    const double factor = value_of("row_factors", t);
    const double upstream = dloss == nullptr ? 1 : read_element(DType::f32, dloss->data, p_.dloss == Upstream::row ? t : 0);
    if (!counts && factor != 0) compare(at("row_factors"), factor, 0, 0);
    if (counts && !std::isfinite(lse)) compare(at("row_factors"), factor, NAN, 0);
    if (counts && !std::isfinite(upstream) && std::isfinite(factor)) compare(at("row_factors"), factor, NAN, 0);
    if (counts && !(std::isfinite(lse) && std::isfinite(upstream))) continue;
    for (std::int64_t j = 0; j < k; ++j) {
      const double expected = factor != 0 ? factor * read_element(p_.dtype, hidden.data, t * k + j) : 0;
      comparison.compare(at("scaled_hidden"), p_.dtype, read_element(p_.dtype, scaled->data, t * k + j), expected,
                         0.51 * spacing(p_.dtype, expected));
    }
    const double slope = 1 + 2 * p_.z_loss * lse;
    const double rounding = p_.dtype == DType::f32 ? 0x1p-22 : 0x1.01p-8;
    const double relative =
        rounding + 2 * error_of_exponential + 2 * p_.z_loss * lse_error / std::max(std::fabs(slope), 1e-3);
    for (std::int64_t c = 0; c < p_.columns(); ++c) {
      const double found = read_element(p_.dtype, exponentials->data, t * stride + c);
      if (c >= p_.vocab_size || !counts) {
        compare(at("exponentials"), found, 0, 0);
        continue;
      }
      const double derivative = token.slopes[static_cast<std::size_t>(c)];
      const double derivative_error = token.slope_errors[static_cast<std::size_t>(c)];
      double gradient = slope * token.share(c), terms = std::fabs(gradient);
      if (c == target) gradient = slope - 1 - slope * rest, terms = std::fabs(slope - 1) + std::fabs(slope) * rest;
      // The target's is slope - 1 = 2 z_loss lse where it has all of the sum: lse's error counts, however small lse is. An
      // exponential below the range is 0, before it is multiplied with the derivative. A tiny factor is rounded.
      const double of_slope = c == target ? 2 * p_.z_loss * lse_error * derivative : 0;
      const double allowed = std::fabs(upstream) * (terms * (derivative * relative + derivative_error) + of_slope) +
                             std::fabs(factor) * 0x1p-126 * (1 + p_.scale) + std::fabs(found) * 0x1p-149;
      compare(at("gradient") + "[" + std::to_string(c) + "]", factor * found, upstream * gradient * derivative, allowed);
    }
  }
  return comparison.result();
}

}  // namespace tunesmith
