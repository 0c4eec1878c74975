#pragma once
// Attention as a typed problem: softmax of scores of queries and keys, weighing values.

#include <cstdint>

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

/// Elements between neighbours of one array in each dimension but the last, whose elements are neighbours; 0: as the layout
/// gives them without gaps.
struct AttentionArrayStrides {
  std::int64_t batch = 0, seq = 0, head = 0;
  bool operator==(const AttentionArrayStrides&) const = default;
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
/// 16 bits before they weigh values, as in FlashAttention.
///
/// - Grouped queries: heads is a multiple of kv_heads; neighbouring heads share a key head.
/// - Sinks: a logit for each head that takes part in the softmax without a value; lse includes it.
/// - Variable lengths: q and o are (total_q, heads, ...), k and v (total_kv, kv_heads, ...) (bhsd: heads first), lse is
///   (heads, total_q). Sequence b has queries cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1, likewise keys; seq_q and seq_kv
///   are upper bounds of the lengths. Lengths may be 0. cu_seqlens start with 0 and do not fall; what they say is trusted.
/// - A query among whose scores are NaN or +inf gets NaN, lse too. NaN and infinities among values reach every query of
///   the tile that could have seen them, also those that a mask hides them from, as everywhere in FlashAttention's kernels;
///   beyond the ends of a sequence nothing is ever read.
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
  std::int64_t window_left = -1;   ///< keys before its place that a query sees; -1: all
  std::int64_t window_right = -1;  ///< keys behind its place that a query sees; -1: all
  double scale = 0;                ///< factor of the dot products, positive; 0: 1 / sqrt(head_dim)
  double softcap = 0;              ///< from 0; 0: none
  bool alibi = false;              ///< alibi_slopes are given
  bool sinks = false;              ///< sinks are given
  bool varlen = false;             ///< sequences are packed, cu_seqlens are given
  std::int64_t total_q = -1;       ///< varlen: queries of all sequences together; to be given
  std::int64_t total_kv = -1;      ///< varlen: keys of all sequences together; to be given

  bool operator==(const AttentionProblem&) const = default;
};

/// Addresses in device memory for a one-shot Engine::attention, in the order in which a plan takes them (after q, k, v).
/// What is given is used: slopes, sinks and cu_seqlens switch their options on.
struct AttentionArrays {
  const float* alibi_slopes = nullptr;          ///< (heads), or left out
  const float* sinks = nullptr;                 ///< (heads), or left out
  const std::int32_t* cu_seqlens_q = nullptr;   ///< (batch + 1), or left out
  const std::int32_t* cu_seqlens_kv = nullptr;  ///< (batch + 1), or left out
  void* o = nullptr;
  float* lse = nullptr;  ///< may be left out
};

/// The generic form. Options at their defaults are left out. Checks nothing: Engine::prepare does.
Problem to_problem(const AttentionProblem& problem);

}  // namespace tunesmith
