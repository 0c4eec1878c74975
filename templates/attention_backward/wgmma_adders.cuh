// The warpgroups of attention_backward/wgmma.cuh that load tiles, compute dQ and add it, if a fourth one helps (`adders`).
#pragma once

#include "attention_backward/wgmma_loader.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// In place of Loader. Work that waits for global memory or for other blocks has warps of its own, so that the products of
/// dQ follow each other:
///
///   multiply_pieces  a warpgroup computes dQ = dS K and leaves pieces of 64 x 64 in two stages of shared memory
///   load_tiles       a warp loads K, V, Q and dO
///   add_pieces       two warps empty a stage each. A piece is added by one bulk reduction.
///
/// The sums are not zeroed. Each block of 64 x 64 of them has a counter: the thread block that claims it stores its piece,
/// and the others wait for that before they add. A thread block claims only when it can store at once, so nobody waits for
/// one that waits.
///
/// If `ordered`, a piece is added after the pieces of earlier blocks, and counters count complete additions. A warp reads
/// the counter of its next piece while an addition completes, and announces the addition as soon as it has. Nobody reads the
/// sums, only their order matters: an addition is announced after a fence, once it is complete, and the next one is issued
/// by the thread that has seen the counter.
///
/// No deadlock: the two warps wait only for blocks with smaller tickets and for pieces of their own block. A piece needs a
/// free stage, that is, the addition of the piece before, and nothing of blocks with larger tickets. So the block with the
/// smallest ticket always proceeds, and it is resident.
template <typename Element, const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct LoaderWithAdders : Loader<Element, shape, config> {
  using Base = Loader<Element, shape, config>;
  using Tiles = typename Base::Tiles;
  using Ring = typename Base::Ring;
  using Base::barriers, Base::keys, Base::lane, Base::params, Base::sequence, Base::shared, Base::warp;
  static constexpr int adders = Tiles::sums_stages;
  static constexpr uint32 untouched = 0, claimed = 1, stored = 2;  ///< counters, unless `ordered`

  int kv_at = 0;  ///< of persistent blocks: where K is, after Tiles::k_at

  __device__ __forceinline__ LoaderWithAdders(const WgmmaBackwardParams& kernel_params, uint32 shared_memory, int slot = 0)
      : Base(kernel_params, shared_memory, slot) {}

  /// Where K is. Not kept in registers, nor are the descriptors that follow from it.
  __device__ __forceinline__ int k_at() const {
    if constexpr (config.persistent) return Tiles::k_at + shuffle(here(kv_at), 0);
    return Tiles::k_at;
  }
  __device__ __forceinline__ uint32 staged(int stage) const { return shared + Tiles::sums_at + stage * Tiles::piece_bytes; }

  template <int piece>
  __device__ __forceinline__ void multiply_piece(int ds_stage, Stage<Tiles::sums_stages>& sums) const {
    if constexpr (piece < Tiles::pieces) {
      constexpr int rows = piece % Tiles::row_blocks, slab = Tiles::slab_of(piece), columns = Tiles::columns_of(piece);
      float dq[columns / 2];
      this->template multiply<columns>(dq, Tiles::ds_at + ds_stage * Tiles::ds_bytes + rows * 64 * Tiles::row_bytes,
                                       k_at() + slab * Tiles::kv_slab);
      barrier_wait(barriers.sums_empty(sums.index), sums.parity ^ 1);
      wgmma_wait<0>(dq);
      if (piece == Tiles::pieces - 1 && lane == 0) barrier_arrive(barriers.ds_empty(ds_stage));
      const uint32 to = staged(sums.index) + warp * (columns * 64) + lane * 16;
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) store_shared(to + j * 512, dq + 4 * j);
      fence_async_shared();
      sync_warp();
      if (lane == 0) barrier_arrive(barriers.sums_full(sums.index));
      sums.next();
      multiply_piece<piece + 1>(ds_stage, sums);
    }
  }
  __device__ __forceinline__ void multiply_pieces() const {
    const int count = this->ring().count();
    Stage<2> ds_stage;
    Stage<Tiles::sums_stages> sums;
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      barrier_wait(barriers.ds_full(ds_stage.index), ds_stage.parity);
      multiply_piece<0>(ds_stage.index, sums);
      ds_stage.next();
    }
    if constexpr (!Tiles::dk_in_q_tiles) arrive_threads(1, Tiles::threads);
  }

  /// Where a piece is added.
  struct Target {
    int part;        ///< the first of its four parts of the sums, in the order of sums_of(), and number of its counter
    uint32 seen;     ///< what its counter was some time before
    uint32 earlier;  ///< if ordered: additions that precede this one
  };
  __device__ __forceinline__ Target target(const Ring& ring, int piece) const {
    const int rows = piece % Tiles::row_blocks, slab = Tiles::slab_of(piece);
    const int part = (static_cast<int>(this->first_row(ring) / 64 + rows) * Tiles::qk_slabs + slab) * 4;
    return {part, load_relaxed(this->counter(part)), config.ordered ? ring.earlier_blocks() : 0};
  }
  /// Starts to store a piece, or to add it to what is there. One thread.
  __device__ __forceinline__ void add(int part, int piece, int stage, bool first) const {
    const int64 at = shape.head_dim % 64 == 0
                         ? part * int64{16 * 64}
                         : part / (4 * Tiles::qk_slabs) * int64{64 * shape.head_dim} + Tiles::slab_of(piece) * (64 * 64);
    store_or_add_bulk(workspace_floats(params.backward, params.backward.sums_at) + at, staged(stage),
                      64 * 4 * Tiles::columns_of(piece), L2Hint::evict_last, first);
    store_commit();
  }
  /// Returns whether the piece is the first one of its sums and must be stored. Otherwise waits until it may be added. One
  /// thread.
  __device__ __forceinline__ bool is_first(const Target& target) const {
    uint32* const counter = this->counter(target.part);
    if constexpr (config.ordered) {
      if (target.seen != target.earlier) wait_for_count(counter, target.earlier);
      return target.earlier == 0;
    }
    if (target.seen == stored) return false;
    if (atomic_cas(counter, untouched, claimed) == untouched) return true;
    wait_for_count(counter, stored);
    return false;
  }
  /// Adds every piece that comes to a stage.
  __device__ __forceinline__ void add_pieces(int stage) const {
    uint32 parity = 0;
    add_pieces_from(stage, stage, parity);
  }
  /// Does so if piece `begin` is the first one that comes to the stage. Returns how many pieces come to all stages.
  __device__ __forceinline__ int add_pieces_from(int begin, int stage, uint32& parity) const {
    Ring tile = this->ring();
    const int count = tile.count() * Tiles::pieces;
    if (begin >= count) return count;
    int tiles = 0;  // before `tile`
    const auto target_of = [&](int number) {
#pragma unroll 1
      for (; tiles < number / Tiles::pieces; ++tiles) tile.next();
      return target(tile, number % Tiles::pieces);
    };
    Target next = target_of(begin);
#pragma unroll 1
    for (int i = begin; i < count; i += adders) {
      const int part = next.part;
      bool announces = false;
      if (lane == 0) {
        barrier_wait(barriers.sums_full(stage), parity);
        const bool first = is_first(next);
        add(part, i % Tiles::pieces, stage, first);
        announces = config.ordered || first;
      }
      parity ^= 1;
      if (i + adders < count) next = target_of(i + adders);
      if (lane == 0) {
        store_wait_read<0>();
        barrier_arrive(barriers.sums_empty(stage));
        if (announces) {
          store_wait<0>();
          fence_gpu();
          add_relaxed(this->counter(part), 1);
        }
      }
      sync_warp();
    }
    return count;
  }
  /// The fourth warpgroup.
  __device__ __forceinline__ void run_helpers() const {
    if (warp == 0)
      this->load_tiles();
    else if (warp <= adders)
      add_pieces(warp - 1);
  }
};

}  // namespace tunesmith

#endif
