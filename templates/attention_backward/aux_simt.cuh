// Gradients of the arrays that score_mod reads (attention_backward/aux_gradient.cuh), without tensor cores: a block keeps a
// tile of Q and dO and computes S = Q K^T and dP = dO V^T for the K/V tiles that it sees.
#pragma once

#include "attention/dropout.cuh"
#include "attention/staged_rows.cuh"
#include "attention_backward/aux_gradient.cuh"
#include "attention_backward/simt_tiles.cuh"

namespace tunesmith {

template <const AttentionShape& shape, const SimtBackwardConfig& config>
struct AuxSimtTiles {
  using Tile = AuxTile<config.tile_q, config.tile_kv>;
  static constexpr int tile_at = SimtQueriesTiles<shape, config>::smem_bytes, smem_bytes = tile_at + Tile::bytes;
};

template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const SimtBackwardConfig& config, AuxPass pass>
__device__ __forceinline__ void attention_backward_aux_simt(const AttentionBackwardParams& params, const AuxGradients& aux) {
  using Tiles = SimtQueriesTiles<shape, config>;
  using Tile = typename AuxSimtTiles<shape, config>::Tile;
  const AttentionParams& attention = params.attention;
  const float kept_factor = DroppedOf<shape>::Pairs::factor_of(&params.dropout);
  auto* const shared = reinterpret_cast<float*>(dynamic_shared());
  float* const shared_q = shared + Tiles::first_at;
  float* const shared_dout = shared + Tiles::second_at;
  float* const streamed = shared + Tiles::streamed_at;
  float* const lse = shared + Tiles::lse_at;
  float* const delta = shared + Tiles::delta_at;
  const Tile terms = {shared + AuxSimtTiles<shape, config>::tile_at / 4};

  const AuxBlock<shape, config.tile_q> block(attention);
  if (block.is_empty()) return;
  const Sequence& sequence = block.sequence;
  const int first_q = block.first_q;
  const auto rows = block.template key_values<Element>(attention);
  const Pairs<shape, Modification> pairs(attention, sequence, block.batch, block.head);
  const typename DroppedOf<shape>::Pairs dropped(&params.dropout, block.batch, block.head);
  stage_rows<config.threads, config.tile_q, shape.head_dim, shape.q_vector, Tiles::first_stride>(
      block.template q<Element>(attention), first_q, sequence.seq_q, shared_q);
  stage_rows<config.threads, config.tile_q, shape.head_dim_v, backward.dout_vector, Tiles::second_stride>(
      rows_of<shape>(static_cast<const Element*>(params.dout), params.dout_strides, sequence.q_start, block.batch,
                     block.head),
      first_q, sequence.seq_q, shared_dout);
  stage_statistics<config.tile_q, config.threads>(aux_statistics<shape, backward>(params, sequence, block.batch, block.head),
                                                  first_q, sequence.seq_q, lse, delta);

  const KeyRange whole = pairs.visibility().of_all(first_q, first_q + config.tile_q - 1);
  const KeyTilesOf<shape, config.tile_q, config.tile_kv> tiles(attention, pairs.visibility(), block.batch, block.head,
                                                               first_q, block.last_q);
  AuxSums<pass> sums(params, aux);
  for (int tile = tiles.last(); tile >= tiles.begin(); tile = tiles.after(tile)) {
    const int first_k = tile * config.tile_kv;
    sync_block();
    stage_rows<config.threads, config.tile_kv, shape.head_dim, shape.k_vector, Tiles::streamed_stride>(
        rows.k(), first_k, sequence.seq_kv, streamed);
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
        const int column = Tiles::thread_column() + j * Tiles::across, key = first_k + column;
        float gradient = 0.0f;
        if (pairs.counts(query, key, inside, kept)) {
          gradient = gradients[i][j];
          if constexpr (shape.dropout) gradient = dropped.drops(query, key) ? 0.0f : multiply(gradient, kept_factor);
          gradient = score_gradient_of(pairs(scores[i][j], query, key, lse[row]), gradient, delta[row]);
        }
        terms.store(row, column, pairs.unmodified(scores[i][j]), gradient);
      }
    sync_block();
    terms.template include<Modification, config.threads>(sums, attention, aux, block.batch, block.head, first_q, first_k);
  }
  sums.finish();
}

}  // namespace tunesmith
