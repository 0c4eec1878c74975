#include "templates/attention/settings.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tunesmith::attention {
namespace {

Settings sizes_of(const AttentionProblem& p) {
  Settings s;
  s.batch = p.batch;
  s.heads = p.heads;
  s.kv_heads = p.kv_heads.value_or(p.heads);
  s.seq_q = p.seq_q;
  s.seq_kv = p.seq_kv.value_or(p.page_size ? max_paged_keys(p) : p.seq_q);
  s.head_dim = p.head_dim;
  s.head_dim_v = p.head_dim_v.value_or(p.head_dim);
  s.varlen = p.varlen;
  s.total_q = p.total_q.value_or(0);
  s.total_kv = p.total_kv.value_or(0);
  s.kv_lengths = has_kv_lengths(p);
  s.page_size = p.page_size.value_or(0);
  s.pages = p.pages.value_or(0);
  s.max_pages = p.max_pages.value_or(0);
  s.table_stride = p.block_table_stride.value_or(s.max_pages);
  s.split_keys = p.split_keys;
  return s;
}

}  // namespace

Settings Settings::of(const AttentionProblem& p) {
  Settings s = sizes_of(p);
  s.dtype = p.dtype;
  s.kv_dtype = p.kv_dtype.value_or(p.dtype);
  s.kv_scales = p.kv_scales;
  s.layout = p.layout;
  s.causal = p.causal;
  s.window_left = p.window_left;
  s.window_right = p.window_right;
  s.scale = p.scale.value_or(1 / std::sqrt(static_cast<double>(p.head_dim)));
  s.softcap = p.softcap;
  s.alibi = p.alibi;
  s.sinks = p.sinks;
  s.score_mod = p.score_mod;
  s.mask_mod = p.mask_mod;
  for (const AttentionAux& aux : p.aux) s.aux.push_back(Aux::of(aux));
  s.block_mask = p.block_mask;
  s.dropout = p.dropout;
  s.dropout_seed = p.dropout_seed;
  s.dropout_offset = p.dropout_offset;
  s.tensors = {s.tensor_like(Side::q, p.q_strides, p.q_alignment), s.tensor_like(Side::k, p.k_strides, p.k_alignment),
               s.tensor_like(Side::v, p.v_strides, p.v_alignment), s.tensor_like(Side::o, p.o_strides, p.o_alignment)};
  s.scales = {s.scale_like(Side::k, p.k_scale_strides), s.scale_like(Side::v, p.v_scale_strides)};
  return s;
}

Tensor Settings::tensor_like(Side side, const AttentionArrayStrides& strides, std::int64_t alignment,
                             std::int64_t row) const {
  const bool bshd = layout == AttentionLayout::bshd;
  // Between one entry and none, any stride may be given: kernels compute addresses with it, and copies of rows that do not
  // exist need aligned ones, too.
  const auto stride = [](std::int64_t count, const std::optional<std::int64_t>& given, std::int64_t contiguous) {
    return count > 1 ? given.value_or(contiguous) : contiguous;
  };
  const Extents extent = extents(side);
  Tensor tensor;
  tensor.batch_stride = packed(side) ? 0 : stride(extent.entries, strides.batch, extent.heads * extent.rows * row);
  tensor.seq_stride = stride(extent.rows, strides.seq, bshd ? extent.heads * row : row);
  tensor.head_stride = stride(extent.heads, strides.head, bshd ? row : extent.rows * row);
  tensor.alignment = alignment;
  return tensor;
}

Tensor Settings::scale_like(Side side, const AttentionArrayStrides& strides) const {
  if (has_row_scales()) return tensor_like(side, strides, size_of(DType::f32), 1);
  Tensor tensor;
  if (kv_scales == KvScales::batch_head) tensor.batch_stride = kv_heads;
  if (kv_scales == KvScales::batch_head || kv_scales == KvScales::head) tensor.head_stride = 1;
  return tensor;
}

Extents Settings::extents(Side side) const noexcept {
  Extents extent{batch, length(side), heads_of(side), width(side)};
  if (packed(side)) {
    extent.entries = 1;
    extent.rows = is_key(side) ? total_kv : total_q;
  } else if (is_key(side) && page_size > 0) {
    extent.entries = pages;
    extent.rows = page_size;
  }
  return extent;
}

int Settings::vector(Side side, const Tensor& strides) const noexcept {
  std::int64_t widest = std::min<std::int64_t>(16, strides.alignment) / size_of(dtype_of(side));
  const auto divides = [&](std::int64_t count, std::int64_t stride) {
    while (count > 1 && widest > 1 && stride % widest != 0) widest /= 2;
  };
  const Extents extent = extents(side);
  divides(extent.entries, strides.batch_stride);
  divides(extent.rows, strides.seq_stride);
  divides(extent.heads, strides.head_stride);
  while (extent.width % widest != 0) widest /= 2;
  return static_cast<int>(std::max<std::int64_t>(widest, 1));
}

bool Settings::broadcasts(Side side, const Tensor& strides) const noexcept {
  const Extents extent = extents(side);
  if (extent.entries == 0 || extent.rows == 0) return false;  // strides of contiguous arrays without elements may be 0
  return (extent.entries > 1 && strides.batch_stride == 0) || (extent.rows > 1 && strides.seq_stride == 0) ||
         (extent.heads > 1 && strides.head_stride == 0);
}

std::vector<Dimension> Settings::dimensions() const {
  std::vector<Dimension> all{{"batch", batch},   {"heads", heads},       {"kv_heads", kv_heads},    {"seq_q", seq_q},
                             {"seq_kv", seq_kv}, {"head_dim", head_dim}, {"head_dim_v", head_dim_v}};
  if (varlen) all.emplace_back("total_q", total_q);
  if (packed(Side::k)) all.emplace_back("total_kv", total_kv);
  return all;
}

double Settings::visible_pairs() const noexcept {
  const std::int64_t shift = offset(seq_q, seq_kv);
  // Pairs of a query i with the keys before i + shift + `end`.
  const auto pairs_before = [&](std::int64_t end) -> long double {
    const std::int64_t first = shift + end;
    const std::int64_t some = std::clamp<std::int64_t>(-first, 0, seq_q);            // the first query with a key
    const std::int64_t all = std::clamp<std::int64_t>(seq_kv - first, some, seq_q);  // and with all keys
    const auto partial = static_cast<long double>(all - some);
    return partial * static_cast<long double>(first) + partial * static_cast<long double>(some + all - 1) / 2 +
           static_cast<long double>(seq_q - all) * static_cast<long double>(seq_kv);
  };
  const long double end =
      bounded_right() ? pairs_before(right() + 1) : static_cast<long double>(seq_q) * static_cast<long double>(seq_kv);
  const long double begin = bounded_left() ? pairs_before(-left()) : 0;
  return static_cast<double>(std::max(end - begin, 0.0L));
}

std::vector<Dimension> dimensions_of(const AttentionProblem& problem) { return sizes_of(problem).dimensions(); }

}  // namespace tunesmith::attention
