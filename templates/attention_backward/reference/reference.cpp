#include "templates/attention_backward/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "core/half.h"

namespace tunesmith::attention_backward {

using attention::find;
using attention::Rounded;

namespace {

/// Half a unit of a 16-bit factor of a product, relative to it; and half the distance of denormals.
double relative_rounding(DType dtype) noexcept { return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0; }
double denormal_rounding(DType dtype) noexcept { return dtype == DType::f16 ? 0x1p-25 : 0; }

/// A dot product and the sum of its terms' magnitudes.
struct Dot {
  double value = 0, size = 0;
};
Dot dot(const double* a, const double* b, std::int64_t count) noexcept {
  Dot sum;
  for (std::int64_t i = 0; i < count; ++i) {
    sum.value += a[i] * b[i];
    sum.size += std::fabs(a[i] * b[i]);
  }
  return sum;
}

/// Bound of the error of a float32 sum of `terms` terms, relative to their magnitudes.
double sum_error(std::int64_t terms) noexcept { return 2 * static_cast<double>(terms + 2) * 0x1p-24; }

}  // namespace

GradientRow::GradientRow(std::int64_t width)
    : sums(static_cast<std::size_t>(width)), sizes(sums.size()), bounds(sums.size()) {}

Bounded Bounded::times(double factor) const noexcept {
  return {factor * value, std::fabs(factor) * size, std::fabs(factor) * error};
}

void GradientRow::add(const Bounded& factor, const double* row) {
  ++terms;
  for (std::size_t c = 0; c < sums.size(); ++c) {
    const Bounded term = factor.times(row[c]);
    sums[c] += term.value;
    sizes[c] += term.size;
    bounds[c] += term.error;
  }
}

Reference::Reference(const Settings& settings, std::span<const HostArray> arrays, const Evaluate& evaluate)
    : settings_(settings),
      arrays_(arrays),
      evaluate_(evaluate),
      forward_(settings.forward, arrays),
      dropout_(settings.forward, arrays),
      user_scores_(settings.forward, arrays, evaluate) {}

Matrix Reference::load(const std::byte* data, Side side, const Tensor& tensor, std::int64_t batch, std::int64_t start,
                       std::int64_t count, std::int64_t head) const {
  const attention::Settings& forward = settings_.forward;
  Matrix matrix{count, forward.width(side), {}};
  matrix.values.reserve(static_cast<std::size_t>(count * matrix.columns));
  std::vector<double> row(static_cast<std::size_t>(matrix.columns));
  for (std::int64_t i = 0; i < count; ++i) {
    attention::read_elements(forward.dtype, data, attention::Settings::element(tensor, batch, start + i, head), row);
    matrix.values.insert(matrix.values.end(), row.begin(), row.end());
  }
  return matrix;
}

KeyHead Reference::keys(std::int64_t batch, std::int64_t kv_head) const {
  KeyHead head{batch, kv_head, forward_.sequence(batch), {}, {}};
  const attention::Settings& forward = settings_.forward;
  const auto load_side = [&](Side side) {
    return load(arrays_[static_cast<std::size_t>(side)].data, side, forward.tensor(side), batch, head.bounds.kv_start,
                head.bounds.keys, kv_head);
  };
  head.k = load_side(Side::k);
  head.v = load_side(Side::v);
  return head;
}

QueryHead Reference::queries(const KeyHead& keys, std::int64_t head) const {
  const attention::Settings& forward = settings_.forward;
  const attention::Reference::Bounds& bounds = keys.bounds;
  const auto load_queries = [&](const char* name, Side side, const Tensor& tensor) {
    return load(find(arrays_, name)->data, side, tensor, keys.batch, bounds.q_start, bounds.queries, head);
  };
  QueryHead loaded{
      head, load_queries("q", Side::q, forward.tensor(Side::q)), load_queries("dout", Side::o, settings_.dout), {}, {}};
  const Matrix o = load_queries("o", Side::o, forward.tensor(Side::o));
  for (std::int64_t i = 0; i < bounds.queries; ++i) {
    const std::int64_t row = settings_.row(keys.batch, head, bounds.q_start + i);
    const Dot product = dot(o.row(i), loaded.dout.row(i), o.columns);
    const double dlse = settings_.dlse ? read_element(DType::f32, find(arrays_, "dlse")->data, row) : 0;
    loaded.lse.push_back(read_element(DType::f32, find(arrays_, "lse")->data, row));
    loaded.delta.push_back({product.value - dlse, product.size + std::fabs(dlse),
                            product.size * sum_error(o.columns) + std::fabs(dlse) * 0x1p-23});
  }
  return loaded;
}

double Reference::head_value(const char* array, std::int64_t head) const {
  return read_element(DType::f32, find(arrays_, array)->data, head);
}

Rounded Reference::score(const KeyHead& keys, const QueryHead& queries, std::int64_t query, std::int64_t key) const {
  const Dot product = dot(queries.q.row(query), keys.k.row(key), queries.q.columns);
  return attention::score_of(settings_.forward, product.value, product.size);
}

PairTerms Reference::terms(const KeyHead& keys, const QueryHead& queries, std::int64_t query, std::int64_t key,
                           const Score& scores) const {
  const attention::Settings& forward = settings_.forward;
  const auto at = static_cast<std::size_t>(query);
  Rounded score = scores.value;
  PairTerms pair;
  pair.distance = static_cast<double>(std::llabs(query + forward.offset(keys.bounds.queries, keys.bounds.keys) - key));
  const double lse = queries.lse[at];
  const Bounded& delta = queries.delta[at];
  if (score.value == -INFINITY || lse == -INFINITY) {  // masked, or a query without keys
    // The product of the probability 0 with what is infinite or NaN in its row may be NaN.
    pair.undecided = lse != -INFINITY && (std::isnan(lse) || !std::isfinite(delta.value));
    return pair;
  }
  if (forward.alibi) {
    const double bias = head_value("alibi_slopes", queries.head) * pair.distance;
    score.value -= bias;
    score.error += std::fabs(bias) * 0x1p-22;
  }
  score.error += (std::fabs(score.value) + std::fabs(lse)) * 0x1p-22;
  // Nothing is known of a probability whose score is off by more, unless it is 0 in any case.
  constexpr double max_error = 16, no_probability = -150;
  if (score.error > max_error && !(score.value + score.error - lse <= no_probability)) {  // which may be infinite
    pair.undecided = true;
    return pair;
  }
  const double relative = std::expm1(std::min(score.error, max_error)) + 0x1p-21;
  const double rounding = relative_rounding(forward.dtype), denormal = denormal_rounding(forward.dtype);
  const double p = std::exp(score.value - lse);
  const double kept = forward.dropout > 0 ? dropout_.factor(keys.batch, queries.head, query, key) : 1;
  pair.probability = Bounded{p, p, p * (relative + rounding) + denormal + min_normal}.times(kept);

  Dot product = dot(queries.dout.row(query), keys.v.row(key), keys.v.columns);
  product.value *= kept;
  product.size *= kept;
  const double difference = product.value - delta.value;
  pair.score_gradient = {
      p * difference, p * (product.size + delta.size),
      std::fabs(p * difference) * relative +
          p * (1 + relative) * (product.size * sum_error(keys.v.columns) + delta.error + std::fabs(difference) * 0x1p-22)};
  pair.score_gradient.error += min_normal * (1 + std::fabs(difference));
  // wgmma multiplies with the probability that it has rounded for the product with dout.
  pair.score_gradient.error += (p * rounding + denormal) * std::fabs(difference);
  double slope = 1, slope_error = 0;
  if (forward.softcap != 0) {
    const double ratio = scores.unmodified.value / forward.softcap;
    slope = 1 - ratio * ratio;
    slope_error = 0x1p-20 + 2 * scores.unmodified.error / forward.softcap;
  }
  if (!forward.score_mod.empty() && p > 0) {
    const Rounded& derivative = scores.derivative;
    slope_error = slope_error * (std::fabs(derivative.value) + derivative.error) + std::fabs(slope) * derivative.error;
    slope *= derivative.value;
  }
  pair.gradient = pair.score_gradient.times(slope);
  pair.gradient.size += pair.score_gradient.size * slope_error;
  pair.gradient.error += (std::fabs(pair.score_gradient.value) + pair.score_gradient.error) * slope_error +
                         std::fabs(pair.gradient.value) * 0x1p-22;
  // The rounding to 16 bits is one of the number with all these errors.
  pair.gradient.error += (std::fabs(pair.gradient.value) + pair.gradient.error) * rounding + denormal;
  // wgmma rounds the probability times its slope instead.
  if (forward.softcap != 0 || !forward.score_mod.empty()) pair.gradient.error += denormal * std::fabs(difference);
  // Factors of products are 16-bit numbers, and gradients are infinite or NaN where a factor is no finite one.
  const auto may_overflow = [&](const Bounded& factor) {
    return std::fabs(factor.value) + factor.error > largest_number(forward.dtype);
  };
  // Kernels select 0 for what is dropped, or multiply with 0, which keeps NaN.
  const bool dropped_nan = kept == 0 && !std::isfinite(pair.probability.value + product.value);
  pair.undecided = dropped_nan || may_overflow(pair.probability) || may_overflow(pair.gradient);
  return pair;
}

std::vector<std::vector<Reference::Score>> Reference::modified(std::vector<attention::Reference::Query>& queries) const {
  std::vector<std::vector<Score>> all;
  for (const attention::Reference::Query& query : queries) {
    std::vector<Score>& scores = all.emplace_back();
    for (std::size_t j = 0; j < query.scores.size(); ++j) scores.push_back({{}, {query.scores[j], query.errors[j]}, {1, 0}});
  }
  std::vector<std::vector<Rounded>> derivatives;
  if (!settings_.forward.score_mod.empty()) derivatives = user_scores_.derivatives(queries);
  if (settings_.forward.modified()) user_scores_.apply(queries);
  for (std::size_t i = 0; i < queries.size(); ++i)
    for (std::size_t j = 0; j < all[i].size(); ++j) {
      all[i][j].value = {queries[i].scores[j], queries[i].errors[j]};
      if (!derivatives.empty()) all[i][j].derivative = derivatives[i][j];
    }
  return all;
}

std::int64_t Reference::lines_at_once(std::int64_t pairs) const noexcept {
  constexpr std::int64_t max_pairs = 1 << 18;
  return settings_.forward.modified() ? std::max<std::int64_t>(1, max_pairs / std::max<std::int64_t>(pairs, 1)) : 1;
}

std::vector<Reference::Line> Reference::of_queries(const KeyHead& keys, const QueryHead& queries,
                                                   std::span<const std::int64_t> numbers) const {
  const attention::Settings& forward = settings_.forward;
  std::vector<attention::Reference::Query> rows;
  for (const std::int64_t query : numbers) {
    const std::int64_t position = query + forward.offset(keys.bounds.queries, keys.bounds.keys);
    const std::int64_t first = forward.bounded_left() ? std::max<std::int64_t>(0, position - forward.left()) : 0;
    const std::int64_t end =
        forward.bounded_right() ? std::min(keys.bounds.keys, position + forward.right() + 1) : keys.bounds.keys;
    attention::Reference::Query& row = rows.emplace_back();
    row = {keys.batch, queries.head, query, keys.bounds, first, {}, {}};
    for (std::int64_t key = first; key < end; ++key) {
      const Rounded unmodified = score(keys, queries, query, key);
      row.scores.push_back(unmodified.value);
      row.errors.push_back(unmodified.error);
    }
  }
  std::vector<std::vector<std::vector<AuxDerivative>>> aux;
  if (!settings_.daux.empty()) aux = aux_derivatives(settings_, arrays_, evaluate_, rows);
  const std::vector<std::vector<Score>> scores = modified(rows);
  std::vector<Line> lines;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Line& line = lines.emplace_back();
    line.first = rows[i].first_key;
    for (std::size_t j = 0; j < scores[i].size(); ++j) {
      line.pairs.push_back(terms(keys, queries, rows[i].query, line.first + static_cast<std::int64_t>(j), scores[i][j]));
      line.pairs.back().undecided = line.pairs.back().undecided || rows[i].undecided;
      if (!aux.empty()) line.pairs.back().aux = std::move(aux[i][j]);
    }
  }
  return lines;
}

std::vector<Reference::Line> Reference::of_keys(const KeyHead& keys, const QueryHead& queries,
                                                std::span<const std::int64_t> numbers) const {
  const attention::Settings& forward = settings_.forward;
  std::vector<Line> lines;
  std::vector<attention::Reference::Query> rows;  // of one score each
  for (const std::int64_t key : numbers) {
    const std::int64_t position = key - forward.offset(keys.bounds.queries, keys.bounds.keys);
    const std::int64_t first = forward.bounded_right() ? std::max<std::int64_t>(0, position - forward.right()) : 0;
    const std::int64_t end =
        forward.bounded_left() ? std::min(keys.bounds.queries, position + forward.left() + 1) : keys.bounds.queries;
    Line& line = lines.emplace_back();
    line.first = first;
    line.pairs.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, end - first)));
    for (std::int64_t query = first; query < end; ++query) {
      const Rounded unmodified = score(keys, queries, query, key);
      rows.push_back({keys.batch, queries.head, query, keys.bounds, key, {unmodified.value}, {unmodified.error}});
    }
  }
  const std::vector<std::vector<Score>> scores = modified(rows);
  std::size_t at = 0;
  for (Line& line : lines)
    for (PairTerms& pair : line.pairs) {
      pair = terms(keys, queries, rows[at].query, rows[at].first_key, scores[at][0]);
      pair.undecided = pair.undecided || rows[at].undecided;
      ++at;
    }
  return lines;
}

void Reference::add_sink_gradient(const QueryHead& queries, Bounded& sum) const {
  const double sink = head_value("sinks", queries.head);
  for (std::size_t i = 0; i < queries.lse.size(); ++i) {
    if (queries.lse[i] == -INFINITY) continue;
    const double weight = std::exp(sink - queries.lse[i]);
    const double relative = std::expm1((std::fabs(sink) + std::fabs(queries.lse[i])) * 0x1p-22) + 0x1p-20;
    const Bounded term = queries.delta[i].times(-weight);
    sum.value += term.value;
    sum.size += term.size;
    sum.error += term.error + (term.value == 0 ? 0 : std::fabs(term.value) * relative) +
                 min_normal * (1 + std::fabs(queries.delta[i].value));
  }
}

}  // namespace tunesmith::attention_backward
