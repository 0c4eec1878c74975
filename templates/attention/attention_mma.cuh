// Attention on the tensor cores of sm_80 and later, f16 and bf16, one warp at a time. A block takes a tile of queries
// through all keys that they may see; each of its warps has 16 or 32 of the queries:
//
//   S = Q K^T in registers; softmax; S, rounded, is the A of O += P V without leaving the registers.
//
// Q, K and V come into shared memory by copies that run beside the computation, rows as long as they are, swizzled; what
// lies beyond the end of a sequence is zeros there, so that neither garbage nor another sequence reaches a sum. With one
// stage the copies of V run behind Q K^T and those of the next K behind the rest; with more, K and V of the tiles to come
// run behind a whole tile. Rows that do not start at multiples of 16 bytes are loaded and stored by threads.
//
// Keys go from the last tile to the first, so that tiles which a causal mask crosses come first. A row's accumulators are
// rescaled only when its largest score has grown by more than 2^8 since the last time.
//
// After Dao, "FlashAttention-2", 2023 (arXiv:2307.08691).
#pragma once

#include "attention/attention_fragments.cuh"

namespace tunesmith {

struct MmaConfig {
  int warps;
  int tile_q;           ///< queries of a block: 16 or 32 for each warp
  int tile_kv;          ///< keys of a tile, a multiple of 16
  int stages;           ///< tiles of K and V that are on their way or in use
  bool q_in_registers;  ///< and then not in shared memory; or fetched from there for every tile of keys
  float rescale_above;  ///< growth of the largest score, as an exponent of 2, from which accumulators are rescaled
};

template <const AttentionShape& shape, const MmaConfig& config>
struct MmaTiles {
  static constexpr int threads = 32 * config.warps;
  static constexpr int blocks = config.tile_q / (16 * config.warps);  // of 16 queries, of a warp

  static constexpr int q_bytes = config.tile_q * shape.head_dim * 2, k_bytes = config.tile_kv * shape.head_dim * 2;
  static constexpr int v_bytes = config.tile_kv * shape.head_dim_v * 2, stage_bytes = k_bytes + v_bytes;
  // A Q that goes on to registers lies where the first tiles of keys do not come.
  static constexpr int stages_at = config.q_in_registers ? 0 : q_bytes;
  static constexpr int q_at = config.q_in_registers ? (config.stages == 1 ? k_bytes : (config.stages - 1) * stage_bytes) : 0;
  // The output takes the place of everything.
  static constexpr bool staged_output = shape.o_vector >= 8;
  static constexpr int o_bytes = staged_output ? config.tile_q * shape.head_dim_v * 2 : 0;
  static constexpr int inputs_end = stages_at + config.stages * stage_bytes, q_end = q_at + q_bytes;
  static constexpr int used_bytes = inputs_end > q_end ? inputs_end : q_end;
  static constexpr int smem_bytes = used_bytes > o_bytes ? used_bytes : o_bytes;
};

/// The queries of a warp.
template <typename Element, const AttentionShape& shape, typename Modification, const MmaConfig& config>
struct MmaWarp : WarpProducts<Element, shape, MmaTiles<shape, config>::blocks, config.tile_kv> {
  using Tiles = MmaTiles<shape, config>;
  using Rule = Scores<shape, Modification>;
  static constexpr int keys = config.tile_kv, blocks = Tiles::blocks;
  using Products = WarpProducts<Element, shape, blocks, keys>;
  using Products::output;
  using Products::scores;
  static constexpr int held_steps = config.q_in_registers ? Products::qk_steps : 1;

  const Rule& rule;
  const int lane, first_q;            ///< of 16 * blocks queries
  const KeyRange seen, whole;         ///< keys that some of them see, that all of them see
  const unsigned char* const q_tile;  ///< this warp's rows
  const MatrixRows<shape.head_dim> q_rows;

  uint32 q[held_steps][blocks][4];
  QuadSoftmax<Element, shape, Modification, keys> softmax[blocks];

  __device__ __forceinline__ MmaWarp(const Rule& scores_rule, int query, int warp_lane, const unsigned char* shared_q)
      : Products(warp_lane),
        rule(scores_rule),
        lane(warp_lane),
        first_q(query),
        seen(rule.visibility().of_any(first_q, first_q + 16 * blocks - 1)),
        whole(rule.visibility().of_all(first_q, first_q + 16 * blocks - 1)),
        q_tile(shared_q),
        q_rows(lane % 16, lane / 16) {
#pragma unroll
    for (int block = 0; block < blocks; ++block) softmax[block].reset();
  }

  __device__ __forceinline__ void fetch_queries(int step, uint32 (&a)[blocks][4]) const {
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      load_matrix_x4(a[block], q_tile + q_rows.at(block, step));
      if (q_rows.is_half(step)) a[block][2] = a[block][3] = 0;
    }
  }
  __device__ __forceinline__ void hold_queries() {
#pragma unroll
    for (int step = 0; step < held_steps; ++step) fetch_queries(step, q[step]);
  }

  /// S = Q K^T.
  __device__ __forceinline__ void multiply_keys(const unsigned char* k_tile) {
    Products::multiply_keys(k_tile, [this](int step) -> const typename Products::Fragments& {
      if constexpr (!config.q_in_registers) fetch_queries(step, q[0]);
      return q[config.q_in_registers ? step : 0];
    });
  }

  /// Scores become weights, and the output ready for what they weigh.
  __device__ __forceinline__ void weigh(int first_k) {
    float rescale[blocks][2];
    if (whole.holds(first_k, first_k + keys - 1))
      exponentiate<true>(first_k, rescale);
    else
      exponentiate<false>(first_k, rescale);
#pragma unroll
    for (int block = 0; block < blocks; ++block) rescale_rows(output[block], rescale[block]);
  }
  template <bool all_count>
  __device__ __forceinline__ void exponentiate(int first_k, float (&rescale)[blocks][2]) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
      softmax[block].template exponentiate<all_count>(scores[block], rule, first_q + 16 * block + lane / 4, first_k, lane,
                                                      config.rescale_above, rescale[block]);
  }

  /// Whether any of the queries sees a key of the tile.
  __device__ __forceinline__ bool meets(int first_k) const {
    if constexpr (!shape.bounded_left && !shape.bounded_right) return true;
    return first_k < seen.end && first_k + keys > seen.begin;
  }

  /// Outputs and lse. `o`: the head's query 0; `staged`: this warp's rows in shared memory, which nobody else uses.
  __device__ __forceinline__ void finish(const AttentionParams& params, const Sequence& sequence, int batch, int head,
                                         Element* o, unsigned char* staged) {
    constexpr int chunks = shape.head_dim_v / 8, row_bytes = 2 * shape.head_dim_v;
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const SoftmaxEnd end = softmax[block].end(params, head, rule.factor(), r);
        const int row = 16 * block + 8 * r + lane / 4, query = first_q + row;
        const bool there = query < sequence.seq_q;
        if (lane % 4 == 0 && there && params.lse != nullptr) lse_of<shape>(params, sequence, batch, head)[query] = end.lse;
#pragma unroll
        for (int n = 0; n < chunks; ++n) {
          const float values[2] = {multiply(output[block][4 * n + 2 * r], end.scale),
                                   multiply(output[block][4 * n + 2 * r + 1], end.scale)};
          if constexpr (Tiles::staged_output) {
            *reinterpret_cast<uint32*>(staged + swizzled<row_bytes>(row, n) + lane % 4 * 4) =
                pack<Element>(values[0], values[1]);
          } else if (there) {
            store_part<shape.o_vector>(o + query * params.o_strides.seq + 8 * n + lane % 4 * 2, values);
          }
        }
      }
    }
    if constexpr (Tiles::staged_output) {
      sync_warp();
#pragma unroll 4
      for (int i = lane; i < 16 * blocks * chunks; i += 32) {
        const int row = i / chunks, chunk = i % chunks;
        if (first_q + row < sequence.seq_q)
          store<16, StoreHint::plain>(o + (first_q + row) * params.o_strides.seq + chunk * 8,
                                      *reinterpret_cast<const Bits<16>*>(staged + swizzled<row_bytes>(row, chunk)));
      }
    }
  }
};

template <typename Element, const AttentionShape& shape, typename Modification, const MmaConfig& config>
__device__ __forceinline__ void attention_mma(const AttentionParams& params) {
  using Tiles = MmaTiles<shape, config>;
  constexpr int keys = config.tile_kv, stages = config.stages, threads = Tiles::threads, warp_q = 16 * Tiles::blocks;
  unsigned char* const shared = dynamic_shared();
  unsigned char* const shared_kv = shared + Tiles::stages_at;

  // Neighbouring blocks are heads of one tile: what a causal mask leaves of a tile is then the same for all that run at
  // once. The last queries come first, which see most keys.
  const int64 work = block_index();
  const int head = static_cast<int>(work % params.heads);
  const int batch = static_cast<int>(work / params.heads % params.batch);
  const auto tile = params.q_tiles - 1 - static_cast<int>(work / params.heads / params.batch);
  const int kv_head = head / (params.heads / params.kv_heads);
  const Sequence sequence = sequence_of<shape>(params, batch);
  const int first_q = tile * config.tile_q;
  if (tile < 0 || first_q >= sequence.seq_q) return;
  const int last_q = (first_q + config.tile_q < sequence.seq_q ? first_q + config.tile_q : sequence.seq_q) - 1;

  const auto* const q =
      head_of<shape>(static_cast<const Element*>(params.q), params.q_strides, sequence.q_start, batch, head);
  const auto* const k =
      head_of<shape>(static_cast<const Element*>(params.k), params.k_strides, sequence.kv_start, batch, kv_head);
  const auto* const v =
      head_of<shape>(static_cast<const Element*>(params.v), params.v_strides, sequence.kv_start, batch, kv_head);
  const auto copy_keys = [&](int index, int stage) {
    copy_rows<Element, threads, keys, shape.head_dim, shape.k_vector>(
        k, params.k_strides.seq, index * keys, sequence.seq_kv, shared_kv + stage * Tiles::stage_bytes, thread_index());
  };
  const auto copy_values = [&](int index, int stage) {
    copy_rows<Element, threads, keys, shape.head_dim_v, shape.v_vector>(
        v, params.v_strides.seq, index * keys, sequence.seq_kv, shared_kv + stage * Tiles::stage_bytes + Tiles::k_bytes,
        thread_index());
  };

  const Scores<shape, Modification> rule(params, sequence, batch, head);
  const KeyRange tiles = key_tiles<shape, keys>(rule.visibility(), first_q, last_q);
  const int warp = warp_index();
  MmaWarp<Element, shape, Modification, config> mine(rule, first_q + warp * warp_q, lane_index(),
                                                     shared + Tiles::q_at + warp * warp_q * 2 * shape.head_dim);
  if (!tiles.empty()) {
    copy_rows<Element, threads, config.tile_q, shape.head_dim, shape.q_vector>(
        q, params.q_strides.seq, first_q, sequence.seq_q, shared + Tiles::q_at, thread_index());
    async_copy_commit();
    // What is waited for is counted in groups: of Q, then one for every tile or half a tile, be there any left or not.
    constexpr int ahead = stages == 1 ? 1 : stages - 1;
#pragma unroll
    for (int stage = 0; stage < ahead; ++stage) {
      const int index = tiles.end - 1 - stage;
      if (index >= tiles.begin) {
        copy_keys(index, stage);
        if constexpr (stages > 1) copy_values(index, stage);
      }
      async_copy_commit();
    }
    if constexpr (config.q_in_registers) {
      async_copy_wait<ahead>();
      sync_block();
      mine.hold_queries();
    }
    int stage = 0, next_stage = ahead;
    for (int index = tiles.end - 1; index >= tiles.begin; --index) {
      const unsigned char* const k_tile = shared_kv + stage * Tiles::stage_bytes;
      const bool meets = mine.meets(index * keys);
      async_copy_wait<ahead - 1>();
      sync_block();
      if constexpr (stages == 1) {
        copy_values(index, 0);
        async_copy_commit();
        if (meets) mine.multiply_keys(k_tile);
        async_copy_wait<0>();
        sync_block();
        if (index > tiles.begin) copy_keys(index - 1, 0);
        async_copy_commit();
      } else {
        if (index - ahead >= tiles.begin) {
          copy_keys(index - ahead, next_stage);
          copy_values(index - ahead, next_stage);
        }
        async_copy_commit();
        next_stage = next_stage + 1 == stages ? 0 : next_stage + 1;
        stage = stage + 1 == stages ? 0 : stage + 1;
        if (meets) mine.multiply_keys(k_tile);
      }
      if (meets) {
        mine.weigh(index * keys);
        mine.multiply_values(k_tile + Tiles::k_bytes);
      }
    }
  }
  // Where a warp's outputs fit over its own queries nobody else is in the way.
  if constexpr (Tiles::staged_output && (config.q_in_registers || shape.head_dim_v > shape.head_dim)) sync_block();
  constexpr int staged_row =
      2 * (config.q_in_registers || shape.head_dim_v > shape.head_dim ? shape.head_dim_v : shape.head_dim);
  mine.finish(params, sequence, batch, head,
              head_of<shape>(static_cast<Element*>(params.o), params.o_strides, sequence.q_start, batch, head),
              shared + warp * warp_q * staged_row);
}

}  // namespace tunesmith
