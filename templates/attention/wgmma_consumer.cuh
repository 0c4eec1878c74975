// The consumers of attention/wgmma.cuh: warpgroups that issue products and compute exponentials while these run.
#pragma once

#include "attention/dropout.cuh"
#include "attention/wgmma_tiles.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// Sums of a thread's unrounded weights, from which a caller's lse is computed where tensor cores sum the rounded ones.
struct UnroundedSums {
  float rows[2];

  __device__ __forceinline__ void reset() { rows[0] = rows[1] = 0.0f; }
  /// Adds the weights of a tile, laid out as QuadSoftmax has them, after rescaling.
  template <int count>
  __device__ __forceinline__ void include(const float (&weights)[count], const Rescale& rescale) {
    // Two independent sums per row: few warps are resident to hide the latency of a dependent chain.
    float sums[2][2];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      float& sum = sums[i % 2][i / 2 % 2];
      sum = i < 4 ? weights[i] : add(sum, weights[i]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (rescale.any) rows[r] = multiply(rows[r], rescale.rows[r]);
      rows[r] = add(rows[r], add(sums[0][r], sums[1][r]));
    }
  }
};

/// A consumer warpgroup of 64 queries.
template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaConfig& config>
struct Consumer {
  using Tiles = WgmmaTiles<shape, config>;
  using Rule = Scores<shape, Modification>;
  static constexpr int keys = config.tile_kv, steps = keys / 16;

  using KeyTiles = SomeTiles<shape, Tiles::tile_q, keys>;

  /// A Q tile and this warpgroup's share of its K/V tiles.
  struct Work {
    TileOfQueries tile;
    int first_q;  ///< this warpgroup's first query
    KeyTiles tiles;
    int own_end;  ///< end of the K/V tiles that it sees; tiles from there on are released unread
  };
  /// A K/V tile in shared memory.
  struct KeyTile {
    int index;
    bool more;  ///< another K/V tile follows for the same queries
    bool kept;  ///< mask_mod keeps all of this warpgroup's visible pairs
  };

  /// Results of a Q tile whose output is incomplete.
  struct Results {
    TileOfQueries tile;
    int query;         ///< this thread's first query
    float largest[2];  ///< maxima of this thread's rows
    float scale[2];    ///< output scales of this thread's rows
  };
  /// The current Q tile: its position and its scores.
  struct Current {
    Work work;
    Rule rule;
    WholeTiles<shape, keys> whole;
    int query;       ///< this thread's first query; the second is 8 further
    int beyond = 0;  ///< keys of the first tile beyond the end of the sequence

    __device__ __forceinline__ Current(const Consumer& consumer, const TileOfQueries& tile)
        : work(consumer.work_of(tile)),
          rule(consumer.params.attention, consumer.sequence_of(tile), work.tile.batch, work.tile.head),
          whole(rule.visibility(), work.first_q, work.first_q + 63,
                !shape.alibi || slope_fits<Element>(consumer.params.attention, rule.slope())),
          query(work.first_q + 16 * consumer.warp + consumer.lane / 4) {}
    __device__ __forceinline__ void begin_at(const KeyTile& tile) {
      beyond = (tile.index + 1) * keys - rule.visibility().seq_kv;
    }
  };

  const WgmmaParams& params;
  unsigned char* const memory;
  const uint32 shared;
  const Barriers<config.q_stages> barriers;
  const int warpgroup, warp, lane;
  Stage<config.q_stages> q_stage;
  Stage<config.stages> k_stage, v_stage;

  float scores[keys / 2];                                     ///< scores of a tile, then their exponentials
  float output[(shape.head_dim_v + Tiles::sum_columns) / 2];  ///< output, followed by sums of weights
  uint32 weights[steps][4];                                   ///< rounded exponentials of the previous tile
  QuadSoftmax<Element, shape, Modification, keys, Rule, adds_bias<shape>, !Tiles::sums_weights> softmax;
  UnroundedSums unrounded;  ///< if tensor cores sum the rounded weights and the caller asks for lse

  __device__ __forceinline__ Consumer(const WgmmaParams& kernel_params, unsigned char* shared_memory, int group)
      : params(kernel_params),
        memory(shared_memory),
        shared(shuffle(shared_address(shared_memory), 0)),  // make it visibly uniform within the warp for the compiler
        barriers{shared + Tiles::barriers_at},
        warpgroup(group),
        warp(warp_index() & 3),
        lane(lane_index()) {}

  __device__ __forceinline__ Sequence sequence_of(const TileOfQueries& tile) const {
    return tunesmith::sequence_of<shape>(params.attention, tile);
  }
  __device__ __forceinline__ Work work_of(const TileOfQueries& tile) const {
    const Visibility<shape> visibility(params.attention, sequence_of(tile));
    Work work = {tile, tile.tile * Tiles::tile_q + 64 * warpgroup, KeyTiles(params.attention, visibility, tile), 0x7fffffff};
    // Fully masked tiles at the other end are multiplied nevertheless, so that the next Q tile does not wait.
    if constexpr ((shape.bounded_left || shape.bounded_right) && !config.ping_pong)
      if (const KeyRange own = key_tiles<shape, keys>(visibility, work.first_q, work.first_q + 63); !own.empty())
        work.own_end = own.end;
    return work;
  }

  /// Waits for the next Q tile; returns a negative tile after the last one.
  __device__ __forceinline__ TileOfQueries await_queries() const {
    barrier_wait(barriers.q_full(q_stage.index), q_stage.parity);
    return reinterpret_cast<const TileOfQueries*>(memory + Tiles::tiles_at)[q_stage.index];
  }
  __device__ __forceinline__ void free_queries() {
    sync_warp();  // all lanes have read the tile's number
    if (lane == 0) barrier_arrive(barriers.q_empty(q_stage.index));
    q_stage.next();
  }

  /// Waits for K/V tile `index`; with a mask_mod, for the tile that the producer sends next.
  __device__ __forceinline__ KeyTile await_keys(const Work& work, int index) const {
    barrier_wait(barriers.k_full(k_stage.index), k_stage.parity);
    if constexpr (shape.mask_mod) {
      const SentKeys sent = {reinterpret_cast<const int*>(memory + Tiles::sent_at)[k_stage.index]};
      return {sent.index(), sent.more(), sent.kept(warpgroup)};
    }
    return {index, index > work.tiles.begin(), true};
  }
  /// Waits for the first K/V tile that this warpgroup sees. `ahead`: number of tiles released before it, at most the number
  /// of stages, because its K arrives after their V.
  __device__ __forceinline__ KeyTile await_first_keys(const Work& work, int& ahead) {
    ahead = 0;
    if constexpr (shape.mask_mod) {
      KeyTile tile = await_keys(work, 0);
      for (; tile.index >= work.own_end && tile.more; tile = await_keys(work, 0)) {
        skip_keys();
        ++ahead;
      }
      return tile;
    }
    int first = work.tiles.last();
    for (; first >= work.own_end; --first) {
      await_keys(work, first);
      skip_keys();
      ++ahead;
    }
    return await_keys(work, first);
  }
  /// Issues S = Q K^T; for full tiles with ALiBi's bias relative to the first key.
  __device__ __forceinline__ void multiply_keys(const Current& current, int index, bool whole) {
    const MatrixDescriptor q =
        matrix_descriptor(shared + q_stage.index * Tiles::q_bytes + warpgroup * 64 * Tiles::row_bytes, 1024);
    const MatrixDescriptor k = matrix_descriptor(shared + Tiles::k_at + k_stage.index * Tiles::k_bytes, 1024);
    wgmma_fence(scores);
#pragma unroll
    for (int step = 0; step < (shape.head_dim + 15) / 16; ++step) {
      const int slab = step / 4, within = step % 4 * 32;
      wgmma<Element, Innermost::k>(scores, advance(q, slab * Tiles::q_slab + within),
                                   advance(k, slab * Tiles::kv_slab + within), step > 0);
    }
    if constexpr (adds_bias<shape>) {
      using Bias = BiasTiles<keys, config.q_stages>;
      const uint32 bias = shared + Tiles::bias_at;
      const int direction = !whole ? Bias::none : current.whole.is_before(index) ? Bias::forward : Bias::backward;
      wgmma<Element, Innermost::k>(scores, Bias::slopes(bias, q_stage.index, direction), Bias::places(bias), true);
    }
    wgmma_commit();
  }
  __device__ __forceinline__ void free_keys() {
    if (lane == 0) barrier_arrive(barriers.k_empty(k_stage.index));
    k_stage.next();
  }

  /// Issues O += P V, or O = P V for the first tile, so that only tensor cores write O meanwhile. A sequence may end within
  /// the first tile: its last `beyond` keys belong to another sequence, or to none.
  __device__ __forceinline__ void multiply_values(bool first, int beyond) {
    barrier_wait(barriers.v_full(v_stage.index), v_stage.parity);
    if constexpr (ragged_keys<shape>)
      if (first && beyond > 0) clear_values(beyond);
    const int at = Tiles::v_at + v_stage.index * Tiles::v_bytes;
    // All 16-row steps share the same ones: their distance shrinks by 2048 bytes per step.
    const MatrixDescriptor v =
        matrix_descriptor(shared + at, 1024, Tiles::sums_weights ? Tiles::ones_at - at : Tiles::kv_slab);
    pin_weights();
    wgmma_fence(output);
#pragma unroll
    for (int step = 0; step < steps; ++step)
      wgmma<Element, Innermost::n>(output, weights[step], advance(v, step * 2048, Tiles::sums_weights ? -step * 2048 : 0),
                                   step > 0 || !first);
    wgmma_commit();
  }
  /// Clears values beyond the end of a sequence: they may be NaN or infinite, which weights of 0 would not hide. Every
  /// warpgroup writes the same zeros before its own product reads them.
  __device__ __forceinline__ void clear_values(int rows) {
    unsigned char* const first = memory + Tiles::v_at + v_stage.index * Tiles::v_bytes + (keys - rows) * Tiles::row_bytes;
#pragma unroll
    for (int slab = 0; slab < Tiles::v_slabs; ++slab)
      for (int chunk = 32 * warp + lane; chunk < rows * Tiles::row_bytes / 16; chunk += 128)
        *reinterpret_cast<Bits<16>*>(first + slab * Tiles::kv_slab + chunk * 16) = Bits<16>{};
    fence_async_shared();
    sync_threads(1 + warpgroup, 128);
  }
  /// Pins the registers of the weights, which the tensor cores read until the product is complete.
  __device__ __forceinline__ void pin_weights() {
#pragma unroll
    for (int step = 0; step < steps; ++step) pin(weights[step]);
  }
  /// Waits for the product with V; `pending`: number of later products that may be incomplete.
  template <int pending>
  __device__ __forceinline__ void await_values() {
    wgmma_wait<pending>(output);
    pin_weights();
  }
  __device__ __forceinline__ void free_values() {
    if (lane == 0) barrier_arrive(barriers.v_empty(v_stage.index));
    v_stage.next();
  }

  /// Releases K/V tiles that are fully masked for this warpgroup. All lanes wait first: no lane may still wait when the ring
  /// wraps around.
  __device__ __forceinline__ void skip_keys() {
    sync_warp();
    free_keys();
  }
  __device__ __forceinline__ void skip_values(int count) {
    for (int i = 0; i < count; ++i) {
      barrier_wait(barriers.v_full(v_stage.index), v_stage.parity);
      sync_warp();
      free_values();
    }
  }

  // Ping-pong scheduling: each warpgroup waits at a named barrier at which the previous warpgroup arrives. No warpgroup
  // skips tiles in this mode, so all of them wait equally often.
  static constexpr int first_ping_pong_barrier = 1 + config.consumers;
  __device__ __forceinline__ void wait_for_turn() const {
    if constexpr (config.ping_pong) sync_threads(first_ping_pong_barrier + here(warpgroup), 256);
  }
  __device__ __forceinline__ void signal_next_warpgroup() const {
    if constexpr (config.ping_pong) {
      const int next = here(warpgroup) + 1;
      arrive_threads(first_ping_pong_barrier + (next == config.consumers ? 0 : next), 256);
    }
  }

  __device__ __forceinline__ void round() {
#pragma unroll
    for (int step = 0; step < steps; ++step) round_weights<Element>(scores, step, weights[step]);
  }

  /// Returns whether the tile is full and needs no distances of single keys.
  __device__ __forceinline__ bool is_whole(const Current& current, const KeyTile& tile) const {
    return current.whole.holds(tile.index) && tile.kept;
  }
  __device__ __forceinline__ void exponentiate(const Current& current, int index, bool whole, Rescale& rescale) {
    const int first_k = index * keys;
    if (whole)
      softmax.template exponentiate<true, true>(scores, current.rule, current.query, first_k, lane, rescale);
    else
      softmax.template exponentiate<false, false>(scores, current.rule, current.query, first_k, lane, rescale);
    if constexpr (Tiles::sums_weights)
      if (params.attention.lse != nullptr) unrounded.include(scores, rescale);
    if constexpr (shape.dropout) drop(current, first_k);
  }
  /// Clears the weights that are dropped, which the sums contain nevertheless.
  __device__ __forceinline__ void drop(const Current& current, int first_k) {
    const TileOfQueries& tile = current.work.tile;
    typename DroppedOf<shape>::Pairs(&dropout_of(params), tile.batch, tile.head)
        .template over_accumulators<keys / 2>(current.query, first_k + lane % 4 * 2, [&](int i, bool drops) {
          if (drops) scores[i] = 0.0f;
        });
  }
  __device__ __forceinline__ void reset() {
    softmax.reset();
    if constexpr (Tiles::sums_weights) unrounded.reset();
  }
  /// Starts a Q tile with its first product. `once`: runs once per block, so the masked code path serves all tiles.
  template <bool once>
  __device__ __forceinline__ KeyTile begin(Current& current) {
    int ahead;
    const KeyTile tile = await_first_keys(current.work, ahead);
    current.begin_at(tile);
    wait_for_turn();
    const bool whole = !once && is_whole(current, tile);
    multiply_keys(current, tile.index, whole);
    signal_next_warpgroup();
    wgmma_wait<0>(scores);
    free_keys();
    skip_values(ahead);
    Rescale rescale;
    reset();
    exponentiate(current, tile.index, whole, rescale);
    round();
    return tile;
  }

  /// The state of run_through() between K/V tiles.
  struct Progress {
    KeyTile tile;          ///< its product with V is next
    bool first = true;     ///< it is the first tile of its queries
    bool waiting = false;  ///< the previous queries' output is written during the next product
    Results results = {};  ///< results of the previous queries
  };
  /// Computes the product with V of one tile while the scores of the next tile become weights. The next tile has the same
  /// queries, or is the first one of `next`, which becomes `current`.
  template <bool of_next>
  __device__ __forceinline__ void take_tile(Current& current, Progress& progress, const TileOfQueries& next) {
    const TileOfQueries tile = current.work.tile;
    const int query = current.query, beyond = current.beyond;
    int ahead = 0;
    if constexpr (of_next) {
      current = Current(*this, next);
      progress.tile = await_first_keys(current.work, ahead);
      current.begin_at(progress.tile);
    } else {
      progress.tile = await_keys(current.work, progress.tile.index - 1);
    }
    wait_for_turn();
    // First tiles are usually partial under a causal mask, so they have the masked code path only. is_whole() is evaluated
    // while the products run, unless these depend on it.
    constexpr bool one_way = of_next && (shape.bounded_right || !Rule::linear);
    bool whole = !one_way && adds_bias<shape> && is_whole(current, progress.tile);
    multiply_keys(current, progress.tile.index, whole);
    if constexpr (!adds_bias<shape>) whole = !one_way && is_whole(current, progress.tile);
    if (progress.waiting) write(progress.results);
    multiply_values(progress.first, beyond);
    signal_next_warpgroup();
    wgmma_wait<1>(scores);
    free_keys();
    if constexpr (of_next) {
      progress.results = results_of(tile, query);
      if constexpr (Tiles::sums_weights)
        write_lse(progress.results);
      else
        end(progress.results);
      reset();
    }
    Rescale rescale;
    exponentiate(current, progress.tile.index, whole, rescale);
    await_values<0>();
    free_values();
    if constexpr (of_next) {
      if constexpr (Tiles::sums_weights) end(progress.results);
      skip_values(ahead);
    } else {
      rescale_rows(output, rescale);
    }
    round();
    progress.first = progress.waiting = of_next;
  }
  /// Processes all Q tiles of the block (at least one, unless sequences are packed) as one sequence of K/V tiles: the first
  /// product of a Q tile overlaps the last one of the previous Q tile. Tiles of the same queries have their own loop, which
  /// contains no code for the transition.
  __device__ __forceinline__ void run_through() {
    TileOfQueries next = await_queries();
    if constexpr (shape.varlen)
      if (next.tile < 0) return;
    Current current(*this, next);
    if (config.ping_pong && warpgroup + 1 == config.consumers)
      signal_next_warpgroup();  // no warpgroup precedes the first one
    Progress progress = {begin<true>(current)};
    while (true) {
      while (progress.tile.more) take_tile<false>(current, progress, next);
      free_queries();
      next = await_queries();
      if (next.tile < 0) break;
      take_tile<true>(current, progress, next);
    }
    if (progress.waiting) write(progress.results);
    multiply_values(progress.first, current.beyond);
    Results results = results_of(current.work.tile, current.query);
    if constexpr (Tiles::sums_weights)
      write_lse(results);
    else
      end(results);
    await_values<0>();
    if constexpr (Tiles::sums_weights) end(results);
    write(results);
    store_wait<0>();
  }

  /// Processes Q tiles one by one, if there is only one stage of Q.
  __device__ __forceinline__ void run_apart() {
    if (config.ping_pong && warpgroup + 1 == config.consumers) signal_next_warpgroup();
    for (TileOfQueries queries = await_queries(); queries.tile >= 0; queries = await_queries()) {
      Current current(*this, queries);
      KeyTile tile = begin<false>(current);
      bool first = true;
      while (tile.more) {
        tile = await_keys(current.work, tile.index - 1);
        wait_for_turn();
        bool whole = adds_bias<shape> && is_whole(current, tile);
        multiply_keys(current, tile.index, whole);
        if constexpr (!adds_bias<shape>) whole = is_whole(current, tile);
        multiply_values(first, current.beyond);
        first = false;
        signal_next_warpgroup();
        wgmma_wait<1>(scores);
        free_keys();
        Rescale rescale;
        exponentiate(current, tile.index, whole, rescale);
        await_values<0>();
        free_values();
        rescale_rows(output, rescale);
        round();
      }
      free_queries();
      multiply_values(first, current.beyond);
      Results results = results_of(queries, current.query);
      if constexpr (Tiles::sums_weights)
        write_lse(results);
      else
        end(results);
      await_values<0>();
      free_values();
      if constexpr (Tiles::sums_weights) end(results);
      write(results);
    }
    store_wait<0>();
  }

  __device__ __forceinline__ Results results_of(const TileOfQueries& tile, int query) const {
    return {tile, query, {softmax.largest[0], softmax.largest[1]}, {}};
  }
  /// Writes the lse from the sums of unrounded weights.
  __device__ __forceinline__ void write_lse(const Results& results) const {
    const AttentionParams& attention = params.attention;
    if (attention.lse == nullptr) return;
    const TileOfQueries& tile = results.tile;
    const Sequence sequence = sequence_of(tile);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = results.query + 8 * r;
      const float sum = reduce_lanes<4>(unrounded.rows[r], Sum());
      const FinalScale end =
          end_of_quad<Element, shape>(attention, tile.head, Rule::factor(attention), results.largest[r], sum);
      if (lane % 4 == 0 && query < sequence.seq_q)
        lse_of<shape>(attention, sequence, tile.batch, tile.head)[query] = end.lse;
    }
  }
  /// Completes the results; also writes the lse, unless sums are part of the output, which must then be complete.
  __device__ __forceinline__ void end(Results& results) const {
    const AttentionParams& attention = params.attention;
    const TileOfQueries& tile = results.tile;
    const Sequence sequence = sequence_of(tile);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = results.query + 8 * r;
      float sum;
      if constexpr (Tiles::sums_weights)
        sum = output[shape.head_dim_v / 2 + 2 * r];
      else
        sum = reduce_lanes<4>(softmax.sum[r], Sum());
      const FinalScale end =
          end_of_quad<Element, shape>(attention, tile.head, Rule::factor(attention), results.largest[r], sum);
      results.scale[r] = end.scale;
      if constexpr (shape.dropout) results.scale[r] = multiply(end.scale, dropout_of(params).factor);
      if constexpr (!Tiles::sums_weights)
        if (lane % 4 == 0 && query < sequence.seq_q && attention.lse != nullptr)
          lse_of<shape>(attention, sequence, tile.batch, tile.head)[query] = end.lse;
    }
  }
  /// Writes the output through shared memory and TMA, each warp its own 16 rows.
  __device__ __forceinline__ void write(const Results& results) {
    const TileOfQueries& tile = results.tile;
    constexpr int chunks = shape.head_dim_v / 8;
    const int first_q = tile.tile * Tiles::tile_q + 64 * warpgroup + 16 * warp;
    const int staged_at = Tiles::o_at + warpgroup * config.o_slabs * Tiles::o_slab + warp * 16 * Tiles::row_bytes;
    const int row = lane % 16;
#pragma unroll
    for (int first = 0; first < Tiles::v_slabs; first += config.o_slabs) {
      if (lane == 0) store_wait_read<0>();  // TMA may still read the slabs
      sync_warp();
#pragma unroll
      for (int slab = first; slab < first + config.o_slabs && slab < Tiles::v_slabs; ++slab) {
#pragma unroll
        for (int chunk = 8 * slab; chunk < 8 * slab + 8 && chunk < chunks; chunk += 2) {
          uint32 words[4] = {0, 0, 0, 0};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = 4 * chunk + 2 * i;
            if (at < shape.head_dim_v / 2)
              words[i] =
                  pack<Element>(multiply(output[at], results.scale[i % 2]), multiply(output[at + 1], results.scale[i % 2]));
          }
          store_matrices(shared + staged_at + (slab - first) * Tiles::o_slab + row_chunk(row, chunk % 8 + lane / 16), words);
        }
      }
      fence_async_shared();
      sync_warp();
      if constexpr (shape.varlen) {
        if (first_q + 16 > tile.seq_q) {
          write_some_rows(tile, first_q, first, staged_at);
          continue;
        }
      }
      if (lane == 0) {
#pragma unroll
        for (int slab = first; slab < first + config.o_slabs && slab < Tiles::v_slabs; ++slab)
          store_tile(params.o, shared + staged_at + (slab - first) * Tiles::o_slab, slab * Tiles::slab_columns,
                     tile.q_start + first_q, tile.head, shape.varlen ? 0 : tile.batch);
        store_commit();
      }
    }
  }
  /// Offset of a chunk of 8 elements in a swizzled slab.
  static __device__ __forceinline__ constexpr int row_chunk(int row, int chunk) {
    return row * Tiles::row_bytes + (chunk ^ row % 8) * 16;
  }
  /// Writes only the rows of the sequence: TMA would overwrite the next sequence's output after it.
  __device__ __forceinline__ void write_some_rows(const TileOfQueries& tile, int first_q, int first_slab, int staged_at) {
    constexpr int columns = Tiles::slab_columns / 8;
    const AttentionParams& attention = params.attention;
    auto* const o =
        head_of<shape>(static_cast<Element*>(attention.o), attention.o_strides, int64{tile.q_start}, tile.batch, tile.head);
#pragma unroll 1
    for (int i = lane; i < config.o_slabs * 16 * columns; i += 32) {
      const int slab = i / (16 * columns), row = i / columns % 16, chunk = i % columns;
      const int column = (first_slab + slab) * columns + chunk;
      if (first_q + row >= tile.seq_q || column >= shape.head_dim_v / 8) continue;
      const unsigned char* const staged = memory + staged_at + slab * Tiles::o_slab + row_chunk(row, chunk);
      store<16, StoreHint::plain>(o + (first_q + row) * attention.o_strides.seq + column * 8,
                                  *reinterpret_cast<const Bits<16>*>(staged));
    }
  }
};

}  // namespace tunesmith

#endif
