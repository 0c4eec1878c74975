#pragma once
// The description of attention (forward): fields, options and arrays of AttentionProblem.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "tunesmith/attention_problem.h"
#include "tunesmith/description.h"

namespace tunesmith {

/// Identifies q, k, v, o, or a gradient of one, in a description.
struct AttentionTensor {
  std::string_view name;
  DType dtype = DType::bf16;
  Extent entries, positions, heads, width;  ///< entries: sequences or pages
  bool packed = false;                      ///< no entries: positions count through all sequences
  bool written = false;                     ///< its rows must not share memory

  constexpr AttentionTensor as(std::string_view other, bool is_written) const {
    AttentionTensor tensor = *this;
    tensor.name = other;
    tensor.written = is_written;
    return tensor;
  }
};

/// Returns whether the lengths of keys are in device memory.
constexpr bool has_kv_lengths(const AttentionProblem& p) { return p.kv_lengths || p.page_size.has_value(); }

struct AttentionTensors {
  AttentionTensor q, k, v, o;
};
constexpr AttentionTensors attention_tensors(const AttentionProblem& p) {
  const Extent heads = size(p.heads), kv_heads = size(p.kv_heads, p.heads);
  const Extent head_dim = size(p.head_dim), head_dim_v = size(p.head_dim_v, p.head_dim);
  const bool paged = p.page_size.has_value(), packed_keys = p.varlen && !has_kv_lengths(p);
  const Extent queries = p.varlen ? size(p.total_q, 0) : size(p.seq_q);
  const Extent keys = paged ? size(p.page_size, 1) : packed_keys ? size(p.total_kv, 0) : size(p.seq_kv, p.seq_q);
  const Extent entries = size(p.batch), key_entries = paged ? size(p.pages, 0) : entries;
  const DType kv_dtype = p.kv_dtype.value_or(p.dtype);
  return {{"q", p.dtype, entries, queries, heads, head_dim, p.varlen},
          {"k", kv_dtype, key_entries, keys, kv_heads, head_dim, packed_keys},
          {"v", kv_dtype, key_entries, keys, kv_heads, head_dim_v, packed_keys},
          {"o", p.dtype, entries, queries, heads, head_dim_v, p.varlen, true}};
}

/// Returns the batch, seq and head stride of a contiguous array; the maximum integer instead of an overflow.
constexpr std::array<std::int64_t, 3> contiguous_strides(const AttentionProblem& p, const AttentionTensor& t) {
  const auto product = [](std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
  };
  const std::int64_t heads = t.heads.value, positions = t.positions.value, width = t.width.value;
  const bool bshd = p.layout == AttentionLayout::bshd;
  return {product(product(heads, positions), width), bshd ? product(heads, width) : width,
          bshd ? width : product(positions, width)};
}

/// A tensor, and the strides of one of its arrays.
struct AttentionTensorStrides {
  const AttentionTensor& tensor;
  AttentionArrayStrides& strides;
};
/// Replaces strides that no two elements are apart by, which the caller may set to anything, by those of a contiguous array:
/// kernels are specialized for the alignment of strides, but not for the number of sequences and positions.
constexpr void reset_unused_strides(const AttentionProblem& p, std::initializer_list<AttentionTensorStrides> tensors) {
  for (const auto& [t, strides] : tensors) {
    const std::array<std::int64_t, 3> contiguous = contiguous_strides(p, t);
    const bool empty = t.entries.value == 0 || t.positions.value == 0;
    if ((empty || t.entries.value == 1) && !t.packed) strides.batch = contiguous[0];
    if (empty || t.positions.value == 1) strides.seq = contiguous[1];
    if (empty || t.heads.value == 1) strides.head = contiguous[2];
  }
}

/// Describes the strides of an array. `enabled`: false if the problem does not have the array.
template <typename Strides, DescriptionVisitor Visitor>
constexpr void describe_row_strides(const AttentionProblem& p, const AttentionTensor& t,
                                    const std::array<std::string_view, 3>& names, Strides& strides, const Condition& enabled,
                                    Visitor& v) {
  const std::array<std::int64_t, 3> contiguous = contiguous_strides(p, t);
  const auto stride = [&](std::string_view meaning, std::int64_t value) {
    FieldFacts facts;
    facts.meaning = meaning;
    facts.range = {t.written && value > 0 ? 1 : 0, std::int64_t{1} << 48};
    facts.follows = {"contiguous", value};
    facts.only_with = enabled;
    return facts;
  };
  FieldFacts batch = stride("elements from one batch entry to the next", contiguous[0]);
  if (t.entries.field != &p.batch) batch.meaning = "elements from one page to the next";
  if (enabled.holds) batch.only_with = {!t.packed, "varlen=0; packed sequences have no batch stride"};
  v.option(names[0], strides.batch, batch);
  v.option(names[1], strides.seq, stride("elements from one position to the next", contiguous[1]));
  v.option(names[2], strides.head, stride("elements from one head to the next", contiguous[2]));
}
/// Describes the strides and the alignment of an array.
template <typename Strides, typename Alignment, DescriptionVisitor Visitor>
constexpr void describe_strides(const AttentionProblem& p, const AttentionTensor& t,
                                const std::array<std::string_view, 4>& names, Strides& strides, Alignment& alignment,
                                Visitor& v) {
  describe_row_strides(p, t, {names[0], names[1], names[2]}, strides, Condition{}, v);
  v.option(names[3], alignment, alignment_facts("bytes that the address is a multiple of", t.dtype));
}

/// Describes such a tensor as an array.
constexpr ArrayFacts attention_array(const AttentionProblem& p, const AttentionTensor& t,
                                     const AttentionArrayStrides& strides, const std::int64_t& alignment) {
  const std::array<std::int64_t, 3> contiguous = contiguous_strides(p, t);
  ArrayFacts facts{.name = t.name, .dtype = t.dtype, .alignment = &alignment};
  const bool bshd = p.layout == AttentionLayout::bshd;
  const Extent outer = bshd ? t.positions : t.heads, inner = bshd ? t.heads : t.positions;
  const std::int64_t seq = strides.seq.value_or(contiguous[1]), head = strides.head.value_or(contiguous[2]);
  const std::int64_t outer_stride = bshd ? seq : head, inner_stride = bshd ? head : seq;
  if (t.packed) {
    facts.shape = {outer, inner, t.width};
    facts.strides = {outer_stride, inner_stride, 1};
  } else {
    facts.shape = {t.entries, outer, inner, t.width};
    facts.strides = {strides.batch.value_or(contiguous[0]), outer_stride, inner_stride, 1};
  }
  return facts;
}

/// Returns the default of scale.
constexpr double default_scale(std::int64_t head_dim) noexcept {
  // Key sizes are computed at compile time, where std::sqrt is not available and the value does not matter.
  return std::is_constant_evaluated() ? 0 : 1 / std::sqrt(static_cast<double>(head_dim));
}

/// Rejects auxiliary arrays that no user function reads. Throws Error(invalid_argument).
void adopt(const AttentionProblem& problem, const AttentionArrays& arrays);
/// Does the same for the member `aux` alone.
void check_aux_given(const AttentionProblem& problem, const std::array<const void*, 8>& aux);

inline constexpr std::int64_t max_attention_heads = 1 << 20;  ///< and sequences
inline constexpr std::int64_t max_attention_positions = 1 << 30;
inline constexpr double max_dropout = 0.9999;

/// Returns how many keys a sequence can have in its pages; at most the largest length of a sequence.
constexpr std::int64_t max_paged_keys(const AttentionProblem& p) {
  std::int64_t keys = 0;
  const bool too_many = __builtin_mul_overflow(p.page_size.value_or(0), p.max_pages.value_or(0), &keys);
  return too_many ? max_attention_positions : std::min(keys, max_attention_positions);
}

/// The fields of the forward pass that the backward pass has, too.
template <DescribedAs<AttentionProblem> Self, DescriptionVisitor Visitor>
constexpr void describe_attention_fields(Self& p, Visitor& v) {
  constexpr std::int64_t max_positions = max_attention_positions, max_heads = max_attention_heads;
  const Range head_dims{8, 256}, positions{0, max_positions};
  const Condition packed{p.varlen, "varlen=1"}, packed_keys{p.varlen && !has_kv_lengths(p), "varlen=1 and no kv_lengths"};
  v.field("batch", p.batch, {.meaning = "number of sequences", .range = {0, max_heads}, .runtime = true});
  v.field("heads", p.heads, {.meaning = "heads of q and o", .range = {1, max_heads}});
  v.field("kv_heads", p.kv_heads,
          {.meaning = "heads of k and v, a divisor of heads", .range = {1, max_heads}, .follows = {"heads", p.heads}});
  v.field("seq_q", p.seq_q, {.meaning = "queries of a sequence", .range = positions, .required = true, .runtime = true});
  v.field("seq_kv", p.seq_kv,
          {.meaning = "keys of a sequence; 0: an empty KV cache",
           .range = positions,
           .follows = p.page_size ? Default{"max_pages * page_size", max_paged_keys(p)} : Default{"seq_q", p.seq_q},
           .runtime = true});
  v.field("head_dim", p.head_dim,
          {.meaning = "elements of a query and a key; kernels are specialized for it",
           .range = head_dims,
           .step = 8,
           .required = true});
  v.field(
      "head_dim_v", p.head_dim_v,
      {.meaning = "elements of a value and an output", .range = head_dims, .step = 8, .follows = {"head_dim", p.head_dim}});
  v.field("dtype", p.dtype, {.meaning = "element type of q, k, v and o", .choices = float_dtypes});
  v.field("layout", p.layout, {.meaning = "order of batch (b), sequence (s), heads (h) and head_dim (d) in q, k, v and o"});
  v.field("causal", p.causal,
          {.meaning = "causal mask; the first or the last query is aligned with the first or the last key",
           .bare = "bottom-right",
           .omit_default = true});
  v.field("window_left", p.window_left,
          {.meaning = "visible keys before the query's position", .range = positions, .omit_default = true});
  v.field("window_right", p.window_right,
          {.meaning = "visible keys after the query's position", .range = positions, .omit_default = true});
  v.field("scale", p.scale,
          {.meaning = "positive factor of the dot products",
           .range = {1e-6, 1e6},
           .follows = {"1/sqrt(head_dim)", default_scale(p.head_dim)},
           .omit_default = true});
  v.field("softcap", p.softcap,
          {.meaning = "scores become softcap * tanh(scores / softcap); 0: no soft cap",
           .range = {0.0, 1e6},
           .omit_default = true});
  v.option("alibi", p.alibi, {.meaning = "subtracts alibi_slopes[head] * distance from scores"});
  v.option("sinks", p.sinks, {.meaning = "adds a logit without a value for each head"});
  v.option("varlen", p.varlen, {.meaning = "sequences are packed; cu_seqlens_q and cu_seqlens_kv hold their starts"});
  v.option("total_q", p.total_q,
           {.meaning = "queries of all sequences; required with varlen",
            .range = positions,
            .only_with = packed,
            .runtime = true});
  v.option("total_kv", p.total_kv,
           {.meaning = "keys of all sequences; required with varlen",
            .range = positions,
            .only_with = packed_keys,
            .runtime = true});
  v.field("score_mod", p.score_mod,
          {.meaning = "CUDA source of float score_mod(float score, int b, int h, int q, int k, const Aux& aux)",
           .omit_default = true});
  v.field("mask_mod", p.mask_mod,
          {.meaning = "CUDA source of bool mask_mod(int b, int h, int q, int k, const Aux& aux)", .omit_default = true});
  v.option("aux", p.aux,
           {.meaning = "what they read besides their '// aux: ...' comments, such as slopes:f32[heads];window:i64=128"});
  v.option("block_mask", p.block_mask,
           {.meaning = "the block mask of mask_mod is kept internal, written to or read from the array block_mask"});

  v.option("dropout", p.dropout, {.meaning = "probability with which a weight is dropped", .range = {0.0, max_dropout}});
  v.option("dropout_seed", p.dropout_seed, {.meaning = "seed of the dropout mask", .runtime = true});
  v.option("dropout_offset", p.dropout_offset, {.meaning = "distinguishes calls with the same seed", .runtime = true});
  v.option("rng_state", p.rng_state,
           {.meaning = "seed and offset are read from the array rng_state",
            .only_with = {p.dropout > 0, "dropout, a probability above 0"},
            .runtime = true});

  const auto [q, k, value, o] = attention_tensors(p);
  describe_strides(p, q, {"q_batch_stride", "q_seq_stride", "q_head_stride", "q_alignment"}, p.q_strides, p.q_alignment, v);
  describe_strides(p, k, {"k_batch_stride", "k_seq_stride", "k_head_stride", "k_alignment"}, p.k_strides, p.k_alignment, v);
  describe_strides(p, value, {"v_batch_stride", "v_seq_stride", "v_head_stride", "v_alignment"}, p.v_strides, p.v_alignment,
                   v);
  describe_strides(p, o, {"o_batch_stride", "o_seq_stride", "o_head_stride", "o_alignment"}, p.o_strides, p.o_alignment, v);
}

/// The fields of keys in pages, and of lengths in device memory.
template <DescribedAs<AttentionProblem> Self, DescriptionVisitor Visitor>
constexpr void describe_attention_pages(Self& p, Visitor& v) {
  const Condition paged{p.page_size.has_value(), "page_size"};
  constexpr std::int64_t most = max_attention_positions;
  v.option("kv_lengths", p.kv_lengths, {.meaning = "numbers of keys are read from the array kv_lengths, at most seq_kv"});
  v.field("page_size", p.page_size,
          {.meaning = "positions of a page of k and v; kernels are specialized for it",
           .range = {1, most},
           .omit_default = true});
  v.option(
      "pages", p.pages,
      {.meaning = "pages of k and v; required with page_size", .range = {0, most}, .only_with = paged, .runtime = true});
  v.option("max_pages", p.max_pages,
           {.meaning = "pages of a sequence; required with page_size; seq_kv defaults to their positions",
            .range = {0, most},
            .only_with = paged,
            .runtime = true});
  v.option("block_table_stride", p.block_table_stride,
           {.meaning = "elements from one sequence's pages to the next one's in block_table",
            .range = {0, std::int64_t{1} << 40},
            .follows = {"max_pages", p.max_pages.value_or(0)},
            .only_with = paged,
            .runtime = true});
  v.option("split_keys", p.split_keys,
           {.meaning = "keys of a split in decoding; 0: splits fill the device", .range = {0, most}, .step = 64});
}

/// Returns the scales of each row of a tensor as a tensor with rows of one element.
constexpr AttentionTensor row_scales(const AttentionTensor& of, std::string_view name) {
  AttentionTensor scales = of.as(name, false);
  scales.dtype = DType::f32;
  scales.width = fixed(1);
  return scales;
}

/// The fields of 8-bit keys and values.
template <DescribedAs<AttentionProblem> Self, DescriptionVisitor Visitor>
constexpr void describe_attention_scales(Self& p, Visitor& v) {
  v.field("kv_dtype", p.kv_dtype,
          {.meaning = "element type of k and v: dtype or e4m3",
           .choices = float_dtypes | one_of(DType::e4m3),
           .follows = {"dtype", p.dtype},
           .omit_default = true});
  v.option("kv_scales", p.kv_scales,
           {.meaning = "scales of k and v: one each, or one for each head, sequence and head, or row",
            .only_with = {p.kv_dtype == DType::e4m3, "kv_dtype=e4m3"}});
  const AttentionTensors tensors = attention_tensors(p);
  const Condition of_rows{p.kv_scales == KvScales::token_head, "kv_scales=token_head"};
  describe_row_strides(p, row_scales(tensors.k, "k_scale"),
                       {"k_scale_batch_stride", "k_scale_seq_stride", "k_scale_head_stride"}, p.k_scale_strides, of_rows, v);
  describe_row_strides(p, row_scales(tensors.v, "v_scale"),
                       {"v_scale_batch_stride", "v_scale_seq_stride", "v_scale_head_stride"}, p.v_scale_strides, of_rows, v);
}

/// Describes the scales of k or v as an array.
constexpr ArrayFacts scale_array(const AttentionProblem& p, const AttentionTensor& of, std::string_view name,
                                 const AttentionArrayStrides& strides) {
  ArrayFacts facts{.name = name};
  if (p.kv_scales == KvScales::token_head) {
    facts = attention_array(p, row_scales(of, name), strides, p.k_alignment);
    facts.alignment = nullptr;
    --facts.shape.count;  // a row has one scale
    --facts.strides.count;
  } else if (p.kv_scales == KvScales::batch_head) {
    facts.shape = {size(p.batch), of.heads};
  } else {
    facts.shape = {p.kv_scales == KvScales::head ? of.heads : fixed(1)};
  }
  facts.present = p.kv_scales != KvScales::none;
  facts.meaning = "scales of the elements, positive; kv_scales gives the shape";
  return facts;
}

/// The arrays that the forward pass reads, and the block mask. `Arrays` has members of the names in AttentionArrays.
template <typename Arrays, DescriptionVisitor Visitor>
constexpr void describe_attention_inputs(const AttentionProblem& p, const Arrays& arrays, Visitor& v) {
  const auto [q, k, value, o] = attention_tensors(p);
  v.array(arrays.q, attention_array(p, q, p.q_strides, p.q_alignment));
  v.array(arrays.k, attention_array(p, k, p.k_strides, p.k_alignment));
  v.array(arrays.v, attention_array(p, value, p.v_strides, p.v_alignment));
  const auto vector = [&](std::string_view name, DType dtype, const Extent& extent, const bool& enabled_by,
                          std::string_view meaning) {
    return ArrayFacts{.name = name,
                      .dtype = dtype,
                      .shape = {extent},
                      .present = enabled_by,
                      .enabled_by = &enabled_by,
                      .meaning = meaning};
  };
  v.array(arrays.alibi_slopes, vector("alibi_slopes", DType::f32, q.heads, p.alibi, "slope of each head, finite"));
  v.array(arrays.sinks, vector("sinks", DType::f32, q.heads, p.sinks, "logit of each head without a value"));
  const Extent starts{&p.batch, std::min(p.batch, max_attention_heads) + 1, 1, {}};
  v.array(arrays.cu_seqlens_q,
          vector("cu_seqlens_q", DType::i32, starts, p.varlen, "first query of each sequence, then their number"));
  ArrayFacts key_starts =
      vector("cu_seqlens_kv", DType::i32, starts, p.varlen, "first key of each sequence, then their number");
  key_starts.present = p.varlen && !has_kv_lengths(p);
  v.array(arrays.cu_seqlens_kv, key_starts);
  if constexpr (requires { arrays.block_table; }) {
    v.array(arrays.block_table, {.name = "block_table",
                                 .dtype = DType::i32,
                                 .shape = {size(p.batch), size(p.max_pages, 0)},
                                 .strides = {p.block_table_stride.value_or(p.max_pages.value_or(0)), 1},
                                 .present = p.page_size.has_value(),
                                 .meaning = "pages of each sequence; read up to its length"});
    ArrayFacts lengths = vector("kv_lengths", DType::i32, size(p.batch), p.kv_lengths, "keys of each sequence, 0 to seq_kv");
    lengths.present = has_kv_lengths(p);
    v.array(arrays.kv_lengths, lengths);
    v.array(arrays.k_scale, scale_array(p, k, "k_scale", p.k_scale_strides));
    v.array(arrays.v_scale, scale_array(p, value, "v_scale", p.v_scale_strides));
  }
  if constexpr (requires { v.user_array(arrays.aux[0]); }) {
    for (const void* const aux : arrays.aux) v.user_array(aux);
  } else if (!p.score_mod.empty() || !p.mask_mod.empty()) {
    std::size_t at = 0;
    for (const AttentionAuxArray& aux : attention_aux_arrays(p))
      v.array(
          arrays.aux[at++],
          {.name = aux.name, .dtype = aux.dtype, .shape = {fixed(aux.length)}, .meaning = "read by score_mod and mask_mod"});
  }
  ArrayFacts tiles{.name = "block_mask",
                   .role = p.block_mask == BlockMask::read ? Role::input : Role::output,
                   .dtype = DType::i32,
                   .present = p.block_mask != BlockMask::internal && !p.mask_mod.empty(),
                   .meaning = "block mask: of each row of tiles, bits of tiles that are not empty, and of full tiles"};
  const BlockMaskShape shape = tiles.present ? block_mask_shape(p) : BlockMaskShape{};
  tiles.shape = {fixed(shape.batches, "1 or batch"), fixed(shape.heads, "1 or heads"), fixed(shape.rows, "ceil(seq_q / 64)"),
                 fixed(2), fixed(shape.words, "ceil(seq_kv / 2048)")};
  v.array(arrays.block_mask, tiles);
  v.array(arrays.rng_state, {.name = "rng_state",
                             .dtype = DType::i64,
                             .shape = {fixed(2)},
                             .present = p.rng_state,
                             .enabled_by = &p.rng_state,
                             .meaning = "seed and offset of dropout"});
}

/// lse as an array.
constexpr ArrayFacts lse_array(const AttentionProblem& p, Role role) {
  ArrayFacts lse{.name = "lse", .role = role, .meaning = "log-sum-exp of the scores"};
  const AttentionTensor q = attention_tensors(p).q;
  if (!p.varlen) lse.shape.add(size(p.batch));
  lse.shape.add(q.heads);
  lse.shape.add(q.positions);
  return lse;
}

template <DescribedAs<AttentionProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const AttentionArrays& arrays, Visitor& v) {
  describe_attention_fields(p, v);
  describe_attention_pages(p, v);
  describe_attention_scales(p, v);
  describe_attention_inputs(p, arrays, v);
  ArrayFacts output = attention_array(p, attention_tensors(p).o, p.o_strides, p.o_alignment);
  output.role = Role::output;
  v.array(arrays.o, output);
  ArrayFacts lse = lse_array(p, Role::output);
  lse.optional = true;
  v.array(arrays.lse, lse);
}

}  // namespace tunesmith
