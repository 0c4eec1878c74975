// Attention backward without tensor cores, for float32 and for any architecture. Two kernels, both deterministic:
//
//   keys     a block keeps a K/V tile and goes through the queries of all heads that share it
//              S^T = K Q^T, dP^T = V dO^T, dV += P^T dO, dK += dS^T Q
//   queries  a block keeps a tile of Q and dO and goes through the K/V tiles that it sees
//              S = Q K^T, dP = dO V^T, dQ += dS K
//
// with P = exp(S - lse) and dS = P * (dP - delta). 16 x (threads / 16) threads compute register tiles of the products from
// float32 copies in shared memory, where the three streamed tiles of a step replace one another.
#pragma once

#include "attention/alibi.cuh"
#include "attention/dropout.cuh"
#include "attention/soft_cap.cuh"
#include "attention/tiles.cuh"
#include "attention_backward/aux_simt.cuh"
#include "attention_backward/heads.cuh"
#include "attention_backward/pairs.cuh"
#include "attention_backward/prepare.cuh"
#include "attention_backward/score_gradient.cuh"
#include "attention_backward/simt_tiles.cuh"

namespace tunesmith {

/// A thread's part of a gradient: its rows, and groups of four columns that lie 64 apart.
template <typename Tiles, int width>
struct SimtGradient {
  static constexpr int together = 4, groups = (width / together + Tiles::across - 1) / Tiles::across;
  float sums[Tiles::rows][groups][together];

  __device__ __forceinline__ SimtGradient() {
#pragma unroll
    for (int i = 0; i < Tiles::rows; ++i)
#pragma unroll
      for (int g = 0; g < groups; ++g)
#pragma unroll
        for (int c = 0; c < together; ++c) sums[i][g][c] = 0.0f;
  }
  static __device__ __forceinline__ int column(int group) {
    return (Tiles::thread_column() + group * Tiles::across) * together;
  }

  /// sums += weights * streamed, `count` streamed rows.
  template <int count>
  __device__ __forceinline__ void accumulate(const float* weights, const float* streamed) {
    for (int j = 0; j < count; j += 4) {
      Four factors[Tiles::rows];
#pragma unroll
      for (int i = 0; i < Tiles::rows; ++i)
        factors[i] = four_at(weights + (Tiles::thread_row() + i * Tiles::down) * Tiles::weight_stride + j);
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          if (column(g) >= width) continue;
          const Four values = four_at(streamed + (j + e) * Tiles::streamed_stride + column(g));
#pragma unroll
          for (int i = 0; i < Tiles::rows; ++i)
#pragma unroll
            for (int c = 0; c < together; ++c)
              sums[i][g][c] = fused_multiply_add(factors[i].values[e], values.values[c], sums[i][g][c]);
        }
    }
  }

  /// Writes factor * sums to rows [first, end) of a head, see write_part().
  template <int vector, bool accumulates, typename Element>
  __device__ __forceinline__ void write(Element* head, int64 row_stride, int first, int end, float factor) const {
#pragma unroll
    for (int i = 0; i < Tiles::rows; ++i) {
      const int row = first + Tiles::thread_row() + i * Tiles::down;
      if (row >= end) continue;
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        if (column(g) >= width) continue;
        float values[together];
#pragma unroll
        for (int c = 0; c < together; ++c) values[c] = multiply(sums[i][g][c], factor);
        write_part<vector, accumulates>(head + row * row_stride + column(g), values);
      }
    }
  }
};

/// Stores a thread's weights where SimtGradient::accumulate() reads them.
template <typename Tiles>
__device__ __forceinline__ void store_weights(const float (&values)[Tiles::rows][Tiles::columns], float* weights) {
#pragma unroll
  for (int i = 0; i < Tiles::rows; ++i)
#pragma unroll
    for (int j = 0; j < Tiles::columns; ++j)
      weights[(Tiles::thread_row() + i * Tiles::down) * Tiles::weight_stride + Tiles::thread_column() + j * Tiles::across] =
          values[i][j];
}

template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const SimtBackwardConfig& config>
__device__ __forceinline__ void attention_backward_keys_simt(const AttentionBackwardParams& params) {
  using Tiles = SimtKeysTiles<shape, config>;
  const AttentionParams& attention = params.attention;
  const float kept_factor = DroppedOf<shape>::Pairs::factor_of(&params.dropout);
  auto* const shared = reinterpret_cast<float*>(dynamic_shared());
  float* const shared_k = shared + Tiles::first_at;
  float* const shared_v = shared + Tiles::second_at;
  float* const streamed = shared + Tiles::streamed_at;
  float* const weights = shared + Tiles::weights_at;
  float* const lse = shared + Tiles::lse_at;
  float* const delta = shared + Tiles::delta_at;

  const BlockOfKeys<shape, config.tile_kv> block(params);
  if (block.is_empty()) return;
  const Sequence& sequence = block.sequence;
  const int first_k = block.first_k;
  const KeyValuesOf<Element, shape> rows(attention, sequence, block.batch, block.kv_head);
  stage_rows<config.threads, config.tile_kv, shape.head_dim, shape.k_vector, Tiles::first_stride>(rows.k(), first_k,
                                                                                                  sequence.seq_kv, shared_k);
  stage_rows<config.threads, config.tile_kv, shape.head_dim_v, shape.v_vector, Tiles::second_stride>(
      rows.v(), first_k, sequence.seq_kv, shared_v);

  SimtGradient<Tiles, shape.head_dim> dk;
  SimtGradient<Tiles, shape.head_dim_v> dv;
  const int group = attention.heads / attention.kv_heads;
  for (int head = block.kv_head * group; head < (block.kv_head + 1) * group; ++head) {
    const Pairs<shape, Modification> pairs(attention, sequence, block.batch, head);
    const typename DroppedOf<shape>::Pairs dropped(&params.dropout, block.batch, head);
    const RowStatistics statistics = statistics_of<shape>(params, sequence, block.batch, head);
    const auto* const q =
        head_of<shape>(static_cast<const Element*>(attention.q), attention.q_strides, sequence.q_start, block.batch, head);
    const auto* const dout =
        head_of<shape>(static_cast<const Element*>(params.dout), params.dout_strides, sequence.q_start, block.batch, head);
    const KeyRange seen = queries_of<shape>(pairs.visibility(), first_k, first_k + config.tile_kv - 1);
    for (int first_q = seen.begin / config.tile_q * config.tile_q; first_q < seen.end; first_q += config.tile_q) {
      const KeyTilesOf<shape, config.tile_q, config.tile_kv> tiles(attention, pairs.visibility(), block.batch, head, first_q,
                                                                   first_q + config.tile_q - 1);
      if (!any_unmasked<config.tile_q>(tiles, block.tile)) continue;
      const auto stage_queries = [&] {
        stage_rows<config.threads, config.tile_q, shape.head_dim, shape.q_vector, Tiles::streamed_stride>(
            StridedRows<Element>{q, attention.q_strides.seq}, first_q, sequence.seq_q, streamed);
      };
      sync_block();
      stage_queries();
      stage_statistics<config.tile_q, config.threads>(statistics, first_q, sequence.seq_q, lse, delta);
      sync_block();
      float scores[Tiles::rows][Tiles::columns], gradients[Tiles::rows][Tiles::columns];
      multiply_rows<Tiles, shape.head_dim, Tiles::first_stride>(shared_k, streamed, scores);
      sync_block();
      stage_rows<config.threads, config.tile_q, shape.head_dim_v, backward.dout_vector, Tiles::streamed_stride>(
          StridedRows<Element>{dout, params.dout_strides.seq}, first_q, sequence.seq_q, streamed);
      sync_block();
      multiply_rows<Tiles, shape.head_dim_v, Tiles::second_stride>(shared_v, streamed, gradients);

      const bool kept = tiles.all_unmasked(block.tile);
      const bool inside =
          pairs.visibility().of_all(first_q, first_q + config.tile_q - 1).holds(first_k, first_k + config.tile_kv - 1);
#pragma unroll
      for (int i = 0; i < Tiles::rows; ++i)
#pragma unroll
        for (int j = 0; j < Tiles::columns; ++j) {
          const int key = first_k + Tiles::thread_row() + i * Tiles::down;
          const int row = Tiles::thread_column() + j * Tiles::across;
          const bool counts = pairs.counts(first_q + row, key, inside, kept);
          Pair pair = {0.0f, 0.0f};
          if (counts) pair = pairs(scores[i][j], first_q + row, key, lse[row]);
          scores[i][j] = pair.probability;
          if constexpr (shape.dropout) {
            const bool drops = counts && dropped.drops(first_q + row, key);
            if (drops) scores[i][j] = 0.0f;
            gradients[i][j] = drops ? 0.0f : multiply(gradients[i][j], kept_factor);
          }
          gradients[i][j] = counts ? gradient_of(pair, gradients[i][j], delta[row]) : 0.0f;
        }
      store_weights<Tiles>(scores, weights);
      sync_block();
      dv.template accumulate<config.tile_q>(weights, streamed);
      sync_block();
      store_weights<Tiles>(gradients, weights);
      stage_queries();
      sync_block();
      dk.template accumulate<config.tile_q>(weights, streamed);
    }
  }
  dk.template write<backward.dk_vector, backward.accumulate>(block.at(static_cast<Element*>(params.dk), params.dk_strides),
                                                             params.dk_strides.seq, first_k, sequence.seq_kv,
                                                             attention.scale);
  dv.template write<backward.dv_vector, backward.accumulate>(block.at(static_cast<Element*>(params.dv), params.dv_strides),
                                                             params.dv_strides.seq, first_k, sequence.seq_kv, kept_factor);
}

template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const SimtBackwardConfig& config>
__device__ __forceinline__ void attention_backward_queries_simt(const AttentionBackwardParams& params) {
  using Tiles = SimtQueriesTiles<shape, config>;
  const AttentionParams& attention = params.attention;
  const float kept_factor = DroppedOf<shape>::Pairs::factor_of(&params.dropout);
  auto* const shared = reinterpret_cast<float*>(dynamic_shared());
  float* const shared_q = shared + Tiles::first_at;
  float* const shared_dout = shared + Tiles::second_at;
  float* const streamed = shared + Tiles::streamed_at;
  float* const weights = shared + Tiles::weights_at;
  float* const lse = shared + Tiles::lse_at;
  float* const delta = shared + Tiles::delta_at;

  const BlockOfQueries<shape, config.tile_q> block(attention);
  if (block.is_empty()) {
    if (backward.dslopes && block.tile >= 0 && thread_index() == 0)
      *slope_part(params, block.batch, block.head, block.tile) = 0.0f;
    return;
  }
  const Sequence& sequence = block.sequence;
  const int first_q = block.first_q, last_q = block.last_q;
  const auto rows = block.template key_values<Element>(attention);
  const Pairs<shape, Modification> pairs(attention, sequence, block.batch, block.head);
  const typename DroppedOf<shape>::Pairs dropped(&params.dropout, block.batch, block.head);
  stage_rows<config.threads, config.tile_q, shape.head_dim, shape.q_vector, Tiles::first_stride>(
      block.template q<Element>(attention), first_q, sequence.seq_q, shared_q);
  stage_rows<config.threads, config.tile_q, shape.head_dim_v, backward.dout_vector, Tiles::second_stride>(
      rows_of<shape>(static_cast<const Element*>(params.dout), params.dout_strides, sequence.q_start, block.batch,
                     block.head),
      first_q, sequence.seq_q, shared_dout);
  stage_statistics<config.tile_q, config.threads>(statistics_of<shape>(params, sequence, block.batch, block.head), first_q,
                                                  sequence.seq_q, lse, delta);

  const KeyRange whole = pairs.visibility().of_all(first_q, first_q + config.tile_q - 1);
  const KeyTilesOf<shape, config.tile_q, config.tile_kv> tiles(attention, pairs.visibility(), block.batch, block.head,
                                                               first_q, last_q);
  SimtGradient<Tiles, shape.head_dim> dq;
  float slope_gradient = 0.0f;
  for (int tile = tiles.last(); tile >= tiles.begin(); tile = tiles.after(tile)) {
    const int first_k = tile * config.tile_kv;
    const auto stage_keys = [&] {
      stage_rows<config.threads, config.tile_kv, shape.head_dim, shape.k_vector, Tiles::streamed_stride>(
          rows.k(), first_k, sequence.seq_kv, streamed);
    };
    sync_block();
    stage_keys();
    sync_block();
    float scores[Tiles::rows][Tiles::columns], gradients[Tiles::rows][Tiles::columns];
    multiply_rows<Tiles, shape.head_dim, Tiles::first_stride>(shared_q, streamed, scores);
    sync_block();
    stage_rows<config.threads, config.tile_kv, shape.head_dim_v, shape.v_vector, Tiles::streamed_stride>(
        rows.v(), first_k, sequence.seq_kv, streamed);
    sync_block();
    multiply_rows<Tiles, shape.head_dim_v, Tiles::second_stride>(shared_dout, streamed, gradients);

    const bool inside = whole.holds(first_k, first_k + config.tile_kv - 1), kept = tiles.all_unmasked(tile);
#pragma unroll
    for (int i = 0; i < Tiles::rows; ++i)
#pragma unroll
      for (int j = 0; j < Tiles::columns; ++j) {
        const int row = Tiles::thread_row() + i * Tiles::down, query = first_q + row;
        const int key = first_k + Tiles::thread_column() + j * Tiles::across;
        if (!pairs.counts(query, key, inside, kept)) {
          gradients[i][j] = 0.0f;
          continue;
        }
        const Pair pair = pairs(scores[i][j], query, key, lse[row]);
        if constexpr (shape.dropout)
          gradients[i][j] = dropped.drops(query, key) ? 0.0f : multiply(gradients[i][j], kept_factor);
        if constexpr (backward.dslopes)
          slope_gradient = fused_multiply_add(-score_gradient_of(pair, gradients[i][j], delta[row]),
                                              pairs.distance(query, key), slope_gradient);
        gradients[i][j] = gradient_of(pair, gradients[i][j], delta[row]);
      }
    store_weights<Tiles>(gradients, weights);
    sync_block();
    stage_keys();
    sync_block();
    dq.template accumulate<config.tile_kv>(weights, streamed);
  }
  dq.template write<backward.dq_vector, backward.accumulate>(
      head_of<shape>(static_cast<Element*>(params.dq), params.dq_strides, sequence.q_start, block.batch, block.head),
      params.dq_strides.seq, first_q, sequence.seq_q, attention.scale);
  if constexpr (backward.dslopes) {
    const float sum = sum_of_block<config.threads>(slope_gradient);
    if (thread_index() == 0) *slope_part(params, block.batch, block.head, block.tile) = sum;
  }
}

}  // namespace tunesmith
