// Attention forward on the tensor cores of sm_80 and later (mma.sync), f16 and bf16. Each block processes one Q tile and all
// K/V tiles that it sees; each of its warps owns 16 or 32 queries:
//
//   S = Q K^T in registers; softmax; the rounded S is the A operand of O += P V without leaving the registers.
//
// Q, K and V are copied asynchronously to swizzled shared memory. Rows beyond the end of a sequence are zeros, so that they
// cannot poison a sum. With one stage, the copy of V overlaps Q K^T and the copy of the next K the rest of the tile; with
// more stages, the copies of later tiles overlap a whole tile. Threads load and store unaligned rows.
//
// K/V tiles run from last to first, so partial tiles of a causal mask come first. O is rescaled only when the running
// maximum has grown by more than 2^8.
//
// Reference: FlashAttention-2 (arXiv:2307.08691).
#pragma once

#include "attention/dropout.cuh"
#include "attention/unaligned.cuh"

namespace tunesmith {

struct MmaConfig {
  int warps;
  int tile_q;           ///< queries per block: 16 or 32 per warp
  int tile_kv;          ///< keys per tile, a multiple of 16
  int stages;           ///< stages of K and of V
  bool q_in_registers;  ///< Q stays in registers; else it is loaded from shared memory for every K/V tile
};

template <const AttentionShape& shape, const MmaConfig& config>
struct MmaTiles {
  static constexpr int threads = 32 * config.warps;
  static constexpr int blocks = config.tile_q / (16 * config.warps);  // blocks of 16 queries per warp

  static constexpr int q_bytes = config.tile_q * shape.head_dim * 2;
  static constexpr int k_bytes = config.tile_kv * key_row_bytes<shape>(shape.head_dim);
  static constexpr int v_bytes = config.tile_kv * key_row_bytes<shape>(shape.head_dim_v), stage_bytes = k_bytes + v_bytes;
  // If Q stays in registers, it is staged where the first K/V copies do not write; later copies reuse that memory.
  static constexpr int stages_at = config.q_in_registers ? 0 : q_bytes;
  static constexpr int q_at = config.q_in_registers ? (config.stages == 1 ? k_bytes : (config.stages - 1) * stage_bytes) : 0;
  // The staged output overwrites all other tiles.
  static constexpr bool staged_output = shape.o_vector >= 8;
  static constexpr int o_bytes = staged_output ? config.tile_q * shape.head_dim_v * 2 : 0;
  static constexpr int inputs_end = stages_at + config.stages * stage_bytes, q_end = q_at + q_bytes;
  static constexpr int used_bytes = inputs_end > q_end ? inputs_end : q_end;
  static constexpr int smem_bytes = used_bytes > o_bytes ? used_bytes : o_bytes;
};

/// The queries of a warp.
template <typename Element, const AttentionShape& shape, typename Modification, const MmaConfig& config>
struct MmaWarp : ProductsOf<Element, shape, MmaTiles<shape, config>::blocks, config.tile_kv> {
  using Tiles = MmaTiles<shape, config>;
  using Rule = Scores<shape, Modification>;
  using Block = BlockOfQueries<shape, config.tile_q>;
  using KeyTiles = KeyTilesOf<shape, config.tile_q, config.tile_kv>;
  static constexpr int keys = config.tile_kv, blocks = Tiles::blocks;
  using Products = ProductsOf<Element, shape, blocks, keys>;
  using Weight = typename Products::Weight;
  using Products::output;
  using Products::scores;

  const Rule& rule;
  const KeyTiles& tiles;       ///< K/V tiles of the block
  const int lane, first_q;     ///< first_q: first of 16 * blocks queries
  const KeyRange seen, whole;  ///< keys that any, or all, of the queries see
  typename Products::template Queries<config.q_in_registers> queries;
  QuadSoftmax<Weight, shape, Modification, keys> softmax[blocks];

  /// `query`: this warp's first query; `q_at`: offset of its queries in shared memory.
  __device__ __forceinline__ MmaWarp(const Rule& scores_rule, const KeyTiles& key_tiles_of_block, int query, int warp_lane,
                                     const unsigned char* shared, int q_at)
      : Products(warp_lane),
        rule(scores_rule),
        tiles(key_tiles_of_block),
        lane(warp_lane),
        first_q(query),
        seen(rule.visibility().of_any(first_q, first_q + 16 * blocks - 1)),
        whole(rule.visibility().of_all(first_q, first_q + 16 * blocks - 1)),
        queries(shared, q_at, warp_lane) {
#pragma unroll
    for (int block = 0; block < blocks; ++block) softmax[block].reset();
  }

  /// True if the warps of a block may have different rows of the block mask. mask_row() is this warp's, counted from the
  /// block's.
  static constexpr bool rows_apart = mask_tile % config.tile_q != 0;
  __device__ __forceinline__ int mask_row() const {
    return first_q / mask_tile - first_q / config.tile_q * config.tile_q / mask_tile;
  }

  /// Computes the dot products with the keys `tile_at` bytes from `shared`.
  __device__ __forceinline__ void compute_scores(const ScalesOf<shape>& scales, const unsigned char* shared, int tile_at) {
    Products::multiply_keys(queries, shared, tile_at);
    if constexpr (shape.scaled && !Rule::scales_keys) Products::scale_scores(scales.k);
    if constexpr (shape.rows_scaled) Products::template scale_columns<shape.head_dim>(shared + tile_at);
  }
  /// Replaces scores by weights and rescales the output.
  __device__ __forceinline__ void weigh(int index) {
    const int first_k = index * keys;
    Rescale rescale[blocks];
    if (whole.holds(first_k, first_k + keys - 1) && all_unmasked(index))
      exponentiate<true>(first_k, rescale);
    else
      exponentiate<false>(first_k, rescale);
#pragma unroll
    for (int block = 0; block < blocks; ++block) rescale_rows(output[block], rescale[block]);
  }
  template <bool all_count>
  __device__ __forceinline__ void exponentiate(int first_k, Rescale (&rescale)[blocks]) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
      softmax[block].template exponentiate<all_count, all_count>(scores[block], rule, first_q + 16 * block + lane / 4,
                                                                 first_k, lane, rescale[block]);
  }

  /// Clears the weights that are dropped, which the sums contain nevertheless.
  template <typename Dropped>
  __device__ __forceinline__ void drop(const Dropped& dropped, int index) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
      dropped.template over_accumulators<keys / 2>(first_q + 16 * block + lane / 4, index * keys + lane % 4 * 2,
                                                   [&](int i, bool drops) {
                                                     if (drops) scores[block][i] = 0.0f;
                                                   });
  }

  /// Returns whether the tile has unmasked pairs.
  __device__ __forceinline__ bool meets(int index) const {
    if constexpr (shape.bounded_left || shape.bounded_right)
      if (index * keys >= seen.end || index * keys + keys <= seen.begin) return false;
    return !rows_apart || tiles.any_unmasked(mask_row(), index);
  }
  __device__ __forceinline__ bool all_unmasked(int index) const {
    return rows_apart ? tiles.all_unmasked(mask_row(), index) : tiles.all_unmasked(index);
  }

  /// Writes outputs, `kept` times the weighted sums, and lse. `staged`: this warp's rows in shared memory.
  __device__ __forceinline__ void finish(const AttentionParams& params, const Block& of, const ScalesOf<shape>& scales,
                                         unsigned char* staged, float kept) {
    Element* const o = of.template o<Element>(params);
    constexpr int chunks = shape.head_dim_v / 8, row_bytes = 2 * shape.head_dim_v;
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float factor = rule.factor(), sum = reduce_lanes<4>(softmax[block].sum[r], Sum());
        FinalScale end = end_of_quad<Weight, shape>(params, of.head, factor, softmax[block].largest[r], sum);
        if constexpr (shape.dropout) end.scale = multiply(end.scale, kept);
        if constexpr (shape.scaled) end.scale = multiply(end.scale, scales.v);
        const int row = 16 * block + 8 * r + lane / 4, query = first_q + row;
        const bool there = query < of.sequence.seq_q;
        if (lane % 4 == 0 && there && params.lse != nullptr)
          lse_of<shape>(params, of.sequence, of.batch, of.head)[query] = end.lse;
#pragma unroll
        for (int n = 0; n < Products::groups; ++n) {
          float values[Products::columns];
          Products::output_of(block, r, n, end.scale, values);
          if constexpr (Tiles::staged_output) {
            Products::stage(staged, row, n, lane, values);
          } else if (there) {
            store_part<shape.o_vector>(o + query * params.o_strides.seq + Products::column_of(n, lane), values);
          }
        }
      }
    }
    if constexpr (Tiles::staged_output) {
      sync_warp();
#pragma unroll 4
      for (int i = lane; i < 16 * blocks * chunks; i += 32) {
        const int row = i / chunks, chunk = i % chunks;
        if (first_q + row < of.sequence.seq_q)
          store<16, StoreHint::plain>(o + (first_q + row) * params.o_strides.seq + chunk * 8,
                                      *reinterpret_cast<const Bits<16>*>(staged + swizzled<row_bytes>(row, chunk)));
      }
    }
  }
};

template <typename Element, const AttentionShape& shape, typename Modification, const MmaConfig& config>
__device__ __forceinline__ void attention_mma(const AttentionParams& params, const AttentionDropout* dropout = nullptr) {
  using Tiles = MmaTiles<shape, config>;
  constexpr int keys = config.tile_kv, stages = config.stages, threads = Tiles::threads, warp_q = 16 * Tiles::blocks;
  unsigned char* const shared = dynamic_shared();

  const BlockOfQueries<shape, config.tile_q> block(params);
  if (block.is_empty()) return;
  const Sequence& sequence = block.sequence;
  const auto rows = block.template key_values<Element>(params);
  const ScalesOf<shape> scales(params, sequence, block.batch, block.kv_head);
  const auto copy_keys = [&](int index, int stage) {
    const int place = Tiles::stages_at + stage * Tiles::stage_bytes;
    copy_rows<typename AttentionFeatures<shape>::Chunks, threads, keys, shape.head_dim, shape.k_vector>(
        rows.k(), index * keys, sequence.seq_kv, shared, place, thread_index());
    if constexpr (shape.rows_scaled) scales.template copy_k<threads, keys>(index * keys, shared + place, thread_index());
  };
  const auto copy_values = [&](int index, int stage) {
    const int place = Tiles::stages_at + stage * Tiles::stage_bytes + Tiles::k_bytes;
    copy_rows<typename AttentionFeatures<shape>::Chunks, threads, keys, shape.head_dim_v, shape.v_vector>(
        rows.v(), index * keys, sequence.seq_kv, shared, place, thread_index());
    if constexpr (shape.rows_scaled) scales.template copy_v<threads, keys>(index * keys, shared + place, thread_index());
  };

  const Scores<shape, Modification> rule(params, sequence, block.batch, block.head);
  const typename DroppedOf<shape>::Pairs dropped(dropout, block.batch, block.head);
  const KeyTilesOf<shape, config.tile_q, keys> tiles(params, rule.visibility(), block.batch, block.head, block.first_q,
                                                     block.last_q);
  const int warp = warp_index();
  MmaWarp<Element, shape, Modification, config> mine(rule, tiles, block.first_q + warp * warp_q, lane_index(), shared,
                                                     Tiles::q_at + warp * warp_q * 2 * shape.head_dim);
  // The tiles that are in flight or in use, in order; no copies are issued after the last one.
  constexpr int ahead = stages == 1 ? 1 : stages - 1;
  int coming[ahead];
  coming[0] = tiles.last();
  if (coming[0] >= tiles.begin()) {
    copy_rows<typename AttentionFeatures<shape>::Chunks, threads, config.tile_q, shape.head_dim, shape.q_vector>(
        block.template q<Element>(params), block.first_q, sequence.seq_q, shared, Tiles::q_at, thread_index());
    async_copy_commit();
    // Waits count groups of copies: one for Q, then one for every tile or half tile, even if none is left.
#pragma unroll
    for (int stage = 0; stage < ahead; ++stage) {
      if (stage > 0) coming[stage] = tiles.after(coming[stage - 1]);
      if (coming[stage] >= tiles.begin()) {
        copy_keys(coming[stage], stage);
        if constexpr (stages > 1) copy_values(coming[stage], stage);
      }
      async_copy_commit();
    }
    if constexpr (config.q_in_registers) {
      async_copy_wait<ahead>();
      sync_block();
      mine.queries.hold();
    }
    int stage = 0, next_stage = ahead;
    while (coming[0] >= tiles.begin()) {
      const int index = coming[0], next = tiles.after(coming[ahead - 1]);
      const int k_at = Tiles::stages_at + stage * Tiles::stage_bytes;
      const bool meets = mine.meets(index);
      async_copy_wait<ahead - 1>();
      sync_block();
      if constexpr (stages == 1) {
        copy_values(index, 0);
        async_copy_commit();
        if (meets) mine.compute_scores(scales, shared, k_at);
        async_copy_wait<0>();
        sync_block();
        if (next >= tiles.begin()) copy_keys(next, 0);
        async_copy_commit();
      } else {
        if (next >= tiles.begin()) {
          copy_keys(next, next_stage);
          copy_values(next, next_stage);
        }
        async_copy_commit();
        next_stage = next_stage + 1 == stages ? 0 : next_stage + 1;
        stage = stage + 1 == stages ? 0 : stage + 1;
        if (meets) mine.compute_scores(scales, shared, k_at);
      }
      if (meets) {
        mine.weigh(index);
        if constexpr (shape.dropout) mine.drop(dropped, index);
        if constexpr (shape.rows_scaled) mine.template scale_columns<shape.head_dim_v>(shared + k_at + Tiles::k_bytes);
        mine.multiply_values(shared, k_at + Tiles::k_bytes);
      }
#pragma unroll
      for (int i = 1; i < ahead; ++i) coming[i - 1] = coming[i];
      coming[ahead - 1] = next;
    }
  }
  // No barrier is needed if a warp's staged output fits in the space of its own queries.
  if constexpr (Tiles::staged_output && (config.q_in_registers || shape.head_dim_v > shape.head_dim)) sync_block();
  constexpr int staged_row =
      2 * (config.q_in_registers || shape.head_dim_v > shape.head_dim ? shape.head_dim_v : shape.head_dim);
  mine.finish(params, block, scales, shared + warp * warp_q * staged_row, DroppedOf<shape>::Pairs::factor_of(dropout));
}

}  // namespace tunesmith
