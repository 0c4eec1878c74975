#include "templates/attention/reference/smaller_problem.h"

#include <algorithm>
#include <optional>

namespace tunesmith::attention {
namespace {

bool is_contiguous(const Settings& settings, Side side, const Tensor& tensor) {
  const Tensor dense = settings.tensor_like(side, {}, tensor.alignment);
  return tensor.batch_stride == dense.batch_stride && tensor.seq_stride == dense.seq_stride &&
         tensor.head_stride == dense.head_stride;
}

/// Returns strides of rows of `width` elements, with a gap after each row, each inner dimension and each entry.
AttentionArrayStrides strides_with_gaps(const Settings& settings, Side side, std::int64_t width, std::int64_t gap) {
  const Extents extent = settings.extents(side);
  const bool heads_inside = settings.layout == AttentionLayout::bshd;
  const std::int64_t inner = width + gap, outer = inner * (heads_inside ? extent.heads : extent.rows) + gap;
  AttentionArrayStrides strides{.seq = heads_inside ? outer : inner, .head = heads_inside ? inner : outer};
  if (!settings.packed(side)) strides.batch = outer * (heads_inside ? extent.rows : extent.heads) + gap;
  return strides;
}

}  // namespace

AttentionArrayStrides narrow_strides(const Settings& large, const Settings& small, Side side, const Tensor& tensor) {
  if (is_contiguous(large, side, tensor)) return {};
  AttentionArrayStrides strides = strides_with_gaps(small, side, small.width(side), large.vector(side, tensor));
  const Extents extent = large.extents(side);
  const bool empty = extent.entries == 0 || extent.rows == 0;
  const auto broadcast = [empty](std::int64_t given, std::int64_t count, std::optional<std::int64_t>& stride) {
    if (given == 0 && count > 1 && !empty) stride = 0;
  };
  broadcast(tensor.head_stride, extent.heads, strides.head);
  broadcast(tensor.seq_stride, extent.rows, strides.seq);
  if (!small.packed(side)) broadcast(tensor.batch_stride, extent.entries, strides.batch);
  return strides;
}

std::int64_t narrow_alignment(const Settings& large, Side side, const Tensor& tensor) {
  return large.vector(side, tensor) * size_of(large.dtype_of(side));
}

AttentionProblem smaller_problem(const AttentionProblem& problem) {
  // More tiles than a GPU has multiprocessors, so that a kernel that takes several of them does. Kernels are specialized for
  // the number of query heads that share a key head.
  const Settings large = Settings::of(problem);
  AttentionProblem small = problem;
  small.block_mask = BlockMask::internal;
  const std::int64_t kv_heads = std::min<std::int64_t>(large.kv_heads, 2);
  small.kv_heads = kv_heads;
  small.heads = kv_heads * large.group();
  small.batch = std::clamp<std::int64_t>(128 / small.heads, 1, 33);
  // Auxiliary arrays may have fixed lengths: sizes that index them must not grow.
  if (large.modified()) small.batch = std::clamp<std::int64_t>(large.batch, 1, small.batch);
  small.seq_q = std::clamp<std::int64_t>(large.seq_q, 1, 173);
  small.seq_kv = std::min<std::int64_t>(large.seq_kv, 331);
  if (large.varlen) small.total_q = small.batch * small.seq_q * 2 / 3;
  if (large.packed(Side::k)) small.total_kv = small.batch * *small.seq_kv * 2 / 3;
  if (large.page_size > 0) {
    // A pool with pages that no sequence has, and fewer than the table has entries: edge cases share pages.
    small.max_pages = *small.seq_kv / large.page_size + 2;
    small.pages = small.batch * *small.max_pages * 2 / 3 + 1;
    small.block_table_stride = *small.max_pages + (large.table_stride > large.max_pages ? 3 : 0);
  }
  if (small.window_left) small.window_left = std::min<std::int64_t>(*small.window_left, 57);
  if (small.window_right) small.window_right = std::min<std::int64_t>(*small.window_right, 39);

  const Settings sizes = Settings::of(small);
  // Any strides of scales run the same binary; those of k and v differ.
  small.k_scale_strides = {};
  if (large.has_row_scales()) small.v_scale_strides = strides_with_gaps(sizes, Side::v, 1, 1);
  small.q_strides = narrow_strides(large, sizes, Side::q, large.tensor(Side::q));
  small.k_strides = narrow_strides(large, sizes, Side::k, large.tensor(Side::k));
  small.v_strides = narrow_strides(large, sizes, Side::v, large.tensor(Side::v));
  small.o_strides = narrow_strides(large, sizes, Side::o, large.tensor(Side::o));
  small.q_alignment = narrow_alignment(large, Side::q, large.tensor(Side::q));
  small.k_alignment = narrow_alignment(large, Side::k, large.tensor(Side::k));
  small.v_alignment = narrow_alignment(large, Side::v, large.tensor(Side::v));
  small.o_alignment = narrow_alignment(large, Side::o, large.tensor(Side::o));
  return small;
}

}  // namespace tunesmith::attention
