// The producer of attention/wgmma.cuh: one thread that fills stage after stage through TMA, or a warp if a K/V tile has
// several boxes of rows. Its first lane does everything else.
#pragma once

#include "attention/wgmma_pages.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

template <typename Element, const AttentionShape& shape, const WgmmaConfig& config>
struct Producer {
  using Tiles = WgmmaTiles<shape, config>;
  using Boxes = typename AttentionFeatures<shape>::template KeyBoxes<config.tile_kv>;
  static constexpr int threads = Boxes::count == 1 ? 1 : 32;

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

  __device__ __forceinline__ bool leads() const { return threads == 1 || lane_index() == 0; }
  /// Waits with all lanes, so that none still waits when the ring wraps around.
  __device__ __forceinline__ void wait_for(uint32 barrier, uint32 parity) const {
    barrier_wait(barrier, parity);
    if constexpr (threads > 1) sync_warp();
  }
  __device__ __forceinline__ int tiles() const {
    return params.attention.heads * params.attention.q_tiles * (shape.varlen ? 1 : params.attention.batch);
  }
  __device__ __forceinline__ TileOfQueries tile(int number) const {
    if (number >= tiles()) return {0, 0, -1, 0, 0, 0, 0};
    if constexpr (shape.varlen) return packed_tile_of<shape, Tiles::tile_q>(params.attention, number);
    TileOfQueries tile = tile_of(params.attention, number);
    if constexpr (shape.kv_lengths)
      tile.seq_q = params.attention.seq_q, tile.seq_kv = sequence_of<shape>(params.attention, tile.batch).seq_kv;
    return tile;
  }
  __device__ __forceinline__ uint32* counter() const { return reinterpret_cast<uint32*>(params.attention.workspace); }
  /// Requests the number of the next tile early: tiles of different lengths are balanced by a counter.
  __device__ __forceinline__ uint32 ask() const { return leads() ? atomic_add(counter(), 1u) : 0; }
  __device__ __forceinline__ int next(uint32 answer) const {
    if constexpr (threads > 1) answer = shuffle(answer, 0);
    return static_cast<int>(grid_blocks()) + static_cast<int>(answer);
  }
  /// Loads 64 columns from `row` of a head on.
  __device__ __forceinline__ void load(int to, const TensorMap& map, uint32 barrier, L2Hint hint, int slab, int row,
                                       int head, int entry) const {
    load_tile(shared + to, map, barrier, hint, slab * Tiles::slab_columns, row, head, entry);
  }

  __device__ __forceinline__ void load_queries(const TileOfQueries& tile, uint32 come) {
    if (leads()) {
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
             tile.q_start + tile.tile * Tiles::tile_q, tile.head, shape.varlen ? 0 : tile.batch);
    }
    q_stage.next();
  }
  /// Loads K or V of a tile into a stage.
  template <int slabs>
  __device__ __forceinline__ void load_rows(int to, const TensorMap& map, uint32 come, const TileOfQueries& tile,
                                            int kv_head, const typename Boxes::Place& place) const {
    if (leads()) barrier_arrive_expecting(come, slabs * Tiles::kv_slab);
    if constexpr (threads > 1) {
      sync_warp();
      if (lane_index() >= Boxes::count) return;
      to += lane_index() * Boxes::rows * Tiles::row_bytes;
    }
#pragma unroll
    for (int slab = 0; slab < slabs; ++slab)
      load(to + slab * Tiles::kv_slab, map, come, L2Hint::evict_last, slab, Boxes::row(tile, place), kv_head,
           Boxes::entry(tile, place));
  }
  template <typename KeyTiles>
  __device__ __forceinline__ void load_keys(const TileOfQueries& tile, int kv_head, const KeyTiles& tiles, int index,
                                            const typename Boxes::Place& place, bool more) {
    const int stage = k_stage.index;
    wait_for(barriers.k_empty(stage), k_stage.parity ^ 1);
    if constexpr (shape.mask_mod)
      if (leads())
        reinterpret_cast<int*>(memory + Tiles::sent_at)[stage] = sent_keys<config.consumers>(tiles, index, more).word;
    load_rows<Tiles::qk_slabs>(Tiles::k_at + stage * Tiles::k_bytes, params.k, barriers.k_full(stage), tile, kv_head, place);
    k_stage.next();
  }
  __device__ __forceinline__ void load_values(const TileOfQueries& tile, int kv_head, const typename Boxes::Place& place) {
    const int stage = v_stage.index;
    wait_for(barriers.v_empty(stage), v_stage.parity ^ 1);
    load_rows<Tiles::v_slabs>(Tiles::v_at + stage * Tiles::v_bytes, params.v, barriers.v_full(stage), tile, kv_head, place);
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
    wait_for(barriers.q_empty(q_stage.index), q_stage.parity ^ 1);
    if (leads()) reinterpret_cast<TileOfQueries*>(memory + Tiles::tiles_at)[q_stage.index] = next_tile;
    if (next_tile.tile < 0) {
      if (leads()) barrier_arrive(come);
    } else {
      load_queries(next_tile, come);
    }
    return next_tile;
  }

  /// Runs the producer; called by `threads` threads.
  __device__ __forceinline__ void run() {
    const int group = params.attention.heads / params.attention.kv_heads;
    int number = static_cast<int>(block_index());
    TileOfQueries current = send_queries(number);
    while (current.tile >= 0) {
      const uint32 answer = ask();  // needed after this tile's copies have been issued
      const int kv_head = current.head / group;
      const Visibility<shape> visibility(params.attention, sequence_of<shape>(params.attention, current));
      const SomeTiles<shape, Tiles::tile_q, config.tile_kv> keys(params.attention, visibility, current);
      const int index = keys.last();
      int following = keys.after(index);
      // Places are looked up before the wait for a free stage, which hides the latency.
      typename Boxes::Place place = Boxes::find(params.attention, current, index);
      load_keys(current, kv_head, keys, index, place, following >= keys.begin());
      while (following >= keys.begin()) {
        const int behind = keys.after(following);
        const typename Boxes::Place next_place = Boxes::find(params.attention, current, following);
        load_keys(current, kv_head, keys, following, next_place, behind >= keys.begin());
        load_values(current, kv_head, place);
        place = next_place;
        following = behind;
      }
      number = next(answer);
      // The last V waits for a free stage; if the next Q has a free stage, load it first.
      if constexpr (config.q_stages > 1) {
        const TileOfQueries following = send_queries(number);
        load_values(current, kv_head, place);
        current = following;
      } else {
        load_values(current, kv_head, place);
        current = send_queries(number);
      }
    }
    // The last block to finish resets the counters.
    if (leads() && atomic_add(counter() + 1, 1u) == static_cast<uint32>(grid_blocks()) - 1) counter()[0] = counter()[1] = 0;
  }
};

}  // namespace tunesmith

#endif
