#include "templates/linear_loss/reference.h"

#include <algorithm>
#include <sstream>

#include "core/half.h"
#include "templates/sampling.h"

namespace tunesmith::linear_loss {

void fill_inputs(const matmul::ProductProblem& product, double scale, std::int64_t ignore_index, std::uint64_t seed,
                 InputKind kind, std::span<const HostArray> arrays) {
  const HostArray &hidden = *find(arrays, "hidden"), &weight = *find(arrays, "weight"), &targets = *find(arrays, "targets");
  const std::int64_t k = product.k;
  const auto bits = [seed](std::int64_t array, std::int64_t i) {
    return scramble(scramble(seed + static_cast<std::uint64_t>(array)) + static_cast<std::uint64_t>(i));
  };
  over_rows(product.n, k, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * k; i < end * k; ++i)
      write_element(product.dtype, weight.data, i, static_cast<float>(bell(bits(0, i))));
  });
  for (std::int64_t t = 0; t < product.m; ++t) {
    const auto target = static_cast<std::int64_t>(bits(1, t) % static_cast<std::uint64_t>(product.n));
    const bool edge = kind == InputKind::edge_cases;
    const std::int64_t written = edge && t % 13 == 5 ? ignore_index : edge && t % 97 == 41 ? product.n : target;
    write_integer(targets.info.dtype, targets.data, t, written);
    // Logits with a deviation of 3; of 200, so that most exponentials overflow at first; or a target that has nearly all.
    const double deviation = edge && t % 29 == 17 ? 200 : 3;
    const bool confident = edge && t % 7 == 3;
    for (std::int64_t i = 0; i < k; ++i) {
      double value = bell(bits(2, t * k + i)) * deviation / std::sqrt(static_cast<double>(k));
      if (confident) value += 20 * read_element(product.dtype, weight.data, target * k + i) / static_cast<double>(k);
      if (edge && t == 23 && i == k / 2) value = std::nan("");
      write_element(product.dtype, hidden.data, t * k + i, static_cast<float>(value / scale));
    }
  }
  int number = 3;
  for (const HostArray& array : arrays)
    if (array.info.input && array.info.dtype == DType::f32 && &array != &hidden &&
        &array != &weight) {  // upstream gradients
      for (std::int64_t i = 0; i < array.info.elements(); ++i)
        write_element(DType::f32, array.data, i, static_cast<float>(0.5 + bell(bits(number, i))));
      ++number;
    }
}

Token::Token(const matmul::ProductProblem& product, double scale, double softcap, std::span<const HostArray> arrays,
             std::int64_t t)
    : logits(static_cast<std::size_t>(product.n)), slopes(logits.size()), slope_errors(logits.size()) {
  const HostArray &hidden = *find(arrays, "hidden"), &weight = *find(arrays, "weight");
  const std::int64_t k = product.k;
  for (std::int64_t c = 0; c < product.n; ++c) {
    double dot = 0, magnitude = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const double term = static_cast<double>(read_element(product.dtype, hidden.data, t * k + i)) *
                          read_element(product.dtype, weight.data, c * k + i);
      dot += term;
      if (std::isfinite(term)) magnitude += std::fabs(term);
    }
    double logit = scale * dot, slope = scale;
    // Tensor cores truncate what they add to float32 sums.
    double error = 0x1p-24 * (8 + 2 * std::sqrt(static_cast<double>(k))) * magnitude * scale;
    if (softcap > 0) {
      const double capped = std::tanh(logit / softcap);
      logit = softcap * capped;
      slope *= 1 - capped * capped;
      slope_errors[static_cast<std::size_t>(c)] = scale * 0x1p-20 + slope * std::expm1(2 * error / softcap);
      error += 0x1p-21 * softcap;
    }
    logits[static_cast<std::size_t>(c)] = logit;
    slopes[static_cast<std::size_t>(c)] = slope;
    product_error = std::max(product_error, error);
    largest = std::isnan(logit) ? logit : std::max(logit, largest);
  }
  for (const double logit : logits) sum += std::exp(logit - largest);
}

double Token::entropy() const {
  double total = 0;
  for (std::int64_t c = 0; c < std::ssize(logits); ++c)
    if (const double p = share(c); p != 0) total -= p * (logits[static_cast<std::size_t>(c)] - lse());
  return total;
}

Comparison::Comparison(const matmul::ProductProblem& product, std::int64_t max_rows) {
  result_.error_unit = "times the allowed error";
  result_.allowed_error = 1;
  result_.total_rows = product.m;
  const std::int64_t affordable = (std::int64_t{1} << 31) / (product.n * product.k) + 4;
  result_.checked_rows = std::min({product.m, std::max<std::int64_t>(max_rows, 1), affordable});
}

std::int64_t Comparison::token(std::int64_t i) const {
  return result_.checked_rows > 1 ? (result_.total_rows - 1) * i / (result_.checked_rows - 1) : 0;
}

void Comparison::compare(const std::string& what, DType dtype, double found, double expected, double allowed) {
  const double error = std::isnan(expected) ? (std::isnan(found) ? 0 : INFINITY) : std::fabs(found - expected) / allowed;
  const bool overflows = std::fabs(expected) + allowed > largest_number(dtype) && found == std::copysign(INFINITY, expected);
  if (found == expected || overflows || error <= 1) {
    result_.max_error = std::max(result_.max_error, found == expected || overflows ? 0.0 : error);
  } else if (result_.first_failure.empty()) {
    result_.max_error = INFINITY;
    std::ostringstream text;
    text.precision(9);
    text << what << " is " << found << ", reference " << expected << ", allowed difference " << allowed;
    result_.first_failure = text.str();
  }
}

CheckResult Comparison::result() const {
  CheckResult result = result_;
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith::linear_loss
