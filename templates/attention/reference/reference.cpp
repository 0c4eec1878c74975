#include "templates/attention/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/half.h"

namespace tunesmith::attention {

const HostArray* find(std::span<const HostArray> arrays, std::string_view name) {
  for (const HostArray& array : arrays)
    if (array.info.name == name) return &array;
  return nullptr;
}

void read_elements(DType dtype, const std::byte* data, std::int64_t at, std::vector<double>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = read_element(dtype, data, at + static_cast<std::int64_t>(i));
}

DType weight_dtype(const Settings& settings) noexcept {
  if (settings.kv_dtype != DType::e4m3 || settings.dtype == DType::f32) return settings.dtype;
  return settings.has_row_scales() ? DType::bf16 : DType::f16;
}

Rounded score_of(const Settings& settings, double dot, double size) {
  // Kernels round the product of a key and its scale, or of the softmax scale and a key head's.
  const std::int64_t scaled = settings.kv_scales == KvScales::none ? 0 : 2;
  Rounded score{settings.scale * dot, settings.scale * size * static_cast<double>(settings.head_dim + 2 + scaled) * 0x1p-24};
  if (settings.softcap != 0) {
    score.value = settings.softcap * std::tanh(score.value / settings.softcap);
    score.error += settings.softcap * 0x1p-21 + (settings.dtype == DType::f32 ? 0 : lse_cap_error);
  }
  return score;
}

void Reference::compute_scores(Query& at) const {
  const std::int64_t batch = at.batch, head = at.head, query = at.query;
  const Bounds& bounds = at.bounds;
  const std::int64_t kv_head = head / settings_.group();
  std::vector<double> q(static_cast<std::size_t>(settings_.head_dim)), k(q.size());
  read_row(Side::q, batch, bounds.q_start + query, head, q);

  const std::int64_t offset = settings_.offset(bounds.queries, bounds.keys);
  const std::int64_t begin = settings_.bounded_left() ? std::max<std::int64_t>(0, query + offset - settings_.left()) : 0;
  const std::int64_t end =
      settings_.bounded_right() ? std::min(bounds.keys, query + offset + settings_.right() + 1) : bounds.keys;
  at.first_key = begin;
  for (std::int64_t key = begin; key < end; ++key) {
    read_row(Side::k, batch, bounds.kv_start + key, kv_head, k);
    double dot = 0, size = 0;
    for (std::size_t d = 0; d < q.size(); ++d) {
      dot += q[d] * k[d];
      size += std::fabs(q[d] * k[d]);
    }
    const Rounded score = score_of(settings_, dot, size);
    at.scores.push_back(score.value);
    at.errors.push_back(score.error);
  }
}

void Reference::compute(Query& at, Row& row) const {
  const std::int64_t batch = at.batch, head = at.head, query = at.query;
  const Bounds& bounds = at.bounds;
  const std::int64_t kv_head = head / settings_.group(), begin = at.first_key;
  const std::int64_t offset = settings_.offset(bounds.queries, bounds.keys);
  const auto width = static_cast<std::size_t>(settings_.head_dim_v);
  row.output.assign(width, 0);
  row.size.assign(width, 0);
  row.lost.assign(width, 0);
  row.largest_score_error = 0;
  std::vector<double>& scores = at.scores;
  std::vector<double> v(width);
  double largest = -INFINITY;
  bool broken = false;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    double &score = scores[j], &error = at.errors[j];
    const std::int64_t key = begin + static_cast<std::int64_t>(j);
    if (settings_.alibi) {
      const double slope = read_element(DType::f32, find(arrays_, "alibi_slopes")->data, head);
      const double bias = slope * static_cast<double>(std::llabs(query + offset - key));
      score -= bias;
      error += std::fabs(bias) * 0x1p-22;
    }
    // The exponent as a power of two, relative to the maximum.
    error += std::fabs(score) * 0x1p-22;
    broken = broken || std::isnan(score) || score == INFINITY;
    if (std::isfinite(score)) row.largest_score_error = std::max(row.largest_score_error, error);
    largest = std::max(largest, score);
  }
  double sum = 0, top = largest;
  const HostArray* const sinks = find(arrays_, "sinks");
  if (sinks != nullptr) {
    const double sink = read_element(DType::f32, sinks->data, head);
    top = std::max(top, sink);
    sum = std::exp(sink - top);
  }
  if (broken) {
    std::ranges::fill(row.output, NAN);
    row.lse = NAN;
    return;
  }
  if (top == -INFINITY) {
    row.lse = -INFINITY;
    return;
  }
  for (const double score : scores) sum += std::exp(score - top);
  // Weights, products and sums below the least normal float32 number may be flushed to 0, as all are under a large sink.
  // float32 kernels multiply weights by up to 1 / (2 seq_kv) before.
  const double min_normal = 0x1p-125 * static_cast<double>(std::max<std::int64_t>(bounds.keys, 1));
  // f16 weights are rounded after a factor of 2^7 (weight_exponent in attention/quads.cuh).
  const double lost = weight_dtype(settings_) == DType::f16 ? 0x1p-32 * std::exp(largest - top) / sum : 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    const double kept =
        settings_.dropout > 0 ? dropout_.factor(batch, head, query, begin + static_cast<std::int64_t>(j)) : 1;
    const double weight = kept * std::exp(scores[j] - top) / sum;
    read_row(Side::v, batch, bounds.kv_start + begin + static_cast<std::int64_t>(j), kv_head, v);
    for (std::size_t c = 0; c < width; ++c) {
      row.output[c] += weight * v[c];
      row.size[c] += std::fabs(weight * v[c]);
      row.lost[c] += kept * (lost + min_normal) * std::fabs(v[c]) + min_normal;
    }
  }
  row.lse = top + std::log(sum);
}

void Reference::read_row(Side side, std::int64_t batch, std::int64_t position, std::int64_t head,
                         std::vector<double>& out) const {
  read_elements(settings_.dtype_of(side), arrays_[static_cast<std::size_t>(side)].data,
                sequences_.element(side, batch, position, head), out);
  if (settings_.kv_scales == KvScales::none || !Settings::is_key(side)) return;
  const double scale = sequences_.scale(side, batch, position, head);
  for (double& value : out) value *= scale;
}

}  // namespace tunesmith::attention
