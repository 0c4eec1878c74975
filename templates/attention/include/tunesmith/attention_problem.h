#pragma once
// Scaled dot-product attention (forward) as a typed problem. tunesmith/attention.h has its description, too.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tunesmith/attention_aux.h"
#include "tunesmith/problem.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Order of the dimensions of q, k, v and o: batch, sequence, heads, head_dim, or batch, heads, sequence, head_dim.
enum class AttentionLayout : std::uint8_t { bshd, bhsd };
template <>
inline constexpr std::array<std::string_view, 2> enum_names<AttentionLayout>{"bshd", "bhsd"};

/// Causal mask and its alignment: query i is at position i + d among the keys and attends to keys up to that position.
enum class Causal : std::uint8_t {
  none,          ///< no causal mask; d = seq_kv - seq_q for windows and ALiBi
  top_left,      ///< d = 0 (PyTorch's is_causal)
  bottom_right,  ///< d = seq_kv - seq_q (FlashAttention's causal)
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<Causal>{"none", "top-left", "bottom-right"};

/// Scales of 8-bit keys and values: an element stands for its value times the scale, which is positive. The arrays k_scale
/// and v_scale have this shape.
enum class KvScales : std::uint8_t {
  none,        ///< 1
  tensor,      ///< (1)
  head,        ///< (kv_heads)
  batch_head,  ///< (batch, kv_heads)
  token_head,  ///< one for each row of k, or v: their shape without the last dimension; 0 is allowed, too
};
template <>
inline constexpr std::array<std::string_view, 5> enum_names<KvScales>{"none", "tensor", "head", "batch_head", "token_head"};

/// Where the block mask of mask_mod is stored. It classifies tiles of 64 queries and 64 keys as empty, partial or full.
enum class BlockMask : std::uint8_t {
  internal,  ///< computed by every call, in the plan's workspace
  write,     ///< computed, and written to AttentionArrays::block_mask
  read,      ///< read from there, as written by an earlier call; not checked
};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<BlockMask>{"internal", "write", "read"};

/// Elements between neighbouring indices of each dimension except the last one, which is contiguous. Absent: contiguous in
/// the layout. 0 broadcasts q, k and v; o rejects it.
struct AttentionArrayStrides {
  std::optional<std::int64_t> batch{}, seq{}, head{};
  bool operator==(const AttentionArrayStrides&) const = default;
};

/// Device addresses, in launch order. Non-null alibi_slopes, sinks, cu_seqlens, kv_lengths and rng_state enable their
/// options in a one-shot call. Shapes are for the layout bshd; bhsd swaps sequence and heads.
struct AttentionArrays {
  const void* q = nullptr;  ///< (batch, seq_q, heads, head_dim); varlen: (total_q, heads, head_dim)
  /// (batch, seq_kv, kv_heads, head_dim); varlen: (total_kv, ...); page_size: (pages, page_size, ...)
  const void* k = nullptr;
  const void* v = nullptr;                      ///< the same with head_dim_v
  const float* alibi_slopes = nullptr;          ///< (heads), finite
  const float* sinks = nullptr;                 ///< (heads)
  const std::int32_t* cu_seqlens_q = nullptr;   ///< (batch + 1); both cu_seqlens or neither, but with kv_lengths this alone
  const std::int32_t* cu_seqlens_kv = nullptr;  ///< (batch + 1)
  const std::int32_t* block_table = nullptr;    ///< (batch, max_pages): the pages of each sequence; with page_size
  const std::int32_t* kv_lengths = nullptr;     ///< (batch): keys of each sequence, 0 to seq_kv
  const float* k_scale = nullptr;               ///< see KvScales
  const float* v_scale = nullptr;
  /// Arrays of score_mod and mask_mod in the order of their declarations: in score_mod's opening comment, in mask_mod's, in
  /// AttentionProblem::aux. Numbers are not in the list.
  std::array<const void*, 8> aux{};
  std::int32_t* block_mask = nullptr;       ///< block_mask_size() elements; for BlockMask::write and read
  const std::int64_t* rng_state = nullptr;  ///< (2): seed and offset of dropout
  void* o = nullptr;                        ///< (batch, seq_q, heads, head_dim_v); varlen: (total_q, heads, head_dim_v)
  float* lse = nullptr;                     ///< (batch, heads, seq_q), contiguous; varlen: (heads, total_q); may be null
};

/// For every batch entry b, head h and query i, with key head g = h / (heads / kv_heads) and d as in Causal:
///
///   s[j]       = scale * dot(q[b,i,h,:], k[b,j,g,:])
///   s[j]       = softcap * tanh(s[j] / softcap)                    with softcap
///   s[j]       = score_mod(s[j], b, h, i, j, aux)                  with score_mod
///   s[j]       = s[j] - alibi_slopes[h] * |i + d - j|              with alibi
///   o[b,i,h,:] = sum_j exp(s[j] - lse[b,h,i]) * v[b,j,g,:]
///   lse[b,h,i] = log(sum_j exp(s[j]))                              natural logarithm
///
/// over the visible keys: j <= i + d if causal, i + d - window_left <= j <= i + d + window_right with windows, and
/// mask_mod(b, h, i, j, aux) with mask_mod. With sinks, lse also sums exp(sinks[h]), a logit without a value.
///
/// Special cases
///   no visible key, or seq_kv = 0     o is 0, lse is -inf (with sinks: sinks[h])
///   NaN or +inf among the scores      o and lse of that query are NaN
///   NaN or inf in v                   reaches every query of a tile that reads it, even where the key is masked
///   heads > kv_heads                  neighbouring query heads share a key head; heads is a multiple of kv_heads
///   varlen                            sequence b has queries cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1, likewise keys;
///                                     seq_q and seq_kv are upper bounds of the lengths, which may be 0. cu_seqlens start
///                                     with 0, never decrease and are trusted. They may end before total_q and total_kv:
///                                     rows after the last sequence affect no result, and theirs are not written
///
/// With kv_lengths, sequence b has kv_lengths[b] keys, read from device memory when the kernel runs, and seq_kv bounds them:
/// grids follow from seq_kv, so one plan or CUDA graph serves all steps of decoding. Lengths are clamped to 0 and seq_kv.
/// Masks take the length as the number of keys: the last query of a sequence is aligned with its last key if causal is
/// bottom_right. varlen then packs queries alone. Positions after the length are not read, whatever they hold.
///
/// With page_size, k and v are pools of pages that sequences share, as in a paged KV cache: position j of sequence b is in
/// slot j % page_size of page block_table[b, j / page_size]. The batch stride of k and v is the distance between pages.
/// Entries of the table that a length does not reach may hold anything; the others are trusted to be pages, in any order and
/// as often as you like. page_size implies kv_lengths and is compiled in; pages, max_pages and strides are not. Kernels on
/// sm_90a that load through TMA (wgmma) take pages of a multiple of 8 positions.
///
/// With split_keys, decoding kernels split the keys of each sequence every split_keys visible keys, and configurations do
/// not depend on batch: a sequence has the same bits whatever runs next to it, if all other fields are the same. Sequences
/// whose lengths differ take blocks of the same work, which balances them.
///
/// With kv_dtype=e4m3, k and v are 8-bit floats, as kv_append writes them: element k[b,j,g,d] stands for its value times a
/// scale (KvScales), and v likewise. All conversions are exact. Scales of a head are part of the softmax scale and of the
/// output; scales of each row multiply scores and probabilities in float32. Products of q and k have the type of q;
/// probabilities are rounded to f16 before the product with v, whatever the type of q, and with token_head, whose scales
/// may exceed f16, to bf16. Kernels on tensor cores need sm_89 or later, where the type is in hardware, and head_dim and
/// head_dim_v in steps of 16; simt takes any. There is no dropout and no backward pass.
///
/// With dropout, each pair of a query and a key is dropped with this probability, independently of all others:
///   o[b,i,h,:] = sum_j keep[b,h,i,j] / (1 - dropout) * exp(s[j] - lse[b,h,i]) * v[b,j,g,:]
/// where keep is 0 or 1; lse is as without dropout. The probability is rounded to a multiple of 2^-16. The mask is a
/// function of dropout_seed, dropout_offset, b, h, i and j alone (Philox4x32-10; Salmon et al., SC 2011), so every kernel
/// and the backward pass have the same one. Give each call of a training step another seed or offset. With rng_state they
/// are read from device memory when the kernel runs, so that a plan or a CUDA graph serves all steps. Neither is compiled
/// in.
///
/// Sums are float32. 16-bit kernels round probabilities to 16 bits before the product with v, as FlashAttention does. lse
/// sums unrounded probabilities: within 1e-5 relative plus 1e-6 of the exact value, apart from the rounding of the scores.
/// Leave it out where you do not need it: on sm_90a it takes 1.08 to 1.11 of the time with head_dim_v 64, where its sum is a
/// second one, and 1.06 to 1.14 with a 16-bit softcap, which is then computed more accurately (measured on an H200).
///
/// score_mod and mask_mod are CUDA functions that become part of the kernel:
///   __device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux)
///   __device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux)
/// See docs/score-mod.md for what they may read, the block mask and its array.
///
/// After Dao, Fu, Ermon, Rudra and Re, "FlashAttention", 2022 (arXiv:2205.14135), and Dao, "FlashAttention-2", 2023
/// (arXiv:2307.08691). ALiBi: Press, Smith and Lewis, 2021 (arXiv:2108.12409). Sinks: Xiao et al., "Efficient streaming
/// language models with attention sinks", 2023 (arXiv:2309.17453), as learned logits.
struct AttentionProblem {
  using Arrays = AttentionArrays;

  std::int64_t batch = 1;                    ///< number of sequences, >= 0
  std::int64_t heads = 1;                    ///< of q and o, >= 1
  std::optional<std::int64_t> kv_heads{};    ///< of k and v, a divisor of heads; absent: heads
  std::int64_t seq_q = 1;                    ///< queries of a sequence, >= 0
  std::optional<std::int64_t> seq_kv{};      ///< keys of a sequence, >= 0; absent: seq_q, or all that fit max_pages
  std::int64_t head_dim = 64;                ///< of q and k, 8 to 256 in steps of 8; kernels are specialized for it
  std::optional<std::int64_t> head_dim_v{};  ///< of v and o, likewise; absent: head_dim
  DType dtype = DType::bf16;                 ///< of q, k, v and o: f32, f16 or bf16
  std::optional<DType> kv_dtype{};           ///< of k and v: dtype or e4m3; absent: dtype
  KvScales kv_scales = KvScales::none;       ///< others need kv_dtype e4m3
  /// Elements of k_scale and v_scale from one sequence (or page), position and head to the next, for token_head; absent:
  /// contiguous in the layout.
  AttentionArrayStrides k_scale_strides{}, v_scale_strides{};
  AttentionLayout layout = AttentionLayout::bshd;
  AttentionArrayStrides q_strides{}, k_strides{}, v_strides{}, o_strides{};  ///< absent: contiguous in the layout
  std::int64_t q_alignment = 16;  ///< promised alignment of q in bytes: a power of two up to 16
  std::int64_t k_alignment = 16, v_alignment = 16, o_alignment = 16;  ///< the same for k, v and o
  Causal causal = Causal::none;
  std::optional<std::int64_t> window_left{};   ///< visible keys before the query's position, >= 0; absent: all
  std::optional<std::int64_t> window_right{};  ///< visible keys after it, >= 0; absent: all; causal hides them
  std::optional<double> scale{};               ///< factor of the dot products, positive; absent: 1/sqrt(head_dim)
  double softcap = 0;                          ///< >= 0; 0: no soft cap
  bool alibi = false;                          ///< subtracts alibi_slopes[h] * distance
  bool sinks = false;                          ///< adds a logit without a value for each head
  bool varlen = false;                         ///< sequences are packed
  std::optional<std::int64_t> total_q{};       ///< queries of all sequences; required with varlen, invalid without
  std::optional<std::int64_t> total_kv{};      ///< keys of all sequences; likewise
  std::string score_mod{};                     ///< CUDA source; empty: none
  std::string mask_mod{};                      ///< CUDA source; empty: none
  std::vector<AttentionAux>
      aux{};  ///< arrays and numbers for the user functions, in addition to their opening comments' declarations
  BlockMask block_mask = BlockMask::internal;  ///< write and read need mask_mod
  double dropout = 0;                          ///< probability with which a weight is dropped, in [0, 1)
  std::int64_t dropout_seed = 0;               ///< of the dropout mask
  std::int64_t dropout_offset = 0;             ///< distinguishes calls with the same seed
  bool rng_state = false;                      ///< seed and offset are in AttentionArrays::rng_state
  bool kv_lengths = false;                     ///< numbers of keys are in AttentionArrays::kv_lengths
  std::optional<std::int64_t> page_size{};     ///< positions of a page, >= 1; absent: k and v are not in pages
  std::optional<std::int64_t> pages{};         ///< pages of k and v; required with page_size, invalid without
  std::optional<std::int64_t> max_pages{};     ///< pages of a sequence in block_table; likewise
  /// Elements from one row of block_table to the next, >= 0; absent: max_pages.
  std::optional<std::int64_t> block_table_stride{};
  /// Keys of a split in decoding, a multiple of 64; 0: enough splits to fill the device. See above.
  std::int64_t split_keys = 0;

  constexpr std::string_view op() const noexcept { return "attention"; }
  bool operator==(const AttentionProblem&) const = default;
};

/// Returns the elements of AttentionArrays::block_mask; 0 without mask_mod. Throws like Engine::prepare for an invalid
/// problem.
std::int64_t block_mask_size(const AttentionProblem& problem);

/// Returns the arrays that score_mod and mask_mod read, in launch order; none if their declarations are malformed.
std::vector<AttentionAuxArray> attention_aux_arrays(const AttentionProblem& problem);

/// Returns the extents (batches, heads, rows, 2, words) of AttentionArrays::block_mask; batches or heads is 1 if mask_mod
/// ignores b or h.
struct BlockMaskShape {
  std::int64_t batches = 0, heads = 0, rows = 0, words = 0;
};
BlockMaskShape block_mask_shape(const AttentionProblem& problem);

}  // namespace tunesmith
