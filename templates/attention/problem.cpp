// Attention problems: checks that concern several fields.

#include <algorithm>
#include <array>

#include "templates/attention/op.h"
#include "templates/attention/source/block_mask.h"
#include "templates/attention/source/modification.h"
#include "templates/rows_apart.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention;

namespace {

/// Packed sequences need their totals: the lengths of arrays and of lse follow from nothing else.
void check_total(std::string_view name, const std::optional<std::int64_t>& total, std::int64_t batch,
                 std::string_view longest, std::int64_t length) {
  if (!total)
    throw Error(ErrorCode::invalid_argument, name, " is missing; attention with varlen=1 needs total_q and total_kv");
  if (*total > batch * length)
    throw Error(ErrorCode::invalid_argument, name, " is ", *total, ", but ", batch, " sequences of at most ", longest, " = ",
                length, " have no more than ", batch * length);
}

/// The sizes of the pool and the table do not follow from lengths in device memory.
void check_pages(const AttentionProblem& p) {
  for (const auto& [name, value] : {std::pair("pages", p.pages), std::pair("max_pages", p.max_pages)})
    if (!value)
      throw Error(ErrorCode::invalid_argument, name, " is missing; attention with page_size needs pages and max_pages");
  if (const std::int64_t most = max_paged_keys(p); *p.seq_kv > most)
    throw Error(ErrorCode::invalid_argument, "seq_kv is ", *p.seq_kv, ", but ", *p.max_pages, " pages of ", *p.page_size,
                " keys have room for ", most);
}

}  // namespace

namespace attention {

void check_apart(const Settings& settings, Side side, const Tensor& tensor, std::string_view name) {
  const Extents extent = settings.extents(side);
  check_rows_apart(
      name, extent.width,
      {{tensor.seq_stride, extent.rows}, {tensor.head_stride, extent.heads}, {tensor.batch_stride, extent.entries}});
}

}  // namespace attention

std::string_view summary_of(const AttentionProblem&) noexcept {
  return "o[b,i,h,:] = softmax(scale * q[b,i,h,:] . k[b,:,h,:]) v[b,:,h,:], and its lse";
}

void complete(AttentionProblem& p) {
  if (p.heads % *p.kv_heads != 0)
    throw Error(ErrorCode::invalid_argument, "heads is ", p.heads, " and kv_heads is ", *p.kv_heads,
                "; heads must be a multiple of kv_heads");
  if (p.causal != Causal::none) p.window_right.reset();  // the causal mask hides those keys anyway
  p.kv_lengths = has_kv_lengths(p);
  if (p.varlen) check_total("total_q", p.total_q, p.batch, "seq_q", p.seq_q);
  if (p.varlen && !p.kv_lengths) check_total("total_kv", p.total_kv, p.batch, "seq_kv", *p.seq_kv);
  if (p.page_size) check_pages(p);
  if (p.kv_lengths && p.dropout > 0)
    throw Error(ErrorCode::invalid_argument, "dropout is ", p.dropout, "; allowed with kv_lengths: 0");
  const DType kv_dtype = p.kv_dtype.value_or(p.dtype);
  if (kv_dtype != p.dtype && kv_dtype != DType::e4m3)
    throw Error(ErrorCode::invalid_argument, "kv_dtype is ", name(kv_dtype), ", but dtype is ", name(p.dtype),
                "; allowed: ", name(p.dtype), " and e4m3");
  if (kv_dtype == DType::e4m3 && p.dropout > 0)
    throw Error(ErrorCode::invalid_argument, "dropout is ", p.dropout, "; allowed with kv_dtype=e4m3: 0");
  const auto [q, k, v, o] = attention_tensors(p);
  reset_unused_strides(p, {{q, p.q_strides}, {k, p.k_strides}, {v, p.v_strides}, {o, p.o_strides}});
  complete_modification(p);
  if (p.block_mask != BlockMask::internal && p.mask_mod.empty())
    throw Error(ErrorCode::invalid_argument, "block_mask is ", enum_name(p.block_mask),
                ", but there is no mask_mod; give mask_mod, or leave block_mask out");
  const Settings settings = Settings::of(p);
  check_apart(settings, Side::o, settings.tensor(Side::o), "o");
  check_modification(settings);
}

std::int64_t block_mask_size(const AttentionProblem& problem) {
  AttentionProblem complete_problem = read_problem(AttentionProblem{}, to_problem(problem).fields);
  complete(complete_problem);
  const BlockMaskShape shape = block_mask_shape(complete_problem);
  return shape.batches * shape.heads * shape.rows * 2 * shape.words;
}

}  // namespace tunesmith
