// The warpgroup of attention_backward/wgmma.cuh that loads tiles and computes dQ, unless a fourth one helps.
#pragma once

#include "attention_backward/wgmma_tiles.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

template <typename Element, const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct Loader {
  using Tiles = WgmmaBackwardTiles<shape, config>;
  using Ring = RingOf<shape, Tiles, Tiles::in_order>;

  /// Where this warp's part of a piece is added, and, if ordered, the state of its counters. Counters are read one step
  /// before they are needed. Pieces go from shared memory to the sums in any order, see LoaderWithAdders.
  struct Sums {
    float* to = nullptr;
    uint32 earlier = 0, seen = 0;  ///< additions that precede it, and how many of them were complete
    int added = -1;                ///< part that was added and not announced yet
  };

  const WgmmaBackwardParams& params;
  const uint32 shared;
  const BackwardBarriers<config.stages> barriers;
  const WgmmaKeys keys;
  const Sequence sequence;
  const int warp, lane;

  __device__ __forceinline__ Loader(const WgmmaBackwardParams& kernel_params, uint32 shared_memory,
                                    const WgmmaKeys& its_keys)
      : params(kernel_params),
        shared(shuffle(shared_memory, 0)),
        barriers{shared + Tiles::barriers_at},
        keys(its_keys),
        sequence(sequence_of<shape>(kernel_params.backward.attention, keys.batch)),
        warp(warp_index() & 3),
        lane(lane_index()) {}
  /// `slot`: of persistent blocks, where the number of the keys is.
  __device__ __forceinline__ Loader(const WgmmaBackwardParams& kernel_params, uint32 shared_memory, int slot = 0)
      : Loader(kernel_params, shared_memory,
               keys_of(kernel_params, block_number<config>(shared_memory + Tiles::ticket_at + 4 * slot))) {}
  static __device__ __forceinline__ WgmmaKeys keys_of(const WgmmaBackwardParams& kernel_params, int number) {
    return WgmmaKeys(kernel_params.backward, Tiles::tile_kv, number, Tiles::last_first);
  }

  /// Loads a tile of Q with lse, or of dO with delta. `more_bytes`: of other loads that the same barrier counts.
  template <int slabs>
  __device__ __forceinline__ void load_queries(const Ring& ring, int stage, int at, const TensorMap& map, int statistics_at,
                                               int64 from, uint32 come, int more_bytes) const {
    constexpr int bytes = Tiles::tile_q * 4;
    barrier_arrive_expecting(come, slabs * Tiles::q_slab + bytes + more_bytes);
    load_slabs<slabs, Tiles::tile_q, Tiles::q_box>(
        shared + at + stage * slabs * Tiles::q_slab, map, come, L2Hint::evict_last,
        map_place<shape>(params.backward.attention.seq_q, sequence.q_start, sequence.seq_q, keys.batch, ring.first_q()),
        ring.head());
    copy_bulk(shared + statistics_at + stage * bytes, workspace_floats(params.backward, from) + first_row(ring), bytes, come,
              L2Hint::evict_last);
  }
  /// Row of the tile's statistics and sums.
  __device__ __forceinline__ int64 first_row(const Ring& ring) const {
    return first_row_of<shape>(params.backward, sequence, keys.batch, ring.head()) + ring.first_q();
  }
  __device__ __forceinline__ void load_q(const Ring& ring, int stage, int more_bytes = 0) const {
    load_queries<Tiles::qk_slabs>(ring, stage, Tiles::q_at, params.q, Tiles::lse_at, params.backward.lse_at,
                                  barriers.q_full(stage), more_bytes);
  }
  __device__ __forceinline__ void load_dout(const Ring& ring, int stage, int more_bytes = 0) const {
    load_queries<Tiles::v_slabs>(ring, stage, Tiles::dout_at, params.dout, Tiles::delta_at, params.backward.delta_at,
                                 barriers.dout_full(stage), more_bytes);
  }

  /// Loads a tile of Q and dO as soon as the stage is free. One thread.
  __device__ __forceinline__ void reload(const Ring& ring, const Stage<config.stages>& stage) const {
    barrier_wait(barriers.dout_empty(stage.index), stage.parity);
    load_dout(ring, stage.index);
    barrier_wait(barriers.q_empty(stage.index), stage.parity);
    load_q(ring, stage.index);
  }

  /// Loads K, V and the first tile of Q and dO, in the order in which they are needed. One thread.
  __device__ __forceinline__ void load_keys(const Ring& ring) const {
    constexpr int k_bytes = Tiles::qk_slabs * Tiles::kv_slab, v_bytes = Tiles::v_slabs * Tiles::kv_slab;
    const uint32 k_full = Tiles::loads_early ? barriers.q_full(0) : barriers.k_full();
    const uint32 v_full = Tiles::loads_early ? barriers.dout_full(0) : barriers.v_full();
    const MapPlace place =
        map_place<shape>(params.backward.attention.seq_kv, sequence.kv_start, sequence.seq_kv, keys.batch, keys.first_k);
    if constexpr (Tiles::loads_early)
      load_q(ring, 0, k_bytes);
    else
      barrier_arrive_expecting(k_full, k_bytes);
    load_slabs<Tiles::qk_slabs, Tiles::tile_kv, Tiles::kv_box>(shared + Tiles::k_at, params.k, k_full, L2Hint::evict_first,
                                                               place, keys.kv_head);
    if constexpr (Tiles::loads_early) {
      load_dout(ring, 0, v_bytes);
    } else {
      load_q(ring, 0);
      barrier_arrive_expecting(v_full, v_bytes);
    }
    load_slabs<Tiles::v_slabs, Tiles::tile_kv, Tiles::kv_box>(shared + Tiles::v_at, params.v, v_full, L2Hint::evict_first,
                                                              place, keys.kv_head);
    if constexpr (!Tiles::loads_early) load_dout(ring, 0);
  }
  /// Loads as many tiles of Q and dO as there are stages, too. `loads`: true for one thread. With a mask_mod all threads of
  /// its warp call it.
  __device__ __forceinline__ void load_first(Ring ring, int count, bool loads) const {
    if (loads) load_keys(ring);
#pragma unroll 1
    for (int stage = 1; stage < config.stages && stage < count; ++stage) {
      ring.next();
      if (!loads) continue;
      load_q(ring, stage);
      load_dout(ring, stage);
    }
  }

  __device__ __forceinline__ Ring ring() const {
    return Ring(params.backward.attention, Visibility<shape>(params.backward.attention, sequence), keys, keys.first_k);
  }
  /// Starts the first loads. The warp that loads, before the threads of the block meet.
  __device__ __forceinline__ void begin() const {
    const bool loads = elect_one();
    if (keys.first_k < sequence.seq_kv) {  // all blocks of sequences that are not packed
      const Ring first = ring();
      if (const int count = first.count(); count > 0 && (shape.mask_mod || loads)) load_first(first, count, loads);
    }
  }
  /// Loads the other tiles of Q and dO, or all. One warp.
  __device__ __forceinline__ void load_tiles() const {
    Ring ahead = ring();
    const int count = ahead.count();
    const bool loads = elect_one();
    if (count == 0 || !(shape.mask_mod || loads)) return;
    if (!Tiles::loads_early) load_first(ahead, count, loads);
#pragma unroll
    for (int stage = 0; stage < config.stages; ++stage) ahead.next();
    Stage<config.stages> stage;
#pragma unroll 1
    for (int i = config.stages; i < count; ++i) {
      if (loads) reload(ahead, stage);
      stage.next();
      ahead.next();
    }
  }

  /// Issues dQ = dS K for a piece: 64 queries and `columns` columns.
  template <int columns>
  __device__ __forceinline__ void multiply(float (&dq)[columns / 2], int ds_at, int k_at) const {
    const MatrixDescriptor a = matrix_descriptor(Tiles::operand(shared) + ds_at, 1024);
    const MatrixDescriptor b = matrix_descriptor(Tiles::operand(shared) + k_at, 1024, Tiles::kv_slab);
    wgmma_fence(dq);
#pragma unroll
    for (int step = 0; step < Tiles::tile_kv / 16; ++step)
      wgmma<Element, Innermost::n>(dq, advance(a, step / 4 * Tiles::q_slab + step % 4 * 32), advance(b, step * 2048),
                                   step > 0);
    wgmma_commit();
  }

  __device__ __forceinline__ uint32 staged(int piece) const {
    return shared + Tiles::sums_at + (piece % Tiles::sums_stages * 4 + warp) * (Tiles::piece_bytes / 4);
  }
  /// Starts the addition of this warp's part of a piece, which is in shared memory, to the sums in global memory.
  template <int piece>
  __device__ __forceinline__ void add_staged(Sums& sums) const {
    fence_async_shared();
    sync_warp();
    if (lane == 0 && sums.to != nullptr) {
      reduce_add_bulk(sums.to, staged(piece), Tiles::columns_of(piece) * 64, L2Hint::evict_last);
      store_commit();
    }
  }
  __device__ __forceinline__ int part_of(const float* to) const {
    return static_cast<int>((to - workspace_floats(params.backward, params.backward.sums_at)) / (16 * 64));
  }
  /// The counter of complete additions to a part of the sums.
  __device__ __forceinline__ uint32* counter(int part) const {
    return workspace_words(params.backward, params.backward.counters_at) + 1 + part;
  }
  /// Lets the next block add to a part of the sums, if there is one. One thread.
  __device__ __forceinline__ void announce(int part) const {
    if (part >= 0) add_relaxed(counter(part), 1);
  }
  /// Sets where a piece is added.
  __device__ __forceinline__ void aim(Sums& sums, const Ring& ring, int rows, int slab) const {
    sums.to = sums_of<Tiles::qk_slabs>(params.backward, first_row(ring) + 64 * rows, slab, warp);
    if constexpr (config.ordered) {
      sums.earlier = ring.earlier_blocks();
      if (slab == 0) sums.seen = load_relaxed(counter(part_of(sums.to)));
    }
  }
  /// Waits until this warp may add to all pieces of a tile, which share a counter, and announces the previous tile.
  __device__ __forceinline__ void start_tile(Sums& sums) const {
    sync_warp();
    if (lane == 0) {
      fence_gpu();
      announce(sums.added);
      sums.added = part_of(sums.to);
      if (sums.seen != sums.earlier) wait_for_count(counter(sums.added), sums.earlier);
    }
    sync_warp();
  }

  template <int piece>
  __device__ __forceinline__ void take_piece(const Ring& ring, Ring& ahead, Stage<config.stages>& stage, int ds_stage,
                                             bool loads, Sums& sums) const {
    constexpr int rows = piece % Tiles::row_blocks, slab = Tiles::slab_of(piece), columns = Tiles::columns_of(piece);
    float dq[columns / 2];
    if constexpr (Tiles::by_gradient) aim(sums, ring, rows, slab);
    multiply<columns>(dq, Tiles::ds_at + ds_stage * Tiles::ds_bytes + rows * 64 * Tiles::row_bytes,
                      Tiles::k_at + slab * Tiles::kv_slab);
    // dS has come, so the products that read the tiles of this stage end soon.
    if (piece == 0 && loads) reload(ahead, stage);
    sync_warp();
    // The stores of the previous piece, which this fences, have had the time since.
    if constexpr (!Tiles::by_gradient)
      add_staged<piece == 0 ? Tiles::pieces - 1 : piece - 1>(sums);
    else if constexpr (config.ordered && piece == 0)
      start_tile(sums);
    wgmma_wait<0>(dq);
    if (piece == Tiles::pieces - 1 && lane == 0) barrier_arrive(barriers.ds_empty(ds_stage));
    if constexpr (Tiles::by_gradient) {
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) reduce_add(sums.to + j * 128 + lane * 4, dq + 4 * j);
    } else {
      if (lane == 0) store_wait_read<Tiles::sums_stages - 1>();
      sync_warp();
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) store_shared(staged(piece) + j * 512 + lane * 16, dq + 4 * j);
      aim(sums, ring, rows, slab);
    }
  }
  template <int piece>
  __device__ __forceinline__ void take_pieces(const Ring& ring, Ring& ahead, Stage<config.stages>& stage, int ds_stage,
                                              bool loads, Sums& sums) const {
    if constexpr (piece < Tiles::pieces) {
      take_piece<piece>(ring, ahead, stage, ds_stage, loads, sums);
      take_pieces<piece + 1>(ring, ahead, stage, ds_stage, loads, sums);
    }
  }

  __device__ __forceinline__ void run() {
    Ring ring = this->ring();
    const int count = ring.count();
    if (count > 0) {
      const bool loads = warp == 0 && elect_one();
      if (!Tiles::loads_early && (shape.mask_mod || loads)) load_first(ring, count, loads);
      Ring ahead = ring;
#pragma unroll
      for (int stage = 0; stage < config.stages; ++stage) ahead.next();
      Stage<config.stages> stage;
      Stage<2> ds_stage;
      Sums sums;
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        barrier_wait(barriers.ds_full(ds_stage.index), ds_stage.parity);
        take_pieces<0>(ring, ahead, stage, ds_stage.index, loads && i + config.stages < count, sums);
        ds_stage.next();
        stage.next();
        ring.next();
        ahead.next();
      }
      if constexpr (!Tiles::by_gradient) add_staged<Tiles::pieces - 1>(sums);
      if constexpr (config.ordered) {
        sync_warp();
        if (lane == 0) {
          fence_gpu();
          announce(sums.added);
        }
      }
    }
    if constexpr (!Tiles::dk_in_q_tiles) arrive_threads(1, Tiles::threads);
    if (lane == 0) store_wait<0>();
  }
};

}  // namespace tunesmith

#endif
