// Gradients of the arrays that score_mod reads (attention_backward/aux_gradient.cuh), on mma.sync: a warp keeps 16 queries
// and computes S = Q K^T and dP = dO V^T for the K/V tiles that they see.
#pragma once

#include "attention/dropout.cuh"
#include "attention_backward/aux_gradient.cuh"
#include "attention_backward/mma_warp.cuh"

namespace tunesmith {

template <const AttentionShape& shape, const MmaBackwardConfig& config>
struct AuxMmaTiles {
  using Tile = AuxTile<config.kept, config.streamed>;
  static constexpr int tile_at = MmaBackwardTiles<shape, config>::smem_bytes, smem_bytes = tile_at + Tile::bytes;
};

template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const MmaBackwardConfig& config, AuxPass pass>
__device__ __forceinline__ void attention_backward_aux_mma(const AttentionBackwardParams& params, const AuxGradients& aux) {
  using Tiles = MmaBackwardTiles<shape, config>;
  using Tile = typename AuxMmaTiles<shape, config>::Tile;
  using Chunks = typename AttentionFeatures<shape>::Chunks;
  constexpr int threads = Tiles::threads, tile_q = config.kept, tile_kv = config.streamed, blocks = Tiles::blocks;
  static_assert(config.stages == 1 && !config.split);
  const AttentionParams& attention = params.attention;
  const float kept_factor = DroppedOf<shape>::Pairs::factor_of(&params.dropout);
  unsigned char* const shared = dynamic_shared();
  const Tile terms = {reinterpret_cast<float*>(shared + AuxMmaTiles<shape, config>::tile_at)};

  const AuxBlock<shape, tile_q> block(attention);
  if (block.is_empty()) return;
  const Sequence& sequence = block.sequence;
  const auto rows = block.template key_values<Element>(attention);
  const Pairs<shape, Modification> pairs(attention, sequence, block.batch, block.head);
  const KeyTilesOf<shape, tile_q, tile_kv> tiles(attention, pairs.visibility(), block.batch, block.head, block.first_q,
                                                 block.last_q);
  int tile = tiles.last();
  if (tile < tiles.begin()) return;  // before copies that nothing would wait for
  const typename DroppedOf<shape>::Pairs dropped(&params.dropout, block.batch, block.head);
  MmaBackwardWarp<Element, shape, config> warp(shared);
  const int query = block.first_q + warp.first_row(), warp_first = block.first_q + warp.owner * Tiles::warp_rows;
  const RowStatistics statistics = aux_statistics<shape, backward>(params, sequence, block.batch, block.head);
  float lse[blocks][2], delta[blocks][2];
#pragma unroll
  for (int i = 0; i < blocks; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = query + 16 * i + 8 * r;
      const bool there = row < sequence.seq_q;
      lse[i][r] = there ? statistics.lse[row] : -Maximum::identity();
      delta[i][r] = there ? statistics.delta[row] : 0.0f;
    }
  copy_rows<Chunks, threads, tile_q, shape.head_dim, shape.q_vector>(block.template q<Element>(attention), block.first_q,
                                                                     sequence.seq_q, shared, 0, thread_index());
  copy_rows<Chunks, threads, tile_q, shape.head_dim_v, backward.dout_vector>(
      rows_of<shape>(static_cast<const Element*>(params.dout), params.dout_strides, sequence.q_start, block.batch,
                     block.head),
      block.first_q, sequence.seq_q, shared, Tiles::second_at, thread_index());

  const KeyRange whole = pairs.visibility().of_all(warp_first, warp_first + Tiles::warp_rows - 1);
  AuxSums<pass> sums(params, aux);
  for (; tile >= tiles.begin(); tile = tiles.after(tile)) {
    const int first_k = tile * tile_kv, at = Tiles::stages_at;
    copy_rows<Chunks, threads, tile_kv, shape.head_dim, shape.k_vector>(rows.k(), first_k, sequence.seq_kv, shared, at,
                                                                        thread_index());
    copy_rows<Chunks, threads, tile_kv, shape.head_dim_v, shape.v_vector>(rows.v(), first_k, sequence.seq_kv, shared,
                                                                          at + Tiles::streamed_second_at, thread_index());
    async_copy_commit();
    async_copy_wait<0>();
    sync_block();
    warp.multiply_first(at);
    warp.multiply_second(at);
    const bool kept = tiles.all_unmasked(tile), inside = whole.holds(first_k, first_k + tile_kv - 1);
#pragma unroll
    for (int block_of_rows = 0; block_of_rows < blocks; ++block_of_rows) {
      const typename DroppedOf<shape>::template BitsOf<false, tile_kv / 2> drops(dropped, query + 16 * block_of_rows,
                                                                                 first_k + warp.first_column());
#pragma unroll
      for (int i = 0; i < tile_kv / 2; ++i) {
        const int r = i / 2 % 2, column = warp.first_column() + i / 4 * 8 + i % 2, key = first_k + column;
        const int row = query + 16 * block_of_rows + 8 * r;
        const float dot = warp.scores[block_of_rows][i];
        float gradient = warp.gradients[block_of_rows][i];
        if (pairs.counts(row, key, inside, kept)) {
          if constexpr (shape.dropout) gradient = drops[i] ? 0.0f : multiply(gradient, kept_factor);
          gradient = score_gradient_of(pairs(dot, row, key, lse[block_of_rows][r]), gradient, delta[block_of_rows][r]);
        } else {
          gradient = 0.0f;
        }
        terms.store(row - block.first_q, column, pairs.unmodified(dot), gradient);
      }
    }
    sync_block();
    terms.template include<Modification, threads>(sums, attention, aux, block.batch, block.head, block.first_q, first_k);
  }
  sums.finish();
}

}  // namespace tunesmith
