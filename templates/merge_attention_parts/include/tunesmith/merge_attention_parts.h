#pragma once
// The merge of attention over parts of the keys, as a typed problem.

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tunesmith/attention.h"
#include "tunesmith/description.h"

namespace tunesmith {

/// The base of the logarithms lse.
enum class LseBase : std::uint8_t {
  e,    ///< natural logarithms, as attention writes them
  two,  ///< as FlashInfer and TensorRT-LLM write them
};
template <>
inline constexpr std::array<std::string_view, 2> enum_names<LseBase>{"e", "two"};

/// Addresses in device memory, in the order of a launch. Shapes are for the layout bshd; bhsd swaps sequence and heads of o.
struct MergePartsArrays {
  const void* o_parts = nullptr;     ///< (parts, batch, seq_q, heads, head_dim)
  const float* lse_parts = nullptr;  ///< (parts, batch, heads, seq_q)
  void* o = nullptr;                 ///< (batch, seq_q, heads, head_dim)
  float* lse = nullptr;              ///< (batch, heads, seq_q); may be null
};

/// The outputs of attention over all keys, from those over parts of the keys: a prefix that many requests share, or keys
/// that several GPUs hold. For every query i of sequence b and head h:
///
///   lse[b,h,i] = log(sum_p exp(lse_parts[p,b,h,i]))
///   o[b,i,h,:] = sum_p exp(lse_parts[p,b,h,i] - lse[b,h,i]) * o_parts[p,b,i,h,:]
///
/// A part without keys (lse -inf) adds nothing, whatever its o holds; without any keys o is 0 and lse -inf. Packed queries
/// are one sequence of all of them; rows without heads are one head. Sums are float32, and o is rounded once. Parts are
/// added in their order, so results are bitwise reproducible.
struct MergePartsProblem {
  using Arrays = MergePartsArrays;
  static constexpr std::int64_t alignment = 16;  ///< bytes that addresses of o and o_parts are a multiple of

  std::int64_t parts = 2;                          ///< >= 1
  std::int64_t batch = 1;                          ///< number of sequences, >= 0
  std::int64_t heads = 1;                          ///< >= 1
  std::int64_t seq_q = 1;                          ///< queries of a sequence, >= 0
  std::int64_t head_dim = 64;                      ///< of o, 8 to 512 in steps of 8; kernels are specialized for it
  DType dtype = DType::bf16;                       ///< of o_parts: f32, f16 or bf16
  std::optional<DType> out_dtype{};                ///< of o, likewise; absent: dtype
  AttentionLayout layout = AttentionLayout::bshd;  ///< of o and o_parts
  LseBase lse_base = LseBase::e;                   ///< of lse and lse_parts
  /// Elements from one part to the next; absent: contiguous.
  std::optional<std::int64_t> o_part_stride{}, lse_part_stride{};

  constexpr std::string_view op() const noexcept { return "merge_attention_parts"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  bool operator==(const MergePartsProblem&) const = default;
};

template <DescribedAs<MergePartsProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const MergePartsArrays& arrays, Visitor& v) {
  constexpr std::int64_t many = std::int64_t{1} << 30, far = std::int64_t{1} << 48;
  v.field("parts", p.parts, {.meaning = "parts of the keys", .range = {1, 1 << 16}, .required = true, .runtime = true});
  v.field("batch", p.batch, {.meaning = "number of sequences", .range = {0, max_attention_heads}, .runtime = true});
  v.field("heads", p.heads, {.meaning = "heads of o", .range = {1, max_attention_heads}, .runtime = true});
  v.field("seq_q", p.seq_q, {.meaning = "queries of a sequence", .range = {0, many}, .required = true, .runtime = true});
  v.field(
      "head_dim", p.head_dim,
      {.meaning = "elements of an output; kernels are specialized for it", .range = {8, 512}, .step = 8, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type of o_parts", .choices = float_dtypes});
  v.field("out_dtype", p.out_dtype,
          {.meaning = "element type of o", .choices = float_dtypes, .follows = {"dtype", p.dtype}, .omit_default = true});
  v.field("layout", p.layout, {.meaning = "order of batch (b), sequence (s), heads (h) and head_dim (d) in o and o_parts"});
  v.option("lse_base", p.lse_base, {.meaning = "base of the logarithms lse", .runtime = true});
  const auto of_rows = [&](std::int64_t width) {
    std::int64_t elements = width;
    for (const std::int64_t extent : {p.batch, p.heads, p.seq_q})
      if (__builtin_mul_overflow(elements, extent, &elements)) return far;
    return elements;
  };
  FieldFacts stride{.meaning = "elements from one part to the next", .range = {0, far}};
  stride.follows = {"contiguous", of_rows(p.head_dim)};  // accesses are as wide as it allows
  v.option("o_part_stride", p.o_part_stride, stride);
  stride.follows = {"contiguous", of_rows(1)};
  stride.runtime = true;
  v.option("lse_part_stride", p.lse_part_stride, stride);

  const bool bshd = p.layout == AttentionLayout::bshd;
  const Extent outer = bshd ? size(p.seq_q) : size(p.heads), inner = bshd ? size(p.heads) : size(p.seq_q);
  const std::int64_t row = p.head_dim;
  ArrayFacts parts{.name = "o_parts",
                   .dtype = p.dtype,
                   .shape = {size(p.parts), size(p.batch), outer, inner, size(p.head_dim)},
                   .strides = {p.o_part_stride.value_or(of_rows(row)), p.heads * p.seq_q * row, inner.value * row, row, 1},
                   .aligned_to = MergePartsProblem::alignment,
                   .meaning = "outputs of attention over each part"};
  v.array(arrays.o_parts, parts);
  v.array(arrays.lse_parts, {.name = "lse_parts",
                             .shape = {size(p.parts), size(p.batch), size(p.heads), size(p.seq_q)},
                             .strides = {p.lse_part_stride.value_or(of_rows(1)), p.heads * p.seq_q, p.seq_q, 1},
                             .meaning = "log-sum-exp of the scores of each part"});
  v.array(arrays.o, {.name = "o",
                     .role = Role::output,
                     .dtype = p.output(),
                     .shape = {size(p.batch), outer, inner, size(p.head_dim)},
                     .aligned_to = MergePartsProblem::alignment});
  v.array(arrays.lse, {.name = "lse",
                       .role = Role::output,
                       .shape = {size(p.batch), size(p.heads), size(p.seq_q)},
                       .optional = true,
                       .meaning = "log-sum-exp of the scores of all parts"});
}

}  // namespace tunesmith
