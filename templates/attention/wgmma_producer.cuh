// The producer of attention/wgmma.cuh: one thread that fills stage after stage through TMA.
#pragma once

#include "attention/wgmma_tiles.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

template <typename Element, const AttentionShape& shape, const WgmmaConfig& config>
struct Producer {
  using Tiles = WgmmaTiles<shape, config>;

  const WgmmaParams& params;
  unsigned char* const memory;
  const uint32 shared;
  const Barriers<config.q_stages> barriers;
  Stage<config.q_stages> q_stage;
  Stage<config.stages> k_stage, v_stage;

  __device__ __forceinline__ Producer(const WgmmaParams& kernel_params, unsigned char* shared_memory)
      : params(kernel_params),
        memory(shared_memory),
        shared(shared_address(shared_memory)),
        barriers{shared + Tiles::barriers_at} {}

  __device__ __forceinline__ int tiles() const {
    return params.attention.heads * params.attention.q_tiles * (shape.varlen ? 1 : params.attention.batch);
  }
  __device__ __forceinline__ TileOfQueries tile(int number) const {
    if (number >= tiles()) return {0, 0, -1, 0, 0, 0, 0};
    if constexpr (shape.varlen) return packed_tile_of<shape, Tiles::tile_q>(params.attention, number);
    return tile_of(params.attention, number);
  }
  __device__ __forceinline__ uint32* counter() const { return reinterpret_cast<uint32*>(params.attention.workspace); }
  /// Requests the number of the next tile early: tiles of different lengths are balanced by a counter.
  __device__ __forceinline__ uint32 ask() const { return atomic_add(counter(), 1u); }
  __device__ __forceinline__ int next(uint32 answer) const {
    return static_cast<int>(grid_blocks()) + static_cast<int>(answer);
  }
  /// Loads 64 columns from `row` of the head on. Packed sequences have one batch entry.
  __device__ __forceinline__ void load(int to, const TensorMap& map, uint32 barrier, L2Hint hint, int slab, int row,
                                       int head, int batch) const {
    load_tile(shared + to, map, barrier, hint, slab * Tiles::slab_columns, row, head, shape.varlen ? 0 : batch);
  }

  __device__ __forceinline__ void load_queries(const TileOfQueries& tile, uint32 come) {
    if constexpr (adds_bias<shape>) {
      using Bias = BiasTiles<config.tile_kv, config.q_stages>;
      const float slope = AttentionFeatures<shape>::Bias::template slope_of<shape>(params.attention, tile.head);
      Bias::template write_slope<Element>(memory + Tiles::bias_at, q_stage.index, slope);
      fence_async_shared();  // precedes the arrival that publishes it to the consumers
    }
    barrier_arrive_expecting(come, Tiles::q_bytes);
#pragma unroll
    for (int slab = 0; slab < Tiles::qk_slabs; ++slab)
      load(q_stage.index * Tiles::q_bytes + slab * Tiles::q_slab, params.q, come, L2Hint::evict_first, slab,
           tile.q_start + tile.tile * Tiles::tile_q, tile.head, tile.batch);
    q_stage.next();
  }
  /// Loads K or V of a tile into a stage.
  template <int slabs>
  __device__ __forceinline__ void load_rows(int to, const TensorMap& map, uint32 come, const TileOfQueries& tile,
                                            int kv_head, int index) const {
    barrier_arrive_expecting(come, slabs * Tiles::kv_slab);
#pragma unroll
    for (int slab = 0; slab < slabs; ++slab)
      load(to + slab * Tiles::kv_slab, map, come, L2Hint::evict_last, slab, tile.kv_start + index * config.tile_kv, kv_head,
           tile.batch);
  }
  template <typename KeyTiles>
  __device__ __forceinline__ void load_keys(const TileOfQueries& tile, int kv_head, const KeyTiles& tiles, int index,
                                            bool more) {
    const int stage = k_stage.index;
    barrier_wait(barriers.k_empty(stage), k_stage.parity ^ 1);
    if constexpr (shape.mask_mod)
      reinterpret_cast<int*>(memory + Tiles::sent_at)[stage] = sent_keys<config.consumers>(tiles, index, more).word;
    load_rows<Tiles::qk_slabs>(Tiles::k_at + stage * Tiles::k_bytes, params.k, barriers.k_full(stage), tile, kv_head, index);
    k_stage.next();
  }
  __device__ __forceinline__ void load_values(const TileOfQueries& tile, int kv_head, int index) {
    const int stage = v_stage.index;
    barrier_wait(barriers.v_empty(stage), v_stage.parity ^ 1);
    load_rows<Tiles::v_slabs>(Tiles::v_at + stage * Tiles::v_bytes, params.v, barriers.v_full(stage), tile, kv_head, index);
    v_stage.next();
  }

  /// Loads the queries of tile `number`, or of the next existing tile, and sends the tile to the consumers. Advances
  /// `number`.
  __device__ __forceinline__ TileOfQueries send_queries(int& number) {
    TileOfQueries next_tile = tile(number);
    if constexpr (shape.varlen) {
      while (next_tile.tile < 0 && number < tiles()) {
        number = next(ask());
        next_tile = tile(number);
      }
    }
    const uint32 come = barriers.q_full(q_stage.index);
    barrier_wait(barriers.q_empty(q_stage.index), q_stage.parity ^ 1);
    reinterpret_cast<TileOfQueries*>(memory + Tiles::tiles_at)[q_stage.index] = next_tile;
    if (next_tile.tile < 0)
      barrier_arrive(come);
    else
      load_queries(next_tile, come);
    return next_tile;
  }

  /// Runs the producer; called by one thread.
  __device__ __forceinline__ void run() {
    const int group = params.attention.heads / params.attention.kv_heads;
    int number = static_cast<int>(block_index());
    TileOfQueries current = send_queries(number);
    while (current.tile >= 0) {
      const uint32 answer = ask();  // needed after this tile's copies have been issued
      const int kv_head = current.head / group;
      const Visibility<shape> visibility(params.attention, sequence_of<shape>(params.attention, current));
      const SomeTiles<shape, Tiles::tile_q, config.tile_kv> keys(params.attention, visibility, current);
      int index = keys.last(), following = keys.after(index);
      load_keys(current, kv_head, keys, index, following >= keys.begin());
      while (following >= keys.begin()) {
        const int behind = keys.after(following);
        load_keys(current, kv_head, keys, following, behind >= keys.begin());
        load_values(current, kv_head, index);
        index = following;
        following = behind;
      }
      number = next(answer);
      // The last V waits for a free stage; if the next Q has a free stage, load it first.
      if constexpr (config.q_stages > 1) {
        const TileOfQueries following = send_queries(number);
        load_values(current, kv_head, index);
        current = following;
      } else {
        load_values(current, kv_head, index);
        current = send_queries(number);
      }
    }
    // The last block to finish resets the counters.
    if (atomic_add(counter() + 1, 1u) == static_cast<uint32>(grid_blocks()) - 1) counter()[0] = counter()[1] = 0;
  }
};

}  // namespace tunesmith

#endif
