// The second kernel of attention_backward/wgmma.cuh, if dQ has one of its own (`dq_tile_q`). A block keeps 64 or 128 queries
// of a head with their dO and goes through the K/V tiles that they see, from last to first:
//
//   producer     one thread loads Q, dO and a ring of K and V tiles through TMA
//   consumers    warpgroups of 64 queries each: S = Q K^T, P = exp(S - lse), dP = dO V^T, dS = P * (dP - delta),
//                dQ += dS K. Rows are queries, so dS is an A operand in registers, and lse and delta are two numbers of a
//                thread. dP runs during the exponentials. S of the next tile follows dQ without a gap.
//
// Nothing is summed in the workspace: a block writes its rows of dQ once, and they have the same bits in each run. In return
// S and dP are computed twice: seven products instead of five. Blocks start while the last blocks of the first kernel run:
// they need none of its results, but wait for its end before they end.
#pragma once

#include "attention/wgmma_tiles.cuh"
#include "attention_backward/wgmma_dq.cuh"
#include "device/dependent_launch.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

template <const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct WgmmaQueriesTiles {
  static constexpr int tile_q = config.dq_tile_q, tile_kv = config.dq_tile_kv;
  static constexpr int consumers = tile_q / 64, threads = 128 * (consumers + 1);
  static constexpr int k_stages = config.dq_stages, v_stages = config.dq_stages - 1;
  // Shared memory: slabs of 64 columns, rows of 128 bytes, swizzled.
  static constexpr int row_bytes = 128;
  static constexpr int qk_slabs = (shape.head_dim + 63) / 64, v_slabs = (shape.head_dim_v + 63) / 64;
  static constexpr int q_slab = tile_q * row_bytes, kv_slab = tile_kv * row_bytes;
  static constexpr int k_bytes = qk_slabs * kv_slab, v_bytes = v_slabs * kv_slab;
  static constexpr int q_at = 0, dout_at = qk_slabs * q_slab, k_at = dout_at + v_slabs * q_slab;
  static constexpr int v_at = k_at + k_stages * k_bytes, barriers_at = v_at + v_stages * v_bytes;
  // With a mask_mod, which tile a stage of K holds (SentKeys).
  static constexpr int sent_at = barriers_at + 8 * (2 + 2 * k_stages + 2 * v_stages);
  static constexpr int smem_bytes = sent_at + (shape.mask_mod ? 4 * k_stages : 0);
  // Rows of the boxes of tensor maps; both kernels have the same maps.
  static constexpr int q_box = WgmmaBackwardTiles<shape, config>::q_box, kv_box = WgmmaBackwardTiles<shape, config>::kv_box;
};

/// Addresses of barriers in shared memory. "come" counts bytes, "free" warps that have read.
template <int k_stages, int v_stages>
struct QueriesBarriers {
  uint32 base;
  __device__ __forceinline__ uint32 q_full() const { return base; }
  __device__ __forceinline__ uint32 dout_full() const { return base + 8; }
  __device__ __forceinline__ uint32 k_full(int stage) const { return base + 16 + 16 * stage; }
  __device__ __forceinline__ uint32 k_empty(int stage) const { return base + 24 + 16 * stage; }
  __device__ __forceinline__ uint32 v_full(int stage) const { return k_full(k_stages + stage); }
  __device__ __forceinline__ uint32 v_empty(int stage) const { return k_empty(k_stages + stage); }
};

/// State of a block, known to all its threads: its queries, in the sections of WgmmaKeys. Within a section the last queries,
/// which see most keys under a causal mask, come first.
template <const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct WgmmaQueries {
  using Tiles = WgmmaQueriesTiles<shape, config>;
  using KeyTiles = SomeTiles<shape, Tiles::tile_q, Tiles::tile_kv>;

  const WgmmaBackwardParams& params;
  const uint32 shared;
  const QueriesBarriers<Tiles::k_stages, Tiles::v_stages> barriers;
  TileOfQueries tile;
  Sequence sequence;

  __device__ __forceinline__ WgmmaQueries(const WgmmaBackwardParams& kernel_params, uint32 shared_memory)
      : params(kernel_params), shared(shuffle(shared_memory, 0)), barriers{shared + Tiles::barriers_at} {
    const AttentionParams& attention = params.backward.attention;
    const SectionPlace place(attention.heads_per_section * (attention.heads / attention.kv_heads), attention.batch,
                             attention.heads, attention.q_tiles, 1, static_cast<int>(block_index()), true);
    sequence = sequence_of<shape>(attention, place.batch);
    tile = {place.batch, place.head, place.first, 0, 0, sequence.seq_q, sequence.seq_kv};
  }
  __device__ __forceinline__ bool exists() const {
    return tile.batch < params.backward.attention.batch && first_q() < sequence.seq_q;
  }
  __device__ __forceinline__ int first_q() const { return tile.tile * Tiles::tile_q; }
  __device__ __forceinline__ Visibility<shape> visibility() const {
    return Visibility<shape>(params.backward.attention, sequence);
  }
  __device__ __forceinline__ KeyTiles key_tiles() const { return {params.backward.attention, visibility(), tile}; }
  /// Writes dQ of a sequence without keys: zeros, which change no gradient that they are added to. All threads.
  template <typename Element, bool accumulates>
  __device__ __forceinline__ void write_zeros() const {
    if constexpr (accumulates) return;
    constexpr int vectors = shape.head_dim / 8;
    const int left = sequence.seq_q - first_q(), rows = left < Tiles::tile_q ? left : Tiles::tile_q;
    auto* const to = head_of<shape>(static_cast<Element*>(params.backward.dq), params.backward.dq_strides, sequence.q_start,
                                    tile.batch, tile.head);
    for (int i = thread_index(); i < rows * vectors; i += Tiles::threads)
      write_columns<Element, false>(to + (first_q() + i / vectors) * params.backward.dq_strides.seq + i % vectors * 8,
                                    Bits<16>{});
  }
};

/// One thread that loads tiles.
template <const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct QueriesProducer : WgmmaQueries<shape, config> {
  using Base = WgmmaQueries<shape, config>;
  using Tiles = typename Base::Tiles;
  using Base::barriers, Base::params, Base::sequence, Base::shared, Base::tile;

  template <int slabs>
  __device__ __forceinline__ void load_queries(int at, const TensorMap& map, uint32 come) const {
    barrier_arrive_expecting(come, slabs * Tiles::q_slab);
    load_slabs<slabs, Tiles::tile_q, Tiles::q_box>(
        shared + at, map, come, L2Hint::evict_first,
        map_place<shape>(params.backward.attention.seq_q, sequence.q_start, sequence.seq_q, tile.batch, this->first_q()),
        tile.head);
  }
  template <int slabs>
  __device__ __forceinline__ void load_keys(int at, const TensorMap& map, uint32 come, int index) const {
    const AttentionParams& attention = params.backward.attention;
    barrier_arrive_expecting(come, slabs * Tiles::kv_slab);
    load_slabs<slabs, Tiles::tile_kv, Tiles::kv_box>(
        shared + at, map, come, L2Hint::evict_last,
        map_place<shape>(attention.seq_kv, sequence.kv_start, sequence.seq_kv, tile.batch, index * Tiles::tile_kv),
        tile.head / (attention.heads / attention.kv_heads));
  }

  __device__ __forceinline__ void run() const {
    const typename Base::KeyTiles tiles = this->key_tiles();
    Stage<Tiles::k_stages> k_stage;
    Stage<Tiles::v_stages> v_stage;
    load_queries<Tiles::qk_slabs>(Tiles::q_at, params.q, barriers.q_full());
    bool first = true;
    for (int index = tiles.last(), following; index >= tiles.begin(); index = following) {
      following = tiles.after(index);
      barrier_wait(barriers.k_empty(k_stage.index), k_stage.parity ^ 1);
      if constexpr (shape.mask_mod)
        reinterpret_cast<int*>(dynamic_shared() + Tiles::sent_at)[k_stage.index] =
            sent_keys<Tiles::consumers>(tiles, index, following >= tiles.begin()).word;
      load_keys<Tiles::qk_slabs>(Tiles::k_at + k_stage.index * Tiles::k_bytes, params.k, barriers.k_full(k_stage.index),
                                 index);
      k_stage.next();
      if (first) load_queries<Tiles::v_slabs>(Tiles::dout_at, params.dout, barriers.dout_full());
      first = false;
      barrier_wait(barriers.v_empty(v_stage.index), v_stage.parity ^ 1);
      load_keys<Tiles::v_slabs>(Tiles::v_at + v_stage.index * Tiles::v_bytes, params.v, barriers.v_full(v_stage.index),
                                index);
      v_stage.next();
    }
  }
};

/// A warpgroup of 64 queries.
template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const WgmmaBackwardConfig& config>
struct QueriesConsumer : WgmmaQueries<shape, config> {
  using Base = WgmmaQueries<shape, config>;
  using Tiles = typename Base::Tiles;
  using Base::barriers, Base::params, Base::sequence, Base::shared, Base::tile;
  static constexpr int keys = Tiles::tile_kv, steps = keys / 16;
  static constexpr bool is_modified = shape.softcap || shape.score_mod;

  /// A K/V tile in shared memory.
  struct KeyTile {
    int index;
    bool more;  ///< another one follows
    bool kept;  ///< mask_mod keeps all of this warpgroup's visible pairs
  };

  const int group, warp, lane;
  const int own_q, query;  ///< the warpgroup's first query; the thread's first one, the other one is 8 further
  Stage<Tiles::k_stages> k_stage;
  Stage<Tiles::v_stages> v_stage;
  float lse[2], delta[2];
  float scores[keys / 2], gradients[keys / 2];  ///< S, then the derivative of P by the dot product; dP
  uint32 factors[steps][4];                     ///< dS, as operand of the product with K
  float dq[shape.head_dim / 2];

  using DroppedPairs = typename DroppedOf<shape>::Pairs;
  using Dropped = typename DroppedOf<shape>::template BitsOf<false, keys / 2>;

  __device__ __forceinline__ QueriesConsumer(const WgmmaBackwardParams& kernel_params, uint32 shared_memory, int warpgroup)
      : Base(kernel_params, shared_memory),
        group(warpgroup),
        warp(warp_index() & 3),
        lane(lane_index()),
        own_q(this->first_q() + 64 * group),
        query(own_q + 16 * warp + lane / 4) {
    const int64 row = first_row_of<shape>(params.backward, sequence, tile.batch, tile.head) + query;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      lse[r] = workspace_floats(params.backward, params.backward.lse_at)[row + 8 * r];
      delta[r] = workspace_floats(params.backward, params.backward.delta_at)[row + 8 * r];
    }
  }

  __device__ __forceinline__ void arrive(uint32 barrier) const {
    sync_warp();
    if (lane == 0) barrier_arrive(barrier);
  }
  /// Waits for K of a tile: with a mask_mod, for the one that the producer sends next.
  __device__ __forceinline__ KeyTile await_keys(const typename Base::KeyTiles& tiles, int index) const {
    barrier_wait(barriers.k_full(k_stage.index), k_stage.parity);
    if constexpr (shape.mask_mod) {
      const SentKeys sent = {reinterpret_cast<const int*>(dynamic_shared() + Tiles::sent_at)[k_stage.index]};
      return {sent.index(), sent.more(), sent.kept(group)};
    }
    return {index, index > tiles.begin(), true};
  }
  /// Waits for the first tile that this warpgroup sees, and releases earlier tiles unread.
  __device__ __forceinline__ KeyTile await_first_keys(const typename Base::KeyTiles& tiles) {
    KeyTile found = await_keys(tiles, tiles.last());
    if constexpr (shape.bounded_left || shape.bounded_right) {
      const KeyRange own = key_tiles_of_own();
      while (found.more && found.index >= own.end && !own.empty()) {
        arrive(barriers.k_empty(k_stage.index));
        k_stage.next();
        barrier_wait(barriers.v_full(v_stage.index), v_stage.parity);
        arrive(barriers.v_empty(v_stage.index));
        v_stage.next();
        found = await_keys(tiles, found.index - 1);
      }
    }
    return found;
  }
  __device__ __forceinline__ KeyRange key_tiles_of_own() const {
    return tunesmith::key_tiles<shape, keys>(this->visibility(), own_q, own_q + 63);
  }

  /// Issues products = A B^T with this warpgroup's rows of Q or dO, and a tile of K or V.
  template <int width>
  __device__ __forceinline__ void multiply_tile(float (&products)[keys / 2], int queries_at, int keys_at) {
    const MatrixDescriptor a = matrix_descriptor(shared + queries_at + group * 64 * Tiles::row_bytes, 1024);
    const MatrixDescriptor b = matrix_descriptor(shared + keys_at, 1024);
    multiply_slabs<Element, width, Tiles::q_slab, Tiles::kv_slab>(products, a, b);
  }
  __device__ __forceinline__ void multiply_keys() {
    multiply_tile<shape.head_dim>(scores, Tiles::q_at, Tiles::k_at + k_stage.index * Tiles::k_bytes);
  }
  __device__ __forceinline__ void multiply_values() {
    multiply_tile<shape.head_dim_v>(gradients, Tiles::dout_at, Tiles::v_at + v_stage.index * Tiles::v_bytes);
  }
  __device__ __forceinline__ void pin_factors() {
#pragma unroll
    for (int step = 0; step < steps; ++step) pin(factors[step]);
  }
  /// Issues dQ += dS K.
  __device__ __forceinline__ void accumulate() {
    const MatrixDescriptor b =
        matrix_descriptor(shared + Tiles::k_at + k_stage.index * Tiles::k_bytes, 1024, Tiles::kv_slab);
    pin_factors();
    wgmma_fence(dq);
#pragma unroll
    for (int step = 0; step < steps; ++step) wgmma<Element, Innermost::n>(dq, factors[step], advance(b, step * 2048), true);
    wgmma_commit();
  }

  /// S becomes P, or its derivative by the dot product if that is another one. `kept`: mask_mod keeps all visible pairs.
  template <typename Rule>
  __device__ __forceinline__ void exponentiate(const Rule& pairs, int first_k, bool kept) {
    const auto& visibility = pairs.visibility();
    const int key = first_k + lane % 4 * 2;
    if constexpr (shape.softcap) AttentionFeatures<shape>::CapSteps::cap(scores, params.backward.attention);
    const bool inside = visibility.of_all(own_q, own_q + 63).holds(first_k, first_k + keys - 1);
    if constexpr (shape.score_mod) {  // which is not called for masked pairs
      if (inside && kept)
        weigh<true>(pairs, key, true, true);
      else
        weigh<false>(pairs, key, inside, kept);
      return;
    }
    if (!(inside && kept)) {
#pragma unroll
      for (int i = 0; i < keys / 2; ++i) {
        const int at = query + i / 2 % 2 * 8, to = key + i / 4 * 8 + i % 2;
        if (!(shape.mask_mod ? pairs.counts(at, to, inside, kept) : visibility.sees(at, to)))
          scores[i] = Maximum::identity();
      }
    }
    weigh<true>(pairs, key, true, true);
  }
  /// The same for pairs that are all unmasked, or whose scores are -inf if they are masked, unless `all` is false.
  template <bool all, typename Rule>
  __device__ __forceinline__ void weigh(const Rule& pairs, int key, bool inside, bool kept) {
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2, at = query + 8 * r, to = key + i / 4 * 8 + i % 2;
      if (!all && !pairs.counts(at, to, inside, kept)) {
        scores[i] = 0.0f;
      } else if constexpr (is_modified) {
        const Pair found = pairs.of_capped(scores[i], at, to, lse[r]);
        scores[i] = multiply(found.slope, found.probability);
      } else {
        scores[i] = pairs(scores[i], at, to, lse[r]).probability;
      }
    }
  }
  /// dP becomes dS. The dP of a dropped pair is 0.
  __device__ __forceinline__ void differentiate([[maybe_unused]] const Dropped& dropped) {
#pragma unroll
    for (int i = 0; i < keys / 2; i += 2) {
      float products[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float difference;
        if constexpr (shape.dropout)
          difference = fused_multiply_add(dropped[i + j] ? 0.0f : gradients[i + j], params.backward.dropout.factor,
                                          -delta[i / 2 % 2]);
        else
          difference = subtract(gradients[i + j], delta[i / 2 % 2]);
        products[j] = multiply(scores[i + j], difference);
      }
      factors[i / 8][i / 2 % 4] = pack<Element>(products[0], products[1]);
    }
  }

  __device__ __forceinline__ void run() {
    const AttentionParams& attention = params.backward.attention;
    const typename Base::KeyTiles tiles = this->key_tiles();
    const Pairs<shape, Modification> pairs(attention, sequence, tile.batch, tile.head);
#pragma unroll
    for (int i = 0; i < shape.head_dim / 2; ++i) dq[i] = 0.0f;
    barrier_wait(barriers.q_full(), 0);
    KeyTile now = await_first_keys(tiles);
    multiply_keys();
    barrier_wait(barriers.dout_full(), 0);
    wgmma_wait<0>(scores);
    for (bool more = true; more;) {
      barrier_wait(barriers.v_full(v_stage.index), v_stage.parity);
      multiply_values();
      const Dropped dropped(DroppedPairs(&params.backward.dropout, tile.batch, tile.head), query,
                            now.index * keys + lane % 4 * 2);
      exponentiate(pairs, now.index * keys, now.kept);
      wgmma_wait<0>(gradients);
      arrive(barriers.v_empty(v_stage.index));
      v_stage.next();
      differentiate(dropped);
      accumulate();
      const uint32 k_empty = barriers.k_empty(k_stage.index);
      k_stage.next();
      // After the last tile a product that nobody reads: a branch around it would serialize all products.
      more = now.more;
      if (more) now = await_keys(tiles, now.index - 1);
      multiply_keys();
      wgmma_wait<1>(dq);
      pin_factors();
      arrive(k_empty);
      wgmma_wait<0>(scores);
    }
    await_last_kernel();  // the kernel after this one may need the previous kernel's results
    write();
  }

  /// Writes dQ, or adds it to what is there. Quads of lanes exchange pairs of columns, so that a lane stores 8 neighbours.
  __device__ __forceinline__ void write() const {
    const AttentionParams& attention = params.backward.attention;
    auto* const to = head_of<shape>(static_cast<Element*>(params.backward.dq), params.backward.dq_strides, sequence.q_start,
                                    tile.batch, tile.head);
#pragma unroll
    for (int slab = 0; slab < Tiles::qk_slabs; ++slab) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        uint32 words[8];  // columns 8 * j + 2 * (lane % 4) and the next
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int at = 32 * slab + 4 * j + 2 * r;
          words[j] = at < shape.head_dim / 2
                         ? pack<Element>(multiply(dq[at], attention.scale), multiply(dq[at + 1], attention.scale))
                         : 0;
        }
        transpose_over_quad(words);
        const int column = 64 * slab + 16 * (lane % 4);
        if (query + 8 * r >= sequence.seq_q || column >= shape.head_dim) continue;
        Element* const row = to + (query + 8 * r) * params.backward.dq_strides.seq + column;
        write_columns<Element, backward.accumulate>(row, Bits<16>{{words[0], words[2], words[4], words[6]}});
        write_columns<Element, backward.accumulate>(row + 8, Bits<16>{{words[1], words[3], words[5], words[7]}});
      }
    }
  }
};

template <typename Element, const AttentionShape& shape, const BackwardShape& backward, typename Modification,
          const WgmmaBackwardConfig& config>
__device__ __forceinline__ void attention_backward_queries_wgmma(const WgmmaBackwardParams& params) {
  using Tiles = WgmmaQueriesTiles<shape, config>;
  const uint32 shared = shared_address(dynamic_shared());
  const WgmmaQueries<shape, config> queries(params, shared);
  if (!queries.exists()) {
    await_last_kernel();
    return;
  }
  if constexpr (shape.varlen)
    if (queries.sequence.seq_kv == 0) {  // no key to load (MapPlace)
      await_last_kernel();
      queries.template write_zeros<Element, backward.accumulate>();
      return;
    }
  if (thread_index() == 0) {
    for (const TensorMap* map : {&params.q, &params.k, &params.v, &params.dout}) prefetch_tensor_map(*map);
    constexpr int warps = 4 * Tiles::consumers;
    barrier_init(queries.barriers.q_full(), 1);
    barrier_init(queries.barriers.dout_full(), 1);
    for (int stage = 0; stage < Tiles::k_stages + Tiles::v_stages; ++stage) {  // V's barriers follow K's
      barrier_init(queries.barriers.k_full(stage), 1);
      barrier_init(queries.barriers.k_empty(stage), warps);
    }
    barriers_ready();
  }
  sync_block();
  // Uniform for the warp, in a way that the compiler sees.
  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    if constexpr (Tiles::consumers > 1) give_registers<24>();
    if (warp_index() == 0 && elect_one()) QueriesProducer<shape, config>{queries}.run();
  } else {
    if constexpr (Tiles::consumers > 1) take_registers<240>();
    QueriesConsumer<Element, shape, backward, Modification, config>(params, shared, group - 1).run();
  }
}

}  // namespace tunesmith

#endif
