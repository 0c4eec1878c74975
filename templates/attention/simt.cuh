// Attention forward without tensor cores, for float32 and any architecture. Each block processes one Q tile and all K/V
// tiles that it sees; 16 x (threads / 16) threads compute register tiles of the products from float32 copies in shared
// memory.
//
// Reference: FlashAttention (arXiv:2205.14135).
#pragma once

#include "attention/alibi.cuh"
#include "attention/dropout.cuh"
#include "attention/masked_tiles.cuh"
#include "attention/sinks.cuh"
#include "attention/soft_cap.cuh"
#include "attention/staged_rows.cuh"

namespace tunesmith {

struct SimtConfig {
  int threads;  ///< a multiple of 32: 16 across the keys of a tile, threads / 16 across its queries
  int tile_q;   ///< queries per block, a multiple of threads / 16
  int tile_kv;  ///< keys per tile, a multiple of 16
};

template <const AttentionShape& shape, const SimtConfig& config>
struct SimtTiles {
  static constexpr int across = 16, down = config.threads / across;
  static constexpr int queries = config.tile_q / down, keys = config.tile_kv / across;  // per thread
  static constexpr int columns = 4;                                                     // of an output row, contiguous
  static constexpr int groups = (shape.head_dim_v / columns + across - 1) / across;     // groups of such columns per thread

  // Padding of four floats: neighbouring rows start four banks apart.
  static constexpr int pad = 4;
  static constexpr int q_stride = shape.head_dim + pad, p_stride = config.tile_kv + pad;
  static constexpr int kv_stride = (shape.head_dim > shape.head_dim_v ? shape.head_dim : shape.head_dim_v) + pad;
  static constexpr int q_at = 0, kv_at = q_at + config.tile_q * q_stride, p_at = kv_at + config.tile_kv * kv_stride;
  static constexpr int smem_bytes = (p_at + config.tile_q * p_stride) * 4;
};

template <typename Element, const AttentionShape& shape, typename Modification, const SimtConfig& config>
__device__ __forceinline__ void attention_simt(const AttentionParams& params, const AttentionDropout* dropout = nullptr) {
  using Tiles = SimtTiles<shape, config>;
  constexpr int queries = Tiles::queries, keys = Tiles::keys, groups = Tiles::groups, columns = Tiles::columns;
  auto* const shared = reinterpret_cast<float*>(dynamic_shared());
  float* const shared_q = shared + Tiles::q_at;
  float* const shared_kv = shared + Tiles::kv_at;
  float* const shared_p = shared + Tiles::p_at;

  const BlockOfQueries<shape, config.tile_q> block(params);
  if (block.is_empty()) return;
  const Sequence& sequence = block.sequence;
  const int first_q = block.first_q, last_q = block.last_q;
  const auto rows = block.template key_values<Element>(params);
  const ScalesOf<shape> scales(params, sequence, block.batch, block.kv_head);

  const Scores<shape, Modification> scores(params, sequence, block.batch, block.head);
  const typename DroppedOf<shape>::Pairs dropped(dropout, block.batch, block.head);
  const KeyRange whole = scores.visibility().of_all(first_q, last_q);
  const KeyTilesOf<shape, config.tile_q, config.tile_kv> tiles(params, scores.visibility(), block.batch, block.head, first_q,
                                                               last_q);
  // Weights are multiplied by a power of two that is less than 1 / seq_kv, and outputs by its reciprocal, which is exact:
  // the weighted sum of values that are near the largest number stays finite.
  const uint32 keys_bits = bits_of(static_cast<float>(sequence.seq_kv)) & 0x7f800000u;
  const float most = float_of(keys_bits + (keys_bits == 0 ? 0x3f800000u : 1u << 23));
  const float least = divide(1.0f, most);
  const int across = thread_index() % Tiles::across, down = thread_index() / Tiles::across;

  float largest[queries], sum[queries], output[queries][groups][columns];
#pragma unroll
  for (int i = 0; i < queries; ++i) {
    largest[i] = Maximum::identity();
    sum[i] = 0.0f;
#pragma unroll
    for (int g = 0; g < groups; ++g)
#pragma unroll
      for (int c = 0; c < columns; ++c) output[i][g][c] = 0.0f;
  }
  stage_rows<config.threads, config.tile_q, shape.head_dim, shape.q_vector, Tiles::q_stride>(
      block.template q<Element>(params), first_q, sequence.seq_q, shared_q);

  for (int tile = tiles.last(); tile >= tiles.begin(); tile = tiles.after(tile)) {
    const int first_k = tile * config.tile_kv;
    sync_block();
    stage_rows<config.threads, config.tile_kv, shape.head_dim, shape.k_vector, Tiles::kv_stride>(
        rows.k(), first_k, sequence.seq_kv, shared_kv, scales.template k_factor<decltype(scores)::scales_keys>());
    sync_block();

    float score[queries][keys];
#pragma unroll
    for (int i = 0; i < queries; ++i)
#pragma unroll
      for (int j = 0; j < keys; ++j) score[i][j] = 0.0f;
    for (int d = 0; d < shape.head_dim; d += 4) {
      Four a[queries], b[keys];
#pragma unroll
      for (int i = 0; i < queries; ++i) a[i] = four_at(shared_q + (down + i * Tiles::down) * Tiles::q_stride + d);
#pragma unroll
      for (int j = 0; j < keys; ++j) b[j] = four_at(shared_kv + (across + j * Tiles::across) * Tiles::kv_stride + d);
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int i = 0; i < queries; ++i)
#pragma unroll
          for (int j = 0; j < keys; ++j) score[i][j] = fused_multiply_add(a[i].values[e], b[j].values[e], score[i][j]);
    }

    const bool inside = whole.holds(first_k, first_k + config.tile_kv - 1), kept = tiles.all_unmasked(tile);
#pragma unroll
    for (int i = 0; i < queries; ++i) {
      const int query = first_q + down + i * Tiles::down;
      float top = largest[i];
#pragma unroll
      for (int j = 0; j < keys; ++j) {
        const int key = first_k + across + j * Tiles::across;
        const bool counts = scores.counts(query, key, inside, kept);
        score[i][j] = counts ? multiply(scores(score[i][j], query, first_k + across, j * Tiles::across), scores.factor())
                             : Maximum::identity();
        top = maximum(top, score[i][j]);
      }
      top = reduce_lanes<Tiles::across>(top, Maximum());
      const float origin = subtracted(top), rescale = exp2_approx(subtract(largest[i], origin));
      largest[i] = top;
      sum[i] = multiply(sum[i], rescale);
#pragma unroll
      for (int j = 0; j < keys; ++j) {
        float weight = exp2_approx(subtract(score[i][j], origin));
        sum[i] = add(sum[i], weight);
        if constexpr (shape.dropout)
          if (dropped.drops(query, first_k + across + j * Tiles::across)) weight = 0.0f;
        shared_p[(down + i * Tiles::down) * Tiles::p_stride + across + j * Tiles::across] = multiply(weight, least);
      }
#pragma unroll
      for (int g = 0; g < groups; ++g)
#pragma unroll
        for (int c = 0; c < columns; ++c) output[i][g][c] = multiply(output[i][g][c], rescale);
    }

    sync_block();
    stage_rows<config.threads, config.tile_kv, shape.head_dim_v, shape.v_vector, Tiles::kv_stride>(
        rows.v(), first_k, sequence.seq_kv, shared_kv, scales.v_factor());
    sync_block();
    for (int j = 0; j < config.tile_kv; j += 4) {
      Four weights[queries];
#pragma unroll
      for (int i = 0; i < queries; ++i) weights[i] = four_at(shared_p + (down + i * Tiles::down) * Tiles::p_stride + j);
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int g = 0; g < groups; ++g) {
          const int column = (across + g * Tiles::across) * columns;
          if (column >= shape.head_dim_v) continue;
          const Four value = four_at(shared_kv + (j + e) * Tiles::kv_stride + column);
#pragma unroll
          for (int i = 0; i < queries; ++i)
#pragma unroll
            for (int c = 0; c < columns; ++c)
              output[i][g][c] = fused_multiply_add(weights[i].values[e], value.values[c], output[i][g][c]);
        }
    }
  }

  auto* const o = block.template o<Element>(params);
#pragma unroll
  for (int i = 0; i < queries; ++i) {
    const int query = first_q + down + i * Tiles::down;
    FinalScale end = end_of<shape>(params, block.head, largest[i], reduce_lanes<Tiles::across>(sum[i], Sum()));
    end.scale = multiply(end.scale, most);
    if constexpr (shape.dropout) end.scale = multiply(end.scale, DroppedOf<shape>::Pairs::factor_of(dropout));
    if constexpr (shape.scaled) end.scale = multiply(end.scale, scales.v);
    if (query > last_q) continue;
    if (across == 0 && params.lse != nullptr) lse_of<shape>(params, sequence, block.batch, block.head)[query] = end.lse;
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      const int column = (across + g * Tiles::across) * columns;
      if (column >= shape.head_dim_v) continue;
      float values[columns];
#pragma unroll
      for (int c = 0; c < columns; ++c) values[c] = multiply(output[i][g][c], end.scale);
      store_part<shape.o_vector>(o + query * params.o_strides.seq + column, values);
    }
  }
}

}  // namespace tunesmith
