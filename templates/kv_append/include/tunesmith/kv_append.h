#pragma once
// The append to a KV cache, with what precedes it, as a typed problem.

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "tunesmith/attention.h"
#include "tunesmith/description.h"

namespace tunesmith {

/// Rotary position embedding: which elements of a head form a pair.
enum class Rope : std::uint8_t {
  none,
  neox,   ///< element i and element i + rotary_dim / 2, as in GPT-NeoX and Llama
  gpt_j,  ///< elements 2 i and 2 i + 1, as in GPT-J
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Rope>{"none", "neox", "gpt-j"};

/// Addresses in device memory, in the order of a launch.
struct KvAppendArrays {
  const void* k = nullptr;                     ///< (tokens, kv_heads, head_dim)
  const void* v = nullptr;                     ///< (tokens, kv_heads, head_dim_v)
  const std::int64_t* slot_mapping = nullptr;  ///< (tokens): page * page_size + slot in the page; negative: not appended
  const void* q = nullptr;                     ///< (tokens, heads, head_dim); with heads > 0
  const std::int64_t* positions = nullptr;     ///< (tokens): rows of cos_sin; with rope
  const void* cos_sin = nullptr;               ///< (max_positions, rotary_dim): cosines, then sines; with rope
  const void* q_weight = nullptr;              ///< (head_dim); with qk_norm and heads > 0
  const void* k_weight = nullptr;              ///< (head_dim); with qk_norm
  const float* k_scale = nullptr;              ///< see KvScales
  const float* v_scale = nullptr;
  void* k_cache = nullptr;  ///< (pages, page_size, kv_heads, head_dim); only the slots of slot_mapping are written
  void* v_cache = nullptr;  ///< (pages, page_size, kv_heads, head_dim_v), likewise
  void* q_out = nullptr;    ///< like q; may be q
};

/// What precedes attention over a KV cache, in one launch. For every token t and head g, with s = slot_mapping[t]:
///
///   k_cache[s / page_size, s % page_size, g, :] = quantize(rope(norm(k[t,g,:], k_weight)), k_scale)
///   v_cache[s / page_size, s % page_size, g, :] = quantize(v[t,g,:], v_scale)
///   q_out[t,h,:]                                = rope(norm(q[t,h,:], q_weight))            for every query head h
///
///   norm(x, w)     = x / sqrt(mean(x^2) + eps) * (w + weight_offset)                       with qk_norm
///   rope(x)        rotates the pairs (a, b) of the first rotary_dim elements, with c and s of pair i from row positions[t]
///                  of cos_sin: (a c - b s, b c + a s), c = cos_sin[i], s = cos_sin[rotary_dim / 2 + i]
///   quantize(x, s) = x / s, rounded to the cache's type; e4m3 has no infinities: beyond 448 it becomes 448
///
/// All arithmetic is float32 and results are rounded once. A token with a negative slot is not appended, but its queries are
/// computed. Slots and positions are read when the kernel runs, so one plan or CUDA graph serves all steps; they are
/// trusted: slots below pages * page_size and different from each other, positions from 0 to max_positions - 1. A cache
/// without pages, (batch, seq_kv, kv_heads, head_dim), is one with page_size = seq_kv.
///
/// Rotary embedding: Su et al., "RoFormer", 2021 (arXiv:2104.09864). Normalization of queries and keys: Henry et al., 2020
/// (arXiv:2010.04245), here as RMS normalization.
struct KvAppendProblem {
  using Arrays = KvAppendArrays;
  static constexpr std::int64_t alignment = 16;  ///< bytes that addresses of elements are a multiple of

  std::int64_t tokens = 0;                         ///< >= 0
  std::int64_t heads = 0;                          ///< of q; 0: no queries
  std::int64_t kv_heads = 1;                       ///< of k and v, >= 1
  std::int64_t head_dim = 64;                      ///< of q and k, 8 to 512 in steps of 8; kernels are specialized for it
  std::optional<std::int64_t> head_dim_v{};        ///< of v, likewise; absent: head_dim
  DType dtype = DType::bf16;                       ///< of q, k, v: f32, f16 or bf16
  std::optional<DType> cache_dtype{};              ///< of the caches: dtype or e4m3; absent: dtype
  AttentionLayout layout = AttentionLayout::bshd;  ///< of a page: bhsd has kv_heads before page_size
  std::int64_t page_size = 1;                      ///< positions of a page, >= 1; compiled in
  std::int64_t pages = 0;                          ///< of the caches, >= 0
  Rope rope = Rope::none;
  std::optional<std::int64_t> rotary_dim{};     ///< elements of a head that are rotated, even; absent: head_dim
  std::optional<std::int64_t> max_positions{};  ///< rows of cos_sin; required with rope, invalid without
  DType cos_sin_dtype = DType::f32;             ///< f32, or dtype
  bool qk_norm = false;                         ///< q and k are normalized
  std::optional<DType> weight_dtype{};          ///< of q_weight and k_weight: dtype or f32; absent: dtype
  double eps = 1e-6;                            ///< added to the mean of squares: 0 to 1e30
  double weight_offset = 0;                     ///< added to each weight: 1 for Gemma
  KvScales scales = KvScales::none;             ///< none, tensor or head; those need cache_dtype e4m3
  bool in_place = false;                        ///< q_out is q: equal strides
  /// Elements from one token to the next; heads are contiguous. Absent: heads * head_dim.
  std::optional<std::int64_t> k_stride{}, v_stride{}, q_stride{}, q_out_stride{};
  /// Elements from one page, slot or head of a cache to the next; absent: contiguous in the layout.
  std::optional<std::int64_t> k_page_stride{}, k_slot_stride{}, k_head_stride{};
  std::optional<std::int64_t> v_page_stride{}, v_slot_stride{}, v_head_stride{};

  constexpr std::string_view op() const noexcept { return "kv_append"; }
  constexpr DType cached() const noexcept { return cache_dtype.value_or(dtype); }
  constexpr DType weight_type() const noexcept { return weight_dtype.value_or(dtype); }
  bool operator==(const KvAppendProblem&) const = default;
};

/// Describes the strides of a cache and returns its facts as an array. `names`: of the page, slot and head stride.
template <typename Stride, DescriptionVisitor Visitor>
constexpr ArrayFacts describe_kv_cache(const KvAppendProblem& p, std::string_view name, const Extent& width,
                                       const std::array<std::string_view, 3>& names, Stride& page, Stride& slot,
                                       Stride& head, Visitor& v) {
  const bool bshd = p.layout == AttentionLayout::bshd;
  const auto product = [](std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
  };
  const std::int64_t of_heads = product(p.kv_heads, width.value), of_slots = product(p.page_size, width.value);
  const std::array<std::int64_t, 3> contiguous{product(of_heads, p.page_size), bshd ? of_heads : width.value,
                                               bshd ? width.value : of_slots};
  const auto stride = [&](std::string_view meaning, std::int64_t value) {
    return FieldFacts{.meaning = meaning, .range = {1, std::int64_t{1} << 48}, .follows = {"contiguous", value}};
  };
  v.option(names[0], page, stride("elements from one page to the next", contiguous[0]));
  v.option(names[1], slot, stride("elements from one slot of a page to the next", contiguous[1]));
  v.option(names[2], head, stride("elements from one head to the next", contiguous[2]));
  ArrayFacts facts{.name = name, .role = Role::in_out, .dtype = p.cached()};
  const std::int64_t slots = slot.value_or(contiguous[1]), heads = head.value_or(contiguous[2]);
  if (bshd) {
    facts.shape = {size(p.pages), size(p.page_size), size(p.kv_heads), width};
    facts.strides = {page.value_or(contiguous[0]), slots, heads, 1};
  } else {
    facts.shape = {size(p.pages), size(p.kv_heads), size(p.page_size), width};
    facts.strides = {page.value_or(contiguous[0]), heads, slots, 1};
  }
  facts.aligned_to = KvAppendProblem::alignment;
  return facts;
}

template <DescribedAs<KvAppendProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const KvAppendArrays& arrays, Visitor& v) {
  constexpr std::int64_t many = std::int64_t{1} << 30, far = std::int64_t{1} << 48;
  const Condition rotated{p.rope != Rope::none, "rope, neox or gpt-j"}, normalized{p.qk_norm, "qk_norm=1"},
      with_q{p.heads > 0, "heads, at least 1"};
  v.field("tokens", p.tokens, {.meaning = "tokens to append", .range = {0, many}, .required = true, .runtime = true});
  v.field("heads", p.heads, {.meaning = "heads of q; 0: no queries", .range = {0, 1 << 16}, .runtime = true});
  v.field("kv_heads", p.kv_heads, {.meaning = "heads of k and v", .range = {1, 1 << 16}, .runtime = true});
  v.field("head_dim", p.head_dim, {.meaning = "elements of a head of q and k", .range = {8, 512}, .step = 8});
  v.field("head_dim_v", p.head_dim_v,
          {.meaning = "elements of a head of v", .range = {8, 512}, .step = 8, .follows = {"head_dim", p.head_dim}});
  v.field("dtype", p.dtype, {.meaning = "element type of q, k and v", .choices = float_dtypes});
  v.field("cache_dtype", p.cache_dtype,
          {.meaning = "element type of the caches: dtype or e4m3",
           .choices = float_dtypes | one_of(DType::e4m3),
           .follows = {"dtype", p.dtype}});
  v.field("layout", p.layout, {.meaning = "order of page_size (s) and kv_heads (h) in a page"});
  v.field("page_size", p.page_size, {.meaning = "positions of a page; kernels are specialized for it", .range = {1, many}});
  v.field("pages", p.pages, {.meaning = "pages of the caches", .range = {0, many}, .runtime = true});
  v.option("rope", p.rope, {.meaning = "rotary position embedding of q and k", .bare = "neox"});
  v.option("rotary_dim", p.rotary_dim,
           {.meaning = "elements of a head that are rotated",
            .range = {2, 512},
            .step = 2,
            .follows = {"head_dim", p.head_dim},
            .only_with = rotated});
  v.option("max_positions", p.max_positions,
           {.meaning = "rows of cos_sin; required with rope", .range = {1, many}, .only_with = rotated, .runtime = true});
  v.option("cos_sin_dtype", p.cos_sin_dtype,
           {.meaning = "element type of cos_sin: f32, or that of q", .choices = float_dtypes, .only_with = rotated});
  v.option("qk_norm", p.qk_norm, {.meaning = "q and k are normalized by their root mean square"});
  v.option("weight_dtype", p.weight_dtype,
           {.meaning = "element type of q_weight and k_weight: that of q, or f32",
            .choices = float_dtypes,
            .follows = {"dtype", p.dtype},
            .only_with = normalized});
  v.option("eps", p.eps,
           {.meaning = "added to the mean of squares", .range = {0.0, 1e30}, .only_with = normalized, .runtime = true});
  v.option("weight_offset", p.weight_offset,
           {.meaning = "added to each weight, such as 1", .range = {-1e30, 1e30}, .only_with = normalized, .runtime = true});
  v.option("scales", p.scales,
           {.meaning = "scales of the caches: one each, or one for each head",
            .choices = one_of(KvScales::none, KvScales::tensor, KvScales::head),
            .only_with = {p.cached() == DType::e4m3, "cache_dtype=e4m3"}});
  v.option("in_place", p.in_place, {.meaning = "q_out is q", .only_with = with_q});
  const auto stride = [&](std::int64_t heads, std::int64_t width) {
    return FieldFacts{
        .meaning = "elements from one token to the next", .range = {0, far}, .follows = {"contiguous", heads * width}};
  };
  const Extent width = size(p.head_dim), width_v = size(p.head_dim_v, p.head_dim);
  v.option("k_stride", p.k_stride, stride(p.kv_heads, width.value));
  v.option("v_stride", p.v_stride, stride(p.kv_heads, width_v.value));
  FieldFacts of_q = stride(p.heads, width.value);
  of_q.only_with = with_q;
  v.option("q_stride", p.q_stride, of_q);
  of_q.range = {p.heads > 0 ? 1 : 0, far};
  v.option("q_out_stride", p.q_out_stride, of_q);
  const ArrayFacts k_cache = describe_kv_cache(p, "k_cache", width, {"k_page_stride", "k_slot_stride", "k_head_stride"},
                                               p.k_page_stride, p.k_slot_stride, p.k_head_stride, v);
  const ArrayFacts v_cache = describe_kv_cache(p, "v_cache", width_v, {"v_page_stride", "v_slot_stride", "v_head_stride"},
                                               p.v_page_stride, p.v_slot_stride, p.v_head_stride, v);

  const auto rows = [&](std::string_view name, const Extent& heads, const Extent& of_row, std::int64_t token_stride) {
    return ArrayFacts{.name = name,
                      .dtype = p.dtype,
                      .shape = {size(p.tokens), heads, of_row},
                      .strides = {token_stride, of_row.value, 1},
                      .aligned_to = KvAppendProblem::alignment};
  };
  const auto list = [&](std::string_view name, DType dtype, const Extent& extent, bool present, std::string_view meaning) {
    return ArrayFacts{.name = name, .dtype = dtype, .shape = {extent}, .present = present, .meaning = meaning};
  };
  v.array(arrays.k, rows("k", size(p.kv_heads), width, p.k_stride.value_or(p.kv_heads * width.value)));
  v.array(arrays.v, rows("v", size(p.kv_heads), width_v, p.v_stride.value_or(p.kv_heads * width_v.value)));
  v.array(arrays.slot_mapping, list("slot_mapping", DType::i64, size(p.tokens), true,
                                    "page * page_size + slot in the page of each token; negative: not appended"));
  ArrayFacts q = rows("q", size(p.heads), width, p.q_stride.value_or(p.heads * width.value));
  q.present = p.heads > 0;
  v.array(arrays.q, q);
  v.array(arrays.positions,
          list("positions", DType::i64, size(p.tokens), rotated.holds, "position of each token, a row of cos_sin"));
  const std::int64_t rotary_dim = p.rotary_dim.value_or(p.head_dim);
  v.array(arrays.cos_sin, {.name = "cos_sin",
                           .dtype = p.cos_sin_dtype,
                           .shape = {size(p.max_positions, 0), fixed(rotary_dim, "rotary_dim")},
                           .aligned_to = KvAppendProblem::alignment,
                           .present = rotated.holds,
                           .meaning = "cosines of the pairs of each position, then their sines"});
  ArrayFacts weight = list("q_weight", p.weight_type(), width, p.qk_norm && p.heads > 0, "weight of each element of a head");
  weight.aligned_to = KvAppendProblem::alignment;
  v.array(arrays.q_weight, weight);
  weight.name = "k_weight";
  weight.present = p.qk_norm;
  v.array(arrays.k_weight, weight);
  const bool scaled = p.scales != KvScales::none;
  const Extent scales = p.scales == KvScales::head ? size(p.kv_heads) : fixed(1);
  v.array(arrays.k_scale, list("k_scale", DType::f32, scales, scaled, "scale of k_cache, positive"));
  v.array(arrays.v_scale, list("v_scale", DType::f32, scales, scaled, "scale of v_cache, positive"));
  v.array(arrays.k_cache, k_cache);
  v.array(arrays.v_cache, v_cache);
  ArrayFacts q_out = rows("q_out", size(p.heads), width, p.q_out_stride.value_or(p.heads * width.value));
  q_out.role = Role::output;
  q_out.present = p.heads > 0;
  q_out.in_place_of = p.in_place ? "q" : "";
  q_out.in_place = &p.in_place;
  q_out.shares = arrays.q;
  v.array(arrays.q_out, q_out);
}

}  // namespace tunesmith
