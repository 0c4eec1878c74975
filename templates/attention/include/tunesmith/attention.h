#pragma once
// Attention as a typed problem: softmax of scores of queries and keys, weighing values.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tunesmith/problem.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Order of the dimensions of q, k, v and o: batch, sequence, heads, head_dim, or batch, heads, sequence, head_dim.
enum class AttentionLayout : std::uint8_t { bshd, bhsd };

/// Which keys behind its own place a query does not see. Where a query's place is among the keys:
enum class Causal : std::uint8_t {
  none,          ///< it sees all keys; windows and ALiBi distances are counted as for bottom_right
  top_left,      ///< query i stands at key i (PyTorch's is_causal)
  bottom_right,  ///< the last query stands at the last key (FlashAttention's causal)
};

/// Where it is kept what mask_mod leaves of tiles of 64 queries and 64 keys.
enum class MaskTiles : std::uint8_t {
  internal,  ///< found out by every call, in memory of the plan's
  write,     ///< found out, and written to AttentionArrays::mask_tiles
  read,      ///< read from there: nothing has changed since a call wrote it that decides about it
};

/// Elements between neighbours of one array in each dimension but the last, whose elements are neighbours; 0: as the layout
/// gives them without gaps.
struct AttentionArrayStrides {
  std::int64_t batch = 0, seq = 0, head = 0;
  bool operator==(const AttentionArrayStrides&) const = default;
};

/// An array or a number that AttentionProblem::score_mod and mask_mod read as a member of their argument aux.
struct AttentionAux {
  std::string name;                      ///< of the member: "slopes"
  DType dtype = DType::f32;              ///< of an array any; of a number f32, i32 or i64
  std::optional<std::int64_t> length{};  ///< elements of an array; without one it is a number
  /// Of a number. A word may name sizes of the problem: "seq_kv", "2*seq_kv-1". Kernels are not specialized for it.
  Value value = std::int64_t{0};
  bool operator==(const AttentionAux&) const = default;
};

/// For every batch entry b, head h and query i, with key head g = h / (heads / kv_heads):
///   s[j] = scale * dot(q[b,i,h,:], k[b,j,g,:]), then softcap * tanh(s[j] / softcap), then - alibi_slopes[h] * |i + d - j|
///   o[b,i,h,:] = sum_j softmax(s)[j] * v[b,j,g,:],  lse[b,h,i] = log(sum_j exp(s[j]))
/// over the keys j that the query sees: i + d - window_left <= j <= i + d + window_right, and j <= i + d where causal;
/// d = 0 for Causal::top_left, else seq_kv - seq_q. A query that sees no key gets zeros, and an lse of -inf.
///
/// Arrays (AttentionArrays): q (batch, seq_q, heads, head_dim), k (batch, seq_kv, kv_heads, head_dim), v (..., head_dim_v)
/// and o (batch, seq_q, heads, head_dim_v) of one dtype, in the layout's order or at any strides; lse float32
/// (batch, heads, seq_q), contiguous, natural logarithm. Sums are float32; probabilities of 16-bit problems are rounded to
/// 16 bits before they weigh values, as in FlashAttention. Where tensor cores add these up as well (sm_90a, head_dim_v 64)
/// both o and lse have the sum of the rounded ones: lse is within 2^-8 (bf16) or 2^-11 (f16) of the exact one where all are
/// rounded alike, and mostly far nearer.
///
/// - Grouped queries: heads is a multiple of kv_heads; neighbouring heads share a key head.
/// - Sinks: a logit for each head that takes part in the softmax without a value; lse includes it.
/// - Variable lengths: q and o are (total_q, heads, ...), k and v (total_kv, kv_heads, ...) (bhsd: heads first), lse is
///   (heads, total_q). Sequence b has queries cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1, likewise keys; seq_q and seq_kv
///   are upper bounds of the lengths. Lengths may be 0. cu_seqlens start with 0 and do not fall; what they say is trusted.
/// - Modifications: CUDA text of the user's, built into the kernel wherever a score is computed. `score_mod` defines
///     __device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux)
///   which makes another score of what scale and soft cap left, before ALiBi is subtracted; `mask_mod` defines
///     __device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux)
///   which says whether key k counts for query q, on top of causal masks and windows. b is the batch entry (the sequence of
///   packed ones), h the query's head, q and k positions within the sequence, both from 0: where causal masks are
///   bottom-right, query q stands at key q + seq_kv - seq_q. Only pairs that exist and are seen are asked for, each of them
///   any number of times, so that the functions must have no side effects. A score may become -inf; NaN or +inf makes the
///   query's row NaN.
/// - Aux has a member for everything in `aux`, and for what lines such as
///     // aux: slopes:f32[heads]; window:i64=128; last:i32=seq_kv-1
///   in the comment that a text opens with declare; of one name, `aux` counts. At most 8 together. Arrays are pointers to
///   const float, int, long long, unsigned char, or f16 and bf16, which to_float(aux.bias[i]) converts; numbers are float,
///   int or long long. Lengths and values are integers, or sums and products of them with batch, heads, kv_heads, seq_q,
///   seq_kv, head_dim, head_dim_v (total_q and total_kv of packed sequences). Arrays are inputs, after cu_seqlens, aligned
///   to an element. Candidates are verified on a problem with fewer sequences, heads and positions, and arrays as long as
///   their declarations then say: what indexes an array must not grow when sizes shrink.
/// - Tiles: ahead of kernels for many queries a small one asks mask_mod, for each pair once, what it leaves of each tile of
///   64 queries and 64 keys. Tiles of which nothing is left are then neither read nor computed, and where everything is left
///   mask_mod is not asked again. One batch entry, or head, is asked about for all where the text does not look at b, or h:
///   where that name occurs in its code once, as an int parameter's, or is left out, and there are no directives, no
///   backslashes and no assembly. (Kernels for few queries ask about each pair anyway.) What it costs to find out can be
///   saved: a call with MaskTiles::write leaves the result in an array, and calls with MaskTiles::read take it from there,
///   for as long as mask_mod, what it reads, batch, heads, lengths (cu_seqlens too), causal and windows stay the same. It is
///   trusted. The array is int32 (batches, heads, ceil(seq_q / 64), 2, ceil(ceil(seq_kv / 64) / 32)), mask_tiles_size()
///   elements, with 1 for batches, or heads, where one serves all, which is never so for batches of packed sequences. Of the
///   two rows the first has bit i % 32 of element i / 32 set where mask_mod keeps any pair of the tile whose first key is 64
///   * i, the second where it keeps all of them: of those that exist and are seen. Without such pairs: not any, but all.
/// - Texts are part of every key, numbers and lengths are not. There is nothing to include: functions of float32 (expf,
///   tanhf, sinf, fminf, ...), min, max, INFINITY, NAN, FLT_MAX, FLT_MIN, FLT_EPSILON, INT_MAX, INT_MIN, UINT_MAX and M_PI
///   and its kin are defined on every device. to_float converts floats and integers too, so that one text serves all dtypes.
///   A mistake is reported as score_mod.cu:LINE.
/// - Results of modified problems are checked against float64 too, but for the texts themselves: what they make of a score
///   is asked of the device, from the same text alone, for the reference's scores and ends of their rounding. Rows in which
///   a score's rounding decides whether a key counts are not judged.
/// - A query among whose scores are NaN or +inf gets NaN, lse too. NaN and infinities among values reach every query of
///   the tile that could have seen them, also those that a mask hides them from, as everywhere in FlashAttention's kernels,
///   unless the tile is passed over; beyond the ends of a sequence nothing is ever read.
///
/// After Dao, Fu, Ermon, Rudra and Re, "FlashAttention", 2022 (arXiv:2205.14135), and Dao, "FlashAttention-2", 2023
/// (arXiv:2307.08691). ALiBi: Press, Smith and Lewis, 2021 (arXiv:2108.12409). Sinks: Xiao et al., "Efficient streaming
/// language models with attention sinks", 2023 (arXiv:2309.17453), as learned logits.
struct AttentionProblem {
  std::int64_t batch = 1;       ///< >= 0
  std::int64_t heads = 1;       ///< of queries, >= 1
  std::int64_t kv_heads = 0;    ///< of keys and values; 0: heads
  std::int64_t seq_q = 1;       ///< queries of a sequence, >= 0
  std::int64_t seq_kv = 0;      ///< keys of a sequence, >= 1; 0: seq_q
  std::int64_t head_dim = 64;   ///< of q and k, 8 to 256 in steps of 8; a kernel is specialized for it
  std::int64_t head_dim_v = 0;  ///< of v and o, likewise; 0: head_dim
  DType dtype = DType::bf16;    ///< f32, f16 or bf16
  AttentionLayout layout = AttentionLayout::bshd;
  AttentionArrayStrides q_strides{}, k_strides{}, v_strides{}, o_strides{};
  std::int64_t q_alignment = 16;  ///< bytes q's address is promised to be a multiple of: a power of two up to 16
  std::int64_t k_alignment = 16, v_alignment = 16, o_alignment = 16;
  Causal causal = Causal::none;
  std::int64_t window_left = -1;               ///< keys before its place that a query sees; -1: all
  std::int64_t window_right = -1;              ///< keys behind its place that a query sees; -1: all
  double scale = 0;                            ///< factor of the dot products, positive; 0: 1 / sqrt(head_dim)
  double softcap = 0;                          ///< from 0; 0: none
  bool alibi = false;                          ///< alibi_slopes are given
  bool sinks = false;                          ///< sinks are given
  bool varlen = false;                         ///< sequences are packed, cu_seqlens are given
  std::int64_t total_q = -1;                   ///< varlen: queries of all sequences together; to be given
  std::int64_t total_kv = -1;                  ///< varlen: keys of all sequences together; to be given
  std::string score_mod{};                     ///< CUDA text; empty: none
  std::string mask_mod{};                      ///< CUDA text; empty: none
  std::vector<AttentionAux> aux{};             ///< what they read, beside what they declare themselves
  MaskTiles mask_tiles = MaskTiles::internal;  ///< else with mask_mod only

  bool operator==(const AttentionProblem&) const = default;
};

/// Addresses in device memory for a one-shot Engine::attention, in the order in which a plan takes them (after q, k, v).
/// What is given is used: slopes, sinks and cu_seqlens switch their options on.
struct AttentionArrays {
  const float* alibi_slopes = nullptr;          ///< (heads), finite, or left out
  const float* sinks = nullptr;                 ///< (heads), or left out
  const std::int32_t* cu_seqlens_q = nullptr;   ///< (batch + 1), or left out
  const std::int32_t* cu_seqlens_kv = nullptr;  ///< (batch + 1), or left out
  /// Auxiliary arrays in the order of their declarations: those of score_mod's opening lines, of mask_mod's, then what
  /// AttentionProblem::aux adds. Numbers take no place.
  std::array<const void*, 8> aux{};
  /// mask_tiles_size() elements where the problem's mask_tiles says that they are written or read; or left out.
  std::int32_t* mask_tiles = nullptr;
  void* o = nullptr;
  float* lse = nullptr;  ///< may be left out
};

/// Elements of AttentionArrays::mask_tiles; 0 without mask_mod. Throws what Engine::prepare does for a wrong problem.
std::int64_t mask_tiles_size(const AttentionProblem& problem);

/// The generic form. Options at their defaults are left out. Checks nothing: Engine::prepare does.
Problem to_problem(const AttentionProblem& problem);

}  // namespace tunesmith
