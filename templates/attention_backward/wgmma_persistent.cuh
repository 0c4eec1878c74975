// Persistent blocks of attention_backward/wgmma.cuh, one for each multiprocessor. A block takes the number of one K/V tile
// after the other from a counter, in the order in which the hardware would start blocks (WgmmaKeys). The next tile's loads
// overlap the last products and the stores of the previous tile, and no block starts or ends in between.
//
//   load_tiles     the loading warp takes the numbers, hands them to the other warps in two slots, and loads K, V, Q and dO.
//                  Head dimensions up to 64 leave room for a second K and V; otherwise they are loaded when dK and dV are
//                  stored.
//   store_keys     the last warp of the fourth warpgroup stores dK and dV, which the multipliers leave in the place of K
//                  and V.
//
// All other warps process each number as a block of its own would. The stages of Q, dO, dS and of the pieces of dQ go on
// from one number to the next.
#pragma once

#include "attention_backward/wgmma_adders.cuh"
#include "attention_backward/wgmma_multiplier.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// The numbers of a block's K/V tiles, as all warps but the loading one read them.
template <const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct PersistentItems {
  using Tiles = WgmmaBackwardTiles<shape, config>;
  /// Warps that read a slot: the multipliers, the warpgroup of dQ, the adders and the one that stores.
  static constexpr int readers = 4 * Tiles::multipliers + 4 + Tiles::sums_stages + 1;

  uint32 shared;
  BackwardBarriers<config.stages> barriers;
  Stage<2> slot;

  __device__ __forceinline__ uint32 ticket() const { return shared + Tiles::ticket_at + 4 * slot.index; }
  /// Waits for the next number. Returns false if there is none.
  __device__ __forceinline__ bool take() const {
    barrier_wait(barriers.item_full(slot.index), slot.parity);
    return block_number<config>(ticket()) >= 0;
  }
  /// Lets the slot be overwritten. All lanes.
  __device__ __forceinline__ void release() {
    sync_warp();
    if (lane_index() == 0) barrier_arrive(barriers.item_empty(slot.index));
    slot.next();
  }
};

/// In place of LoaderWithAdders.
template <typename Element, const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct PersistentLoader {
  using Work = LoaderWithAdders<Element, shape, config>;
  using Tiles = typename Work::Tiles;
  using Ring = typename Work::Ring;
  using Items = PersistentItems<shape, config>;

  const WgmmaBackwardParams& params;
  const uint32 shared;
  const BackwardBarriers<config.stages> barriers;
  const int warp, lane;

  __device__ __forceinline__ PersistentLoader(const WgmmaBackwardParams& kernel_params, uint32 shared_memory)
      : params(kernel_params),
        shared(shuffle(shared_memory, 0)),
        barriers{shared + Tiles::barriers_at},
        warp(warp_index() & 3),
        lane(lane_index()) {}

  __device__ __forceinline__ Items items() const { return Items{shared, barriers, {}}; }

  __device__ __forceinline__ void multiply_pieces() const {
    Items items = this->items();
    uint32 tile = 0;  // of all items
#pragma unroll 1
    for (; items.take(); items.release()) {
      Work work(params, shared, items.slot.index);
      work.kv_at = Tiles::kv_stage(items.slot) * Tiles::kv_bytes;
#pragma unroll 1
      for (int left = work.ring().count(); left > 0; --left, ++tile) {
        const uint32 piece = tile * Tiles::pieces;
        Stage<Tiles::sums_stages> sums{static_cast<int>(piece % 2), piece / 2 % 2};
        barrier_wait(barriers.ds_full(static_cast<int>(tile % 2)), tile / 2 % 2);
        work.template multiply_piece<0>(static_cast<int>(tile % 2), sums);
      }
      sync_warp();
      if (lane == 0) barrier_arrive(barriers.dq_done(items.slot.index));
    }
  }

  /// Takes a number. All lanes.
  __device__ __forceinline__ int take_number() const {
    const int all = params.backward.blocks;
    while (true) {
      uint32 number = 0;
      if (lane == 0) number = atomic_add(workspace_words(params.backward, params.backward.counters_at), 1u);
      const int taken = static_cast<int>(shuffle(number, 0));
      if (taken >= all) return -1;
      if constexpr (shape.varlen) {  // these keys may be beyond the sequence
        const WgmmaKeys keys(params.backward, Tiles::tile_kv, taken, Tiles::last_first);
        if (keys.first_k >= sequence_of<shape>(params.backward.attention, keys.batch).seq_kv) continue;
      }
      return taken;
    }
  }
  /// Loads K and V. One thread.
  __device__ __forceinline__ void load_keys(const Work& work, const Stage<2>& slot) const {
    const int kv = Tiles::kv_stage(slot);
    const uint32 parity = Tiles::kv_parity(slot) ^ 1;
    const MapPlace place = map_place<shape>(params.backward.attention.seq_kv, work.sequence.kv_start, work.sequence.seq_kv,
                                            work.keys.batch, work.keys.first_k);
    const uint32 at = work.shared + kv * Tiles::kv_bytes;
    barrier_wait(barriers.v_empty(kv), parity);
    barrier_arrive_expecting(barriers.v_full(kv), Tiles::v_slabs * Tiles::kv_slab);
    load_slabs<Tiles::v_slabs, Tiles::tile_kv, Tiles::kv_box>(at + Tiles::v_at, params.v, barriers.v_full(kv),
                                                              L2Hint::evict_first, place, work.keys.kv_head);
    barrier_wait(barriers.k_empty(kv), parity);
    barrier_arrive_expecting(barriers.k_full(kv), Tiles::qk_slabs * Tiles::kv_slab);
    load_slabs<Tiles::qk_slabs, Tiles::tile_kv, Tiles::kv_box>(at + Tiles::k_at, params.k, barriers.k_full(kv),
                                                               L2Hint::evict_first, place, work.keys.kv_head);
  }
  __device__ __forceinline__ void load_tiles() const {
    Stage<2> slot;
    Stage<config.stages> stage;
    const bool loads = elect_one();
#pragma unroll 1
    for (int number = take_number();; slot.next()) {
      barrier_wait(barriers.item_empty(slot.index), slot.parity ^ 1);
      if (lane == 0) {
        store_shared_word(shared + Tiles::ticket_at + 4 * slot.index, static_cast<uint32>(number));
        barrier_arrive(barriers.item_full(slot.index));
      }
      sync_warp();
      if (number < 0) return;
      const Work work(params, shared, slot.index);
      Ring ring = work.ring();
      const int count = ring.count();
      if (loads && count == 0) load_keys(work, slot);
#pragma unroll 1
      for (int i = 0; i < count; ++i) {
        if (loads) {
          barrier_wait(barriers.dout_empty(stage.index), stage.parity ^ 1);
          work.load_dout(ring, stage.index);
          barrier_wait(barriers.q_empty(stage.index), stage.parity ^ 1);
          work.load_q(ring, stage.index);
          if (i == 0) load_keys(work, slot);
        }
        stage.next();
        ring.next();
      }
      number = take_number();
    }
  }

  /// Adds every piece that comes to a stage of pieces.
  __device__ __forceinline__ void add_pieces(int stage) const {
    Items items = this->items();
    uint32 parity = 0;
    int begin = stage;  // the first piece of the next number that comes to this stage
#pragma unroll 1
    for (; items.take(); items.release()) {
      const int count = Work(params, shared, items.slot.index).add_pieces_from(begin, stage, parity);
      begin = (begin + count) % Work::adders;
    }
  }

  __device__ __forceinline__ void store_slabs(const Work& work, int slabs, uint32 from, const TensorMap& map,
                                              int first_k) const {
    const MapPlace place = map_place<shape>(params.backward.attention.seq_kv, work.sequence.kv_start, work.sequence.seq_kv,
                                            work.keys.batch, first_k);
    for (int slab = 0; slab < slabs; ++slab)
      if constexpr (config.accumulate)
        add_tile(map, from + slab * Tiles::kv_slab, slab * 64, place.row, work.keys.kv_head, place.entry);
      else
        store_tile(map, from + slab * Tiles::kv_slab, slab * 64, place.row, work.keys.kv_head, place.entry);
    store_commit();
  }
  /// Stores dV and dK of each multiplier once they are in shared memory, and lets their place be overwritten.
  __device__ __forceinline__ void store_keys() const {
    Items items = this->items();
    const bool stores = elect_one();
#pragma unroll 1
    for (; items.take(); items.release()) {
      const Work work(params, shared, items.slot.index);  // all lanes
      if (!stores) continue;
      const int kv = Tiles::kv_stage(items.slot);
      const uint32 from = shared + kv * Tiles::kv_bytes;
#pragma unroll 1
      for (int group = 0; group < Tiles::multipliers; ++group) {
        barrier_wait(barriers.dv_staged(items.slot.index, group), items.slot.parity);
        store_slabs(work, Tiles::v_slabs, from + Tiles::v_at + group * 64 * Tiles::row_bytes, params.dv,
                    work.keys.first_k + 64 * group);
      }
      store_wait_read<0>();
      barrier_arrive(barriers.v_empty(kv));
#pragma unroll 1
      for (int group = 0; group < Tiles::multipliers; ++group) {
        barrier_wait(barriers.dk_staged(items.slot.index, group), items.slot.parity);
        store_slabs(work, Tiles::qk_slabs, from + Tiles::k_at + group * 64 * Tiles::row_bytes, params.dk,
                    work.keys.first_k + 64 * group);
      }
      store_wait_read<0>();
      barrier_arrive(barriers.k_empty(kv));
    }
  }

  /// The fourth warpgroup.
  __device__ __forceinline__ void run_helpers() const {
    static_assert(Work::adders == 2, "four warps: one loads, two add, one stores");
    if (warp == 0)
      load_tiles();
    else if (warp <= Work::adders)
      add_pieces(warp - 1);
    else
      store_keys();
  }
};

/// In place of Multiplier.
template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaBackwardConfig& config>
struct PersistentMultiplier : Multiplier<Element, shape, Modification, config> {
  using Base = Multiplier<Element, shape, Modification, config>;
  using Tiles = typename Base::Tiles;

  __device__ __forceinline__ PersistentMultiplier(const WgmmaBackwardParams& kernel_params, uint32 shared_memory,
                                                  int warpgroup)
      : Base(kernel_params, shared_memory, warpgroup) {}

  __device__ __forceinline__ void run() {
    PersistentItems<shape, config> items{this->shared, this->barriers, {}};
#pragma unroll 1
    for (; items.take(); items.release(), this->item.next()) {
      if (!this->sum(items.ticket())) {  // the place of the gradients is free when K and V have come
        barrier_wait(this->barriers.k_full(Tiles::kv_stage(this->item)), Tiles::kv_parity(this->item));
        barrier_wait(this->barriers.v_full(Tiles::kv_stage(this->item)), Tiles::kv_parity(this->item));
      }
      if constexpr (config.slopes) this->slope_head = -1;
      this->template stage_rows<shape.head_dim_v>(this->dv, Base::DroppedPairs::factor_of(&this->params.backward.dropout),
                                                  Tiles::v_at);
      this->arrive(this->barriers.dv_staged(this->item.index, this->group));
      barrier_wait(this->barriers.dq_done(this->item.index), this->item.parity);
      this->template stage_rows<shape.head_dim>(this->dk, this->params.backward.attention.scale, Tiles::k_at);
      this->arrive(this->barriers.dk_staged(this->item.index, this->group));
    }
  }
};

}  // namespace tunesmith

#endif
