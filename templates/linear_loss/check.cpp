// Inputs of the linear loss, and the comparison of its results with float64 logits.

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/half.h"
#include "templates/linear_loss/op.h"
#include "templates/sampling.h"

namespace tunesmith {
namespace {

const HostArray* find(std::span<const HostArray> arrays, std::string_view name) {
  const auto found = std::ranges::find_if(arrays, [&](const HostArray& array) { return array.info.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

/// A token's logits and what follows from them, in float64.
struct Token {
  std::vector<double> logits;  ///< scaled and capped
  std::vector<double> slopes;  ///< d logit / d product
  double largest = -INFINITY;
  double sum = 0;            ///< of exponentials relative to the largest
  double product_error = 0;  ///< of any logit, from sums in float32

  double lse() const { return largest + std::log(sum); }
  double share(std::int64_t c) const { return std::exp(logits[static_cast<std::size_t>(c)] - largest) / sum; }
};

}  // namespace

void ParsedLinearLoss::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  const HostArray &hidden = *find(arrays, "hidden"), &weight = *find(arrays, "weight"), &targets = *find(arrays, "targets");
  const std::int64_t k = p_.hidden_size;
  const auto bits = [seed](std::int64_t array, std::int64_t i) {
    return scramble(scramble(seed + static_cast<std::uint64_t>(array)) + static_cast<std::uint64_t>(i));
  };
  over_rows(p_.vocab_size, k, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * k; i < end * k; ++i)
      write_element(p_.dtype, weight.data, i, static_cast<float>(bell(bits(0, i))));
  });
  for (std::int64_t t = 0; t < p_.tokens; ++t) {
    const auto target = static_cast<std::int64_t>(bits(1, t) % static_cast<std::uint64_t>(p_.vocab_size));
    const bool edge = kind == InputKind::edge_cases;
    const std::int64_t written = edge && t % 13 == 5 ? p_.ignore_index : edge && t % 97 == 41 ? p_.vocab_size : target;
    write_integer(p_.target_dtype, targets.data, t, written);
    // Logits with a deviation of 3; of 200, so that most exponentials overflow at first; or a target that has nearly all.
    const double deviation = edge && t % 29 == 17 ? 200 : 3;
    const bool confident = edge && t % 7 == 3;
    for (std::int64_t i = 0; i < k; ++i) {
      double value = bell(bits(2, t * k + i)) * deviation / std::sqrt(static_cast<double>(k));
      if (confident) value += 20 * read_element(p_.dtype, weight.data, target * k + i) / static_cast<double>(k);
      if (edge && t == 23 && i == k / 2) value = std::nan("");
      write_element(p_.dtype, hidden.data, t * k + i, static_cast<float>(value / p_.scale));
    }
  }
  if (const HostArray* const dloss = find(arrays, "dloss"); dloss != nullptr)
    for (std::int64_t t = 0; t < dloss->info.elements(); ++t)
      write_element(DType::f32, dloss->data, t, static_cast<float>(0.5 + bell(bits(3, t))));
}

CheckResult ParsedLinearLoss::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const HostArray &hidden = *find(arrays, "hidden"), &weight = *find(arrays, "weight"), &targets = *find(arrays, "targets");
  const HostArray* const dloss = find(arrays, "dloss");
  const HostArray *const exponentials = find(arrays, "exponentials"), *const scaled = find(arrays, "scaled_hidden");
  const std::int64_t k = p_.hidden_size, stride = p_.exponentials_row_stride.value_or(p_.columns());
  const auto value_of = [&](const char* name, std::int64_t t) {
    return read_element(DType::f32, find(arrays, name)->data, t);
  };

  CheckResult result;
  result.error_unit = "times the allowed error";
  result.allowed_error = 1;
  result.total_rows = p_.tokens;
  const std::int64_t affordable = (std::int64_t{1} << 31) / (p_.vocab_size * k) + 4;
  result.checked_rows = std::min({p_.tokens, std::max<std::int64_t>(max_rows, 1), affordable});
  const auto compare = [&](const std::string& what, double found, double expected, double allowed) {
    const double error = std::isnan(expected) ? (std::isnan(found) ? 0 : INFINITY) : std::fabs(found - expected) / allowed;
    if (found == expected || error <= 1) {
      result.max_error = std::max(result.max_error, found == expected ? 0.0 : error);
    } else if (result.first_failure.empty()) {
      result.max_error = INFINITY;
      std::ostringstream text;
      text.precision(9);
      text << what << " is " << found << ", reference " << expected << ", allowed difference " << allowed;
      result.first_failure = text.str();
    }
  };

  const auto token_of = [&](std::int64_t t) {
    Token token;
    const auto size = static_cast<std::size_t>(p_.vocab_size);
    token.logits.resize(size), token.slopes.resize(size);
    for (std::int64_t c = 0; c < p_.vocab_size; ++c) {
      double sum = 0, magnitude = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double product = static_cast<double>(read_element(p_.dtype, hidden.data, t * k + i)) *
                               read_element(p_.dtype, weight.data, c * k + i);
        sum += product, magnitude += std::fabs(product);
      }
      double logit = p_.scale * sum, slope = p_.scale;
      // Tensor cores truncate what they add to float32 sums.
      double error = 0x1p-24 * (8 + 2 * std::sqrt(static_cast<double>(k))) * magnitude * p_.scale;
      if (p_.softcap > 0) {
        const double capped = std::tanh(logit / p_.softcap);
        logit = p_.softcap * capped;
        slope *= 1 - capped * capped;
        error += 0x1p-21 * std::fabs(logit);
      }
      token.logits[static_cast<std::size_t>(c)] = logit;
      token.slopes[static_cast<std::size_t>(c)] = slope;
      token.product_error = std::max(token.product_error, error);
      token.largest = std::isnan(logit) ? logit : std::max(logit, token.largest);
    }
    for (const double logit : token.logits) token.sum += std::exp(logit - token.largest);
    return token;
  };

  for (std::int64_t i = 0; i < result.checked_rows; ++i) {
    const std::int64_t t = result.checked_rows > 1 ? (p_.tokens - 1) * i / (result.checked_rows - 1) : 0;
    const auto at = [t](const char* array) { return std::string(array) + "[" + std::to_string(t) + "]"; };
    const Token token = token_of(t);
    const std::int64_t target = read_integer(p_.target_dtype, targets.data, t);
    const bool ignored = target == p_.ignore_index, bad = !ignored && (target < 0 || target >= p_.vocab_size);
    const bool counts = !ignored && !bad;
    const double lse = token.lse();
    const double of_target = counts ? token.share(target) : 0;
    // The shares of the other classes, without cancellation.
    double rest = 0;
    for (std::int64_t c = 0; c < p_.vocab_size; ++c)
      if (c != target) rest += token.share(c);

    // Of an exponential: its logit, the rounding of an exponent of up to 160, and ex2.approx.
    const double error_of_exponential = token.product_error + 160 * 0x1p-24 + 0x1p-21;
    const double lse_error = error_of_exponential + (std::fabs(lse) + 64) * 0x1p-23;
    compare(at("lse"), value_of("lse", t), lse, lse_error);
    const double missing = ignored ? 0 : NAN;
    const double nll =
        counts ? (of_target > 0.5 ? std::log1p(rest / of_target) : lse - token.logits[static_cast<std::size_t>(target)])
               : missing;
    const double nll_error = 2 * rest * error_of_exponential + nll * 0x1p-21 + (of_target > 0.4 ? 0 : lse_error) + 0x1p-126;
    const double z_loss = counts ? p_.z_loss * lse * lse : missing;
    const double z_error = 2 * p_.z_loss * std::fabs(lse) * lse_error + z_loss * 0x1p-22;
    compare(at("loss"), value_of("loss", t), nll + z_loss, nll_error + z_error + std::fabs(nll + z_loss) * 0x1p-23);
    if (p_.z_loss > 0) compare(at("z_loss"), value_of("z_loss", t), z_loss, z_error);
    if (p_.nll) compare(at("nll"), value_of("nll", t), nll, nll_error);
    if (!p_.gradient) continue;

    const double factor = value_of("row_factors", t);
    const double upstream = dloss == nullptr ? 1 : read_element(DType::f32, dloss->data, p_.dloss == Upstream::row ? t : 0);
    if (!counts && factor != 0) compare(at("row_factors"), factor, 0, 0);
    if (counts && !std::isfinite(lse)) {
      compare(at("row_factors"), factor, NAN, 0);
      continue;
    }
    for (std::int64_t j = 0; j < k; ++j) {
      const double expected = counts ? factor * read_element(p_.dtype, hidden.data, t * k + j) : 0;
      compare(at("scaled_hidden"), read_element(p_.dtype, scaled->data, t * k + j), expected,
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
      const double cap_error = p_.softcap > 0 ? p_.scale * 0x1p-20 : 0;  // of a derivative near 0
      double gradient = slope * token.share(c), terms = std::fabs(gradient);
      if (c == target) gradient = slope - 1 - slope * rest, terms = std::fabs(slope - 1) + std::fabs(slope) * rest;
      // An exponential below the range is 0, before it is multiplied with the derivative.
      const double allowed =
          std::fabs(upstream) * terms * (derivative * relative + cap_error) + std::fabs(factor) * 0x1p-126 * (1 + p_.scale);
      compare(at("gradient") + "[" + std::to_string(c) + "]", factor * found, upstream * gradient * derivative, allowed);
    }
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
