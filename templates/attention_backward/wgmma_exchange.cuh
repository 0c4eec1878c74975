// The warpgroup of attention_backward/wgmma.cuh that loads tiles and computes dQ, where a cluster of 2, 4 or 8 blocks holds
// all keys of a key head. The blocks go through the Q tiles in the same order and add their parts of dQ through shared
// memory.
//
//   send      A block sends the accumulators of each tile to the blocks that own them, 16 bytes of a lane at a time, into
//             a slot for each sender. An mbarrier of the owner counts the bytes.
//   receive   An owner adds the slots of a tile in the order of the keys, one tile late, and writes dQ.
//   slots     There are two stages of slots. An owner knows which blocks see a tile, and expects their bytes. It tells all
//             blocks when it has read a stage, which every block awaits before it goes on to the next tile of that stage.
//             So nothing reaches a block after its end.
//
// Of each 64 queries, a block owns the queries of two warps (2 blocks), of one warp (4), or half of the columns of one
// warp's queries (8). A block without keys, which a short sequence leaves, only receives.
#pragma once

#include "attention_backward/wgmma_dq.cuh"
#include "attention_backward/wgmma_loader.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

template <const AttentionShape& shape>
__device__ __forceinline__ bool has_keys(const AttentionBackwardParams& params, const WgmmaKeys& keys) {
  return keys.first_k < sequence_of<shape>(params.attention, keys.batch).seq_kv;
}

template <typename Element, const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct ExchangingLoader : Loader<Element, shape, config> {
  using Base = Loader<Element, shape, config>;
  using Tiles = WgmmaBackwardTiles<shape, config>;
  using Ring = typename Base::Ring;
  using Base::barriers;
  using Base::keys;
  using Base::lane;
  using Base::params;
  using Base::sequence;
  using Base::shared;
  using Base::warp;

  /// A share of dQ consists of units of 16 queries and 16 columns: two parts of 8 columns, each [lane][4].
  static constexpr int blocks = config.cluster, units = shape.head_dim / 16, unit_bytes = 16 * 16 * 4;
  static constexpr int own_warps = blocks == 2 ? 2 : 1, own_units = blocks == 8 ? units / 2 : units;
  static constexpr int share = Tiles::row_blocks * own_warps * own_units;
  static constexpr int slot_bytes = share * unit_bytes, stage_bytes = blocks * slot_bytes;
  static_assert(blocks == 2 || blocks == 4 || (blocks == 8 && units % 2 == 0), "equal shares");
  static_assert(2 * stage_bytes == Tiles::sums_bytes);

  /// A tile in the order of the cluster: head by head.
  struct Place {
    int head, tile;
  };

  const int rank, q_tiles;

  __device__ __forceinline__ ExchangingLoader(const WgmmaBackwardParams& kernel_params, uint32 shared_memory)
      : Base(kernel_params, shared_memory),
        rank(cluster_rank()),
        q_tiles((sequence.seq_q + Tiles::tile_q - 1) / Tiles::tile_q) {}

  __device__ __forceinline__ void advance_place(Place& place) const {
    if (++place.tile < q_tiles) return;
    place.tile = 0;
    ++place.head;
  }
  /// Bit i: block i sees the tile.
  __device__ __forceinline__ uint32 senders(const Visibility<shape>& visibility, const Place& place) const {
    const int first_k = lane * Tiles::tile_kv;
    return ballot(lane < blocks && first_k < sequence.seq_kv &&
                  Ring::sees(params.backward.attention, visibility, keys.batch, place.head, place.tile, first_k));
  }

  /// Where this lane's accumulators of the first unit go, and the barrier that counts them: in the block that owns them.
  /// With 8 blocks, two of them share a warp's columns.
  struct Owner {
    uint32 slot, barrier;
  };
  static constexpr int owners = blocks == 8 ? 2 : 1;
  __device__ __forceinline__ Owner owner(int number) const {
    const int block = blocks == 2 ? warp / 2 : blocks == 4 ? warp : 2 * warp + number;
    const int first = rank * slot_bytes + (blocks == 2 ? warp % 2 * own_units * unit_bytes : 0) + lane * 16;
    return {address_of_rank(shared + Tiles::sums_at + first, block), address_of_rank(barriers.slots_full(0), block)};
  }

  /// Computes the pieces of a tile from `piece` on and sends them. `loads`: this thread also loads the tile of Q and dO that
  /// follows in this stage.
  template <int piece>
  __device__ __forceinline__ void send_pieces(const Ring& ahead, Stage<config.stages>& stage, int ds_stage, int slots,
                                              uint32 empty_parity, bool loads, const Owner (&to)[owners]) const {
    if constexpr (piece < Tiles::pieces) {
      constexpr int rows = piece % Tiles::row_blocks, slab = Tiles::slab_of(piece), columns = Tiles::columns_of(piece);
      float dq[columns / 2];
      this->template multiply<columns>(dq, Tiles::ds_at + ds_stage * Tiles::ds_bytes + rows * 64 * Tiles::row_bytes,
                                       Tiles::k_at + slab * Tiles::kv_slab);
      if (piece == 0 && loads) this->reload(ahead, stage);
      if (piece == 0) barrier_wait(barriers.slots_empty(slots), empty_parity);
      sync_warp();
      wgmma_wait<0>(dq);
      if (piece == Tiles::pieces - 1 && lane == 0) barrier_arrive(barriers.ds_empty(ds_stage));
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) {
        const int unit = slab * 4 + j / 2, number = unit / own_units;
        const int at = (rows * own_warps * own_units + unit % own_units) * unit_bytes + j % 2 * (unit_bytes / 2);
        send_async(to[number].slot + slots * stage_bytes + at, bits_of(dq[4 * j]), bits_of(dq[4 * j + 1]),
                   bits_of(dq[4 * j + 2]), bits_of(dq[4 * j + 3]), to[number].barrier + slots * 16);
      }
      send_pieces<piece + 1>(ahead, stage, ds_stage, slots, empty_parity, loads, to);
    }
  }

  /// Adds the parts that the blocks `from` have sent for this block's share of a tile, and writes the sum.
  __device__ __forceinline__ void receive(const Place& place, uint32 from, int slots) const {
    const AttentionParams& attention = params.backward.attention;
    if (config.accumulate && from == 0) return;
    auto* const dq = head_of<shape>(static_cast<Element*>(params.backward.dq), params.backward.dq_strides, sequence.q_start,
                                    keys.batch, place.head);
#pragma unroll 1
    for (int number = warp; number < share; number += 4) {
      float sums[2][4] = {};
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        if ((from >> block & 1) == 0) continue;
        const uint32 slot =
            shared + Tiles::sums_at + slots * stage_bytes + block * slot_bytes + number * unit_bytes + lane * 16;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const Bits<16> part = load_shared<16>(slot + half * (unit_bytes / 2));
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[half][i] = add(sums[half][i], float_of(part.word[i]));
        }
      }
      // Of rows lane / 4 and 8 more: columns 2 * (lane % 4) and the next, and the same of the next 8 columns.
      uint32 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = pack<Element>(multiply(sums[i % 2][i / 2 * 2], attention.scale),
                                 multiply(sums[i % 2][i / 2 * 2 + 1], attention.scale));
      const int within = lane % 4;
      transpose_over_quad(words);
      const int unit = number % own_units, rest = number / own_units;
      const int of_warp = blocks == 2 ? 2 * rank + rest % 2 : blocks == 4 ? rank : rank / 2;
      const int query = place.tile * Tiles::tile_q + rest / own_warps * 64 + of_warp * 16 + within / 2 * 8 + lane / 4;
      const int column = (unit + (blocks == 8 ? rank % 2 * own_units : 0)) * 16 + within % 2 * 8;
      if (query >= sequence.seq_q) continue;
      write_columns<Element, config.accumulate>(dq + query * params.backward.dq_strides.seq + column,
                                                Bits<16>{{words[0], words[1], words[2], words[3]}});
    }
  }

  __device__ __forceinline__ void run() const {
    const AttentionParams& attention = params.backward.attention;
    const Visibility<shape> visibility(attention, sequence);
    const bool with_keys = has_keys<shape>(params.backward, keys);
    WgmmaKeys own = keys;
    if (!with_keys) own.first_k = 0;
    const Ring ring(attention, visibility, own, own.first_k);
    const int count = with_keys ? ring.count() : 0, group = attention.heads / attention.kv_heads, all = q_tiles * group;
    const bool loads = warp == 0 && elect_one();
    Ring ahead = ring;
    if (count > 0) {
      if (shape.mask_mod || loads) this->load_first(ring, count, loads);
#pragma unroll
      for (int stage = 0; stage < config.stages; ++stage) ahead.next();
    } else if (with_keys) {
      arrive_threads(1, Tiles::threads);
    }
    Owner to[owners];
#pragma unroll
    for (int i = 0; i < owners; ++i) to[i] = owner(i);
    cluster_wait();
    Stage<config.stages> stage;
    Place coming = {keys.kv_head * group, 0}, late = coming;
    // Who sends the tile before, this tile, and the next one.
    uint32 before = 0, now = all > 0 ? senders(visibility, coming) : 0;
    int done = 0;            // tiles that this block has sent
    uint32 full_parity = 0;  // bit i: of stage i
    expect(0, now);
#pragma unroll 1
    for (int i = 0; i <= all; ++i) {
      advance_place(coming);
      const bool more = i + 1 < all;
      const uint32 next = more ? senders(visibility, coming) : 0;
      const int slots = i & 1, others = slots ^ 1;  // stages of this tile, and of those before and after
      if ((now >> rank & 1) != 0) {
        barrier_wait(barriers.ds_full(done & 1), parity_of(done));
        send_pieces<0>(ahead, stage, done & 1, slots, parity_of(i) ^ 1, loads && done + config.stages < count, to);
        stage.next();
        ahead.next();
        // The multipliers may overwrite K.
        if (++done == count) arrive_threads(1, Tiles::threads);
      } else if (i < all) {
        barrier_wait(barriers.slots_empty(slots), parity_of(i) ^ 1);
      }
      if (i > 0) {
        if (before != 0) {
          barrier_wait_cluster(barriers.slots_full(others), full_parity >> others & 1);
          full_parity ^= 1u << others;
        }
        receive(late, before, others);
        advance_place(late);
      }
      if (more) {
        expect(others, next);
        sync_warp();
        if (i > 0 && lane < blocks) barrier_arrive_cluster(address_of_rank(barriers.slots_empty(others), lane));
      }
      before = now;
      now = next;
    }
  }

 private:
  /// Parity of the barriers of two stages for tile `number`.
  static __device__ __forceinline__ uint32 parity_of(int number) { return static_cast<uint32>(number) >> 1 & 1; }
  /// Not for a tile that nobody sends: its phase would end at once, and the next one before all threads have waited.
  __device__ __forceinline__ void expect(int slots, uint32 from) const {
    if (warp == 0 && lane == 0 && from != 0)
      barrier_arrive_expecting(barriers.slots_full(slots), count_bits(from) * slot_bytes);
  }
};

}  // namespace tunesmith

#endif
