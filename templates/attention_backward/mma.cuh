// Attention backward on the tensor cores of sm_80 and later (mma.sync), f16 and bf16. Two kernels, both deterministic and
// without atomics, in the arrangement of attention_backward/simt.cuh:
//
//   keys     a warp keeps 16 or 32 keys: S^T = K Q^T, dP^T = V dO^T, dV += P^T dO, dK += dS^T Q
//   queries  a warp keeps 16 or 32 queries: S = Q K^T, dP = dO V^T, dQ += dS K
//
// The accumulators S and dP, rounded to 16 bits, have the layout of the A operand of the products that follow, so they never
// leave the registers and warps exchange nothing. The rows that a block keeps and those that it streams are copied
// asynchronously to swizzled shared memory; rows beyond the end of a sequence are zeros. With two stages the copies of the
// next tile overlap the products of this one.
//
// Wide heads: dK and dV together exceed the registers of a warp. With `split`, two warps share keys, and each computes one
// of the two gradients: five products instead of four.
//
// Reference: FlashAttention-2 (arXiv:2307.08691), with dQ in a kernel of its own.
#pragma once

#include "attention/dropout.cuh"
#include "attention/unaligned.cuh"
#include "attention_backward/aux_mma.cuh"
#include "attention_backward/heads.cuh"
#include "attention_backward/mma_warp.cuh"
#include "attention_backward/pairs.cuh"
#include "attention_backward/prepare.cuh"
#include "attention_backward/score_gradient.cuh"

namespace tunesmith {

/// The Q tiles that a block of keys processes, one head after the other.
template <const AttentionShape& shape, typename Modification, int tile_q, int tile_kv>
struct QueryTiles {
  using KeyTiles = KeyTilesOf<shape, tile_q, tile_kv>;

  const AttentionParams& params;
  const BlockOfKeys<shape, tile_kv>& block;
  const KeyRange seen;  ///< queries; the same for all heads
  const int last_head;
  int head, first_q;

  __device__ __forceinline__ QueryTiles(const AttentionParams& all, const Visibility<shape>& visibility,
                                        const BlockOfKeys<shape, tile_kv>& of)
      : params(all),
        block(of),
        seen(queries_of<shape>(visibility, of.first_k, of.first_k + tile_kv - 1)),
        last_head((of.kv_head + 1) * (all.heads / all.kv_heads) - 1),
        head(of.kv_head * (all.heads / all.kv_heads)),
        first_q(seen.begin / tile_q * tile_q) {
    settle();
  }
  __device__ __forceinline__ bool at_end() const { return head > last_head; }
  __device__ __forceinline__ void advance() {
    first_q += tile_q;
    settle();
  }
  __device__ __forceinline__ KeyTiles key_tiles() const {
    return KeyTiles(params, Visibility<shape>(params, block.sequence), block.batch, head, first_q, first_q + tile_q - 1);
  }

 private:
  /// Goes on to a tile in which some pair may be unmasked.
  __device__ __forceinline__ void settle() {
    while (head <= last_head) {
      if (first_q >= seen.end) {
        first_q = seen.begin / tile_q * tile_q;
        ++head;
        if (seen.empty()) head = last_head + 1;
      } else if (!any_unmasked<tile_q>(key_tiles(), block.tile)) {
        first_q += tile_q;
      } else {
        return;
      }
    }
  }
};

template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const MmaBackwardConfig& config>
__device__ __forceinline__ void attention_backward_keys_mma(const AttentionBackwardParams& params) {
  using Tiles = MmaBackwardTiles<shape, config>;
  using Chunks = typename AttentionFeatures<shape>::Chunks;
  using Queries = QueryTiles<shape, Modification, config.streamed, config.kept>;
  constexpr int threads = Tiles::threads, tile_q = config.streamed, tile_kv = config.kept, blocks = Tiles::blocks;
  const AttentionParams& attention = params.attention;
  const float kept_factor = DroppedOf<shape>::Pairs::factor_of(&params.dropout);
  unsigned char* const shared = dynamic_shared();

  const BlockOfKeys<shape, tile_kv> block(params);
  if (block.is_empty()) return;
  const Sequence& sequence = block.sequence;
  const int first_k = block.first_k;
  MmaBackwardWarp<Element, shape, config> warp(shared);
  const int key = first_k + warp.first_row(), warp_first = first_k + warp.owner * Tiles::warp_rows;
  // With split, even warps compute dV and odd ones dK, both in `dk`.
  const bool has_dv = !config.split || warp_index() % 2 == 0, has_dk = !config.split || warp_index() % 2 == 1;
  constexpr int dk_room = (config.split && shape.head_dim_v > shape.head_dim ? shape.head_dim_v : shape.head_dim) / 2;
  float dk[blocks][dk_room], dv[blocks][config.split ? 1 : shape.head_dim_v / 2];
  clear(dk);
  clear(dv);

  const auto statistics = [&](int stage) {
    return reinterpret_cast<float*>(shared + Tiles::statistics_at + stage * Tiles::statistics_bytes);
  };
  const auto copy_queries = [&](const Queries& of, int stage) {
    const int at = Tiles::stages_at + stage * Tiles::stage_bytes;
    copy_rows<Chunks, threads, tile_q, shape.head_dim, shape.q_vector>(
        rows_of<shape>(static_cast<const Element*>(attention.q), attention.q_strides, sequence.q_start, block.batch,
                       of.head),
        of.first_q, sequence.seq_q, shared, at, thread_index());
    copy_rows<Chunks, threads, tile_q, shape.head_dim_v, backward.dout_vector>(
        rows_of<shape>(static_cast<const Element*>(params.dout), params.dout_strides, sequence.q_start, block.batch,
                       of.head),
        of.first_q, sequence.seq_q, shared, at + Tiles::streamed_second_at, thread_index());
    stage_statistics<tile_q, threads>(statistics_of<shape>(params, sequence, block.batch, of.head), of.first_q,
                                      sequence.seq_q, statistics(stage), statistics(stage) + tile_q);
  };

  Queries queries(attention, Visibility<shape>(attention, sequence), block);
  if (!queries.at_end()) {
    const KeyValuesOf<Element, shape> rows(attention, sequence, block.batch, block.kv_head);
    copy_rows<Chunks, threads, tile_kv, shape.head_dim, shape.k_vector>(rows.k(), first_k, sequence.seq_kv, shared, 0,
                                                                        thread_index());
    copy_rows<Chunks, threads, tile_kv, shape.head_dim_v, shape.v_vector>(rows.v(), first_k, sequence.seq_kv, shared,
                                                                          Tiles::second_at, thread_index());
    copy_queries(queries, 0);
    async_copy_commit();
  }
  for (int stage = 0; !queries.at_end(); stage = config.stages == 1 ? 0 : 1 - stage) {
    const int head = queries.head, first_q = queries.first_q, at = Tiles::stages_at + stage * Tiles::stage_bytes;
    const bool kept = queries.key_tiles().all_unmasked(block.tile);
    queries.advance();
    async_copy_wait<0>();
    sync_block();
    if (config.stages == 2) {
      if (!queries.at_end()) copy_queries(queries, 1 - stage);
      async_copy_commit();
    }

    const Pairs<shape, Modification> pairs(attention, sequence, block.batch, head);
    const typename DroppedOf<shape>::Pairs dropped(&params.dropout, block.batch, head);
    // Otherwise nothing of the tile is unmasked for this warp.
    if (meets(pairs.visibility().of_any(first_q, first_q + tile_q - 1), warp_first, warp_first + Tiles::warp_rows - 1)) {
      warp.multiply_first(at);
      if (has_dk) warp.multiply_second(at);
      const float* const lse = statistics(stage);
      const float* const delta = lse + tile_q;
      const bool inside =
          pairs.visibility().of_all(first_q, first_q + tile_q - 1).holds(warp_first, warp_first + Tiles::warp_rows - 1);
      const auto weigh = [&](bool all) {
#pragma unroll
        for (int block_of_rows = 0; block_of_rows < blocks; ++block_of_rows) {
          const typename DroppedOf<shape>::template BitsOf<true, tile_q / 2> drops(dropped, key + 16 * block_of_rows,
                                                                                   first_q + warp.first_column());
#pragma unroll
          for (int i = 0; i < tile_q / 2; ++i) {
            const int column = warp.first_column() + i / 4 * 8 + i % 2, query = first_q + column;
            const int row_key = key + 16 * block_of_rows + i / 2 % 2 * 8;
            float &score = warp.scores[block_of_rows][i], &gradient = warp.gradients[block_of_rows][i];
            if (all || pairs.counts(query, row_key, inside, kept)) {
              const Pair pair = pairs(score, query, row_key, lse[column]);
              score = pair.probability;
              if constexpr (shape.dropout) {
                if (drops[i]) score = 0.0f;
                gradient = drops[i] ? 0.0f : multiply(gradient, kept_factor);
              }
              if (has_dk) gradient = gradient_of(pair, gradient, delta[column]);
            } else {
              score = gradient = 0.0f;
            }
          }
        }
      };
      if (inside && kept)
        weigh(true);
      else
        weigh(false);
      if constexpr (config.split) {
        if (has_dv)
          warp.accumulate_second(at, dk);
        else
          warp.accumulate_first(at, dk);
      } else {
        warp.accumulate_second(at, dv);
        warp.accumulate_first(at, dk);
      }
    }
    if (config.stages == 1) {
      sync_block();
      if (!queries.at_end()) copy_queries(queries, 0);
      async_copy_commit();
    }
  }
  const auto write_dk = [&](const decltype(dk)& sums) {
    write_rows<shape.head_dim, backward.dk_vector, backward.accumulate>(
        sums, block.at(static_cast<Element*>(params.dk), params.dk_strides), params.dk_strides.seq, warp_first,
        sequence.seq_kv, warp.lane, attention.scale);
  };
  const auto write_dv = [&](const typename If<config.split, decltype(dk), decltype(dv)>::type& sums) {
    write_rows<shape.head_dim_v, backward.dv_vector, backward.accumulate>(
        sums, block.at(static_cast<Element*>(params.dv), params.dv_strides), params.dv_strides.seq, warp_first,
        sequence.seq_kv, warp.lane, kept_factor);
  };
  if constexpr (config.split) {
    if (has_dv)
      write_dv(dk);
    else
      write_dk(dk);
  } else {
    write_dv(dv);
    write_dk(dk);
  }
}

template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const MmaBackwardConfig& config>
__device__ __forceinline__ void attention_backward_queries_mma(const AttentionBackwardParams& params) {
  using Tiles = MmaBackwardTiles<shape, config>;
  using Chunks = typename AttentionFeatures<shape>::Chunks;
  constexpr int threads = Tiles::threads, tile_q = config.kept, tile_kv = config.streamed, blocks = Tiles::blocks;
  const AttentionParams& attention = params.attention;
  const float kept_factor = DroppedOf<shape>::Pairs::factor_of(&params.dropout);
  unsigned char* const shared = dynamic_shared();

  const BlockOfQueries<shape, tile_q> block(attention);
  if (block.is_empty()) {
    if (backward.dslopes && block.tile >= 0 && thread_index() == 0)
      *slope_part(params, block.batch, block.head, block.tile) = 0.0f;
    return;
  }
  const Sequence& sequence = block.sequence;
  const auto rows = block.template key_values<Element>(attention);
  const Pairs<shape, Modification> pairs(attention, sequence, block.batch, block.head);
  const typename DroppedOf<shape>::Pairs dropped(&params.dropout, block.batch, block.head);
  MmaBackwardWarp<Element, shape, config> warp(shared);
  const int query = block.first_q + warp.first_row(), warp_first = block.first_q + warp.owner * Tiles::warp_rows;
  float lse[blocks][2], delta[blocks][2], dq[blocks][shape.head_dim / 2];
  clear(dq);
  const RowStatistics statistics = statistics_of<shape>(params, sequence, block.batch, block.head);
#pragma unroll
  for (int i = 0; i < blocks; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = query + 16 * i + 8 * r;
      const bool there = row < sequence.seq_q;
      lse[i][r] = there ? statistics.lse[row] : -Maximum::identity();
      delta[i][r] = there ? statistics.delta[row] : 0.0f;
    }

  const auto copy_keys = [&](int tile, int stage) {
    const int at = Tiles::stages_at + stage * Tiles::stage_bytes;
    copy_rows<Chunks, threads, tile_kv, shape.head_dim, shape.k_vector>(rows.k(), tile * tile_kv, sequence.seq_kv, shared,
                                                                        at, thread_index());
    copy_rows<Chunks, threads, tile_kv, shape.head_dim_v, shape.v_vector>(rows.v(), tile * tile_kv, sequence.seq_kv, shared,
                                                                          at + Tiles::streamed_second_at, thread_index());
  };
  const KeyTilesOf<shape, tile_q, tile_kv> tiles(attention, pairs.visibility(), block.batch, block.head, block.first_q,
                                                 block.last_q);
  const KeyRange seen = pairs.visibility().of_any(warp_first, warp_first + Tiles::warp_rows - 1);
  const KeyRange whole = pairs.visibility().of_all(warp_first, warp_first + Tiles::warp_rows - 1);
  float slope_gradient = 0.0f;
  int tile = tiles.last();
  if (tile >= tiles.begin()) {
    copy_rows<Chunks, threads, tile_q, shape.head_dim, shape.q_vector>(block.template q<Element>(attention), block.first_q,
                                                                       sequence.seq_q, shared, 0, thread_index());
    copy_rows<Chunks, threads, tile_q, shape.head_dim_v, backward.dout_vector>(
        rows_of<shape>(static_cast<const Element*>(params.dout), params.dout_strides, sequence.q_start, block.batch,
                       block.head),
        block.first_q, sequence.seq_q, shared, Tiles::second_at, thread_index());
    copy_keys(tile, 0);
    async_copy_commit();
  }
  for (int stage = 0; tile >= tiles.begin(); stage = config.stages == 1 ? 0 : 1 - stage) {
    const int first_k = tile * tile_kv, at = Tiles::stages_at + stage * Tiles::stage_bytes;
    const bool kept = tiles.all_unmasked(tile);
    tile = tiles.after(tile);
    async_copy_wait<0>();
    sync_block();
    if (config.stages == 2) {
      if (tile >= tiles.begin()) copy_keys(tile, 1 - stage);
      async_copy_commit();
    }
    // Otherwise nothing of the tile is unmasked for this warp.
    if (meets(seen, first_k, first_k + tile_kv - 1)) {
      warp.multiply_first(at);
      warp.multiply_second(at);
      const bool inside = whole.holds(first_k, first_k + tile_kv - 1);
      const auto weigh = [&](bool all) {
#pragma unroll
        for (int block_of_rows = 0; block_of_rows < blocks; ++block_of_rows) {
          const typename DroppedOf<shape>::template BitsOf<false, tile_kv / 2> drops(dropped, query + 16 * block_of_rows,
                                                                                     first_k + warp.first_column());
#pragma unroll
          for (int i = 0; i < tile_kv / 2; ++i) {
            const int r = i / 2 % 2, key = first_k + warp.first_column() + i / 4 * 8 + i % 2;
            const int row = query + 16 * block_of_rows + 8 * r;
            float& gradient = warp.gradients[block_of_rows][i];
            if (all || pairs.counts(row, key, inside, kept)) {
              const Pair pair = pairs(warp.scores[block_of_rows][i], row, key, lse[block_of_rows][r]);
              if constexpr (shape.dropout) gradient = drops[i] ? 0.0f : multiply(gradient, kept_factor);
              if constexpr (backward.dslopes)
                slope_gradient = fused_multiply_add(-score_gradient_of(pair, gradient, delta[block_of_rows][r]),
                                                    pairs.distance(row, key), slope_gradient);
              gradient = gradient_of(pair, gradient, delta[block_of_rows][r]);
            } else {
              gradient = 0.0f;
            }
          }
        }
      };
      if (inside && kept)
        weigh(true);
      else
        weigh(false);
      warp.accumulate_first(at, dq);
    }
    if (config.stages == 1) {
      sync_block();
      if (tile >= tiles.begin()) copy_keys(tile, 0);
      async_copy_commit();
    }
  }
  write_rows<shape.head_dim, backward.dq_vector, backward.accumulate>(
      dq, head_of<shape>(static_cast<Element*>(params.dq), params.dq_strides, sequence.q_start, block.batch, block.head),
      params.dq_strides.seq, warp_first, sequence.seq_q, warp.lane, attention.scale);
  if constexpr (backward.dslopes) {
    const float sum = sum_of_block<threads>(slope_gradient);
    if (thread_index() == 0) *slope_part(params, block.batch, block.head, block.tile) = sum;
  }
}

}  // namespace tunesmith
