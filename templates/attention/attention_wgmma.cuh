// Attention on Hopper's tensor cores (sm_90a), f16 and bf16. A block is one producer warpgroup and `consumers` warpgroups of
// 64 queries each; blocks are as many as multiprocessors and take one tile of queries after the other.
//
//   producer    one thread: for each tile of queries Q, then K and V tile by tile, each by the copy engine into the next
//   free
//               stage of shared memory; a barrier of the stage tells when it has come, another when it is free again.
//   consumer    S = Q K^T; softmax in registers; O += P V. The product of the next K is issued before that of the last V, so
//               that the tensor cores work while the exponentials of a tile are computed:
//                 S0 | softmax S0 | S1  P0 V0 | softmax S1 | S2  P1 V1 | ...
//               With two stages of Q the same holds from one tile of queries to the next. O / sum goes to shared memory, and
//               from there to the output by the copy engine, while the next product runs.
//
// Keys go from the last tile to the first, so that tiles which a causal mask crosses come first and the mask's code is gone
// from the rest. Tiles of which a warpgroup sees no key it only hands back. A row's accumulators are rescaled only when its
// largest score has grown by more than 2^8 since the last time: what is added up meanwhile is larger, never wrong.
//
// After Shah, Bikshandi, Zhang, Thakkar, Ramani and Dao, "FlashAttention-3", 2024 (arXiv:2407.08608); the threshold for
// rescaling is FlashAttention-4's (Zadouri et al., 2025).
#pragma once

#include "attention/attention_quads.cuh"
#include "device/wgmma.cuh"

#if !defined(TUNESMITH_HOST_EXECUTOR) && (!defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL))

namespace tunesmith {

/// The kernel's only argument.
struct WgmmaParams {
  AttentionParams attention;
  TensorMap q, k, v, o;  ///< (head_dim, seq, heads, batch), boxes of 64 columns, swizzled over 128 bytes
};

enum class TileOrder {
  fixed,    ///< every block takes each n-th tile
  counter,  ///< every block takes the next one that is left: tiles of different lengths even out
};

struct WgmmaConfig {
  int consumers;  ///< warpgroups of 64 queries, 1 to 3
  int tile_kv;    ///< keys of a tile, a multiple of 16 up to 256
  int q_stages;   ///< tiles of Q likewise, 1 or 2
  int stages;     ///< tiles of K, and of V, that are on their way or in use
  int o_slabs;    ///< 64 columns of the output that a warpgroup stages at a time
  TileOrder order;
  bool turns;  ///< warpgroups issue their products in turns, so that one computes exponentials while another multiplies
  float rescale_above;  ///< growth of the largest score, as an exponent of 2, from which accumulators are rescaled
};

template <const AttentionShape& shape, const WgmmaConfig& config>
struct WgmmaTiles {
  static constexpr int tile_q = 64 * config.consumers, threads = 128 * (config.consumers + 1);
  // Shared memory: slabs of 64 columns, rows of 128 bytes, swizzled.
  static constexpr int row_bytes = 128, slab_columns = 64;
  static constexpr int qk_slabs = (shape.head_dim + 63) / 64, v_slabs = (shape.head_dim_v + 63) / 64;
  static constexpr int q_slab = tile_q * row_bytes, kv_slab = config.tile_kv * row_bytes, o_slab = 64 * row_bytes;
  static constexpr int q_bytes = qk_slabs * q_slab, k_bytes = qk_slabs * kv_slab, v_bytes = v_slabs * kv_slab;
  static constexpr int k_at = config.q_stages * q_bytes, v_at = k_at + config.stages * k_bytes,
                       o_at = v_at + config.stages * v_bytes;
  static constexpr int barriers_at = o_at + config.consumers * config.o_slabs * o_slab;
  // Barriers: for each stage of Q, K and V, that it has come, and that it is free. Then which tiles of Q they are.
  static constexpr int barriers = 2 * config.q_stages + 4 * config.stages;
  static constexpr int tiles_at = barriers_at + 8 * barriers;
  static constexpr int smem_bytes = tiles_at + 16 * config.q_stages;
};

/// A tile of queries of one head; one below 0 is none.
struct alignas(16) TileOfQueries {
  int batch, head, tile;
};

/// The tile that comes `number`-th. Heads are taken in sections whose keys and values fit into L2 together; within one, the
/// last queries of all its heads come first, which see most keys where a mask is causal.
__device__ __forceinline__ TileOfQueries tile_of(const AttentionParams& params, int number) {
  const int per_section = params.heads_per_section * params.q_tiles;
  const int section = number / per_section, rest = number - section * per_section;
  const int first = section * params.heads_per_section, all = params.batch * params.heads;
  const int heads = all - first < params.heads_per_section ? all - first : params.heads_per_section;
  const int tile = rest / heads, head = first + rest - tile * heads, batch = head / params.heads;
  return {batch, head - batch * params.heads, params.q_tiles - 1 - tile};
}

/// Stages one after the other, over and over; a barrier's parity changes each time around.
template <int count>
struct Stage {
  int index = 0;
  uint32 parity = 0;
  __device__ __forceinline__ void next() {
    if (++index == count) {
      index = 0;
      parity ^= 1;
    }
  }
};

/// Addresses of barriers in shared memory.
template <int q_stages>
struct Barriers {
  uint32 base;
  __device__ __forceinline__ uint32 q_come(int stage) const { return base + 16 * stage; }
  __device__ __forceinline__ uint32 q_free(int stage) const { return base + 16 * stage + 8; }
  __device__ __forceinline__ uint32 k_come(int stage) const { return base + 16 * q_stages + 32 * stage; }
  __device__ __forceinline__ uint32 k_free(int stage) const { return k_come(stage) + 8; }
  __device__ __forceinline__ uint32 v_come(int stage) const { return k_come(stage) + 16; }
  __device__ __forceinline__ uint32 v_free(int stage) const { return k_come(stage) + 24; }
};

/// key_tiles(), or the first tile where there is none: every tile of queries takes the same way.
template <const AttentionShape& shape, int tile_kv>
__device__ __forceinline__ KeyRange some_key_tiles(const Visibility<shape>& visibility, int first_q, int last_q) {
  const KeyRange tiles = key_tiles<shape, tile_kv>(visibility, first_q, last_q);
  return tiles.empty() ? KeyRange{0, 1} : tiles;
}

/// One thread.
template <const AttentionShape& shape, const WgmmaConfig& config>
__device__ __forceinline__ void produce(const WgmmaParams& params, uint32 shared, unsigned char* memory) {
  using Tiles = WgmmaTiles<shape, config>;
  const AttentionParams& attention = params.attention;
  const Barriers<config.q_stages> barriers = {shared + Tiles::barriers_at};
  auto* const counter = reinterpret_cast<uint32*>(attention.workspace);
  auto* const queries = reinterpret_cast<TileOfQueries*>(memory + Tiles::tiles_at);
  const int tiles = attention.batch * attention.heads * attention.q_tiles;
  const int blocks = static_cast<int>(grid_blocks());
  const Sequence sequence = {0, 0, attention.seq_q, attention.seq_kv};
  const Visibility<shape> visibility(attention, sequence);
  const int group = attention.heads / attention.kv_heads;
  prefetch_tensor_map(params.q);
  prefetch_tensor_map(params.k);
  prefetch_tensor_map(params.v);
  prefetch_tensor_map(params.o);

  Stage<config.q_stages> q_stage;
  Stage<config.stages> k_stage, v_stage;
  for (int number = static_cast<int>(block_index());;) {
    const bool more = number < tiles;
    const uint32 q_come = barriers.q_come(q_stage.index);
    barrier_wait(barriers.q_free(q_stage.index), q_stage.parity ^ 1);
    // Which tile it is is worked out here, not by those who compute with it.
    const TileOfQueries tile = more ? tile_of(attention, number) : TileOfQueries{0, 0, -1};
    queries[q_stage.index] = tile;
    if (!more) {
      barrier_arrive(q_come);
      break;
    }
    // Asked for now, needed when this tile's copies have been issued.
    uint32 next = 0;
    if constexpr (config.order == TileOrder::counter) next = atomic_add(counter, 1u);
    const int kv_head = tile.head / group, first_q = tile.tile * Tiles::tile_q;
    barrier_arrive_expecting(q_come, Tiles::q_bytes);
#pragma unroll
    for (int slab = 0; slab < Tiles::qk_slabs; ++slab)
      load_tile(shared + q_stage.index * Tiles::q_bytes + slab * Tiles::q_slab, params.q, q_come, L2Hint::evict_first,
                slab * 64, first_q, tile.head, tile.batch);
    q_stage.next();

    const auto load_k = [&](int index) {
      const int stage = k_stage.index;
      barrier_wait(barriers.k_free(stage), k_stage.parity ^ 1);
      barrier_arrive_expecting(barriers.k_come(stage), Tiles::k_bytes);
#pragma unroll
      for (int slab = 0; slab < Tiles::qk_slabs; ++slab)
        load_tile(shared + Tiles::k_at + stage * Tiles::k_bytes + slab * Tiles::kv_slab, params.k, barriers.k_come(stage),
                  L2Hint::evict_last, slab * 64, index * config.tile_kv, kv_head, tile.batch);
      k_stage.next();
    };
    const auto load_v = [&](int index) {
      const int stage = v_stage.index;
      barrier_wait(barriers.v_free(stage), v_stage.parity ^ 1);
      barrier_arrive_expecting(barriers.v_come(stage), Tiles::v_bytes);
#pragma unroll
      for (int slab = 0; slab < Tiles::v_slabs; ++slab)
        load_tile(shared + Tiles::v_at + stage * Tiles::v_bytes + slab * Tiles::kv_slab, params.v, barriers.v_come(stage),
                  L2Hint::evict_last, slab * 64, index * config.tile_kv, kv_head, tile.batch);
      v_stage.next();
    };
    const KeyRange keys = some_key_tiles<shape, config.tile_kv>(visibility, first_q, first_q + Tiles::tile_q - 1);
    load_k(keys.end - 1);
    for (int index = keys.end - 2; index >= keys.begin; --index) {
      load_k(index);
      load_v(index + 1);
    }
    load_v(keys.begin);
    number = config.order == TileOrder::counter ? blocks + static_cast<int>(next) : number + blocks;
  }
  if constexpr (config.order == TileOrder::counter) {
    // The last block to finish leaves the counters as it found them.
    if (atomic_add(counter + 1, 1u) == static_cast<uint32>(blocks) - 1) {
      counter[0] = 0;
      counter[1] = 0;
    }
  }
}

/// A warpgroup of 64 queries.
template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaConfig& config>
struct Consumer {
  using Tiles = WgmmaTiles<shape, config>;
  using Rule = Scores<shape, Modification>;
  static constexpr int keys = config.tile_kv, steps = keys / 16;

  /// A tile of queries, and its tiles of keys: those that come, and among them those that this warpgroup looks at.
  struct Work {
    TileOfQueries tile;
    int first_q;
    KeyRange coming, seen;

    /// Tiles that this warpgroup only hands back. No more than there are stages: K of the first one that it sees comes
    /// behind V of those, of which the last one but a stage is still in work.
    __device__ __forceinline__ int ahead() const { return coming.end - seen.end; }
  };

  const WgmmaParams& params;
  unsigned char* const memory;
  const uint32 shared;
  const Barriers<config.q_stages> barriers;
  const int warpgroup, warp, lane;
  Stage<config.q_stages> q_stage;
  Stage<config.stages> k_stage, v_stage;

  float scores[keys / 2];  ///< of a tile; then their exponentials
  float output[shape.head_dim_v / 2];
  uint32 weights[steps][4];  ///< exponentials of the tile before, rounded
  QuadSoftmax<Element, shape, Modification, keys> softmax;

  __device__ __forceinline__ Consumer(const WgmmaParams& kernel_params, unsigned char* shared_memory, int group)
      : params(kernel_params),
        memory(shared_memory),
        shared(shared_address(shared_memory)),
        barriers{shared + Tiles::barriers_at},
        warpgroup(group),
        warp(warp_index() & 3),
        lane(lane_index()) {}

  __device__ __forceinline__ Sequence sequence() const { return {0, 0, params.attention.seq_q, params.attention.seq_kv}; }
  __device__ __forceinline__ Work work_of(const TileOfQueries& tile) const {
    Work work;
    work.tile = tile;
    const int block_q = work.tile.tile * Tiles::tile_q;
    work.first_q = block_q + 64 * warpgroup;
    const Visibility<shape> visibility(params.attention, sequence());
    work.coming = some_key_tiles<shape, keys>(visibility, block_q, block_q + Tiles::tile_q - 1);
    work.seen = work.coming;
    if constexpr ((shape.bounded_left || shape.bounded_right) && !config.turns) {
      const KeyRange own = key_tiles<shape, keys>(visibility, work.first_q, work.first_q + 63);
      // Of none that it sees the last one that comes, all of it masked. What comes behind the last one that it sees is
      // masked too, and multiplied: the next tile of queries must not wait for it.
      work.seen = {work.coming.begin, own.empty() ? work.coming.end : own.end};
    }
    return work;
  }

  /// The next tile of queries, once it has come; none after the last one.
  __device__ __forceinline__ TileOfQueries await_queries() const {
    barrier_wait(barriers.q_come(q_stage.index), q_stage.parity);
    return reinterpret_cast<const TileOfQueries*>(memory + Tiles::tiles_at)[q_stage.index];
  }
  __device__ __forceinline__ void free_queries() {
    sync_warp();  // all lanes have read which tile it is
    if (lane == 0) barrier_arrive(barriers.q_free(q_stage.index));
    q_stage.next();
  }

  __device__ __forceinline__ void await_keys() const { barrier_wait(barriers.k_come(k_stage.index), k_stage.parity); }
  /// S = Q K^T, not awaited.
  __device__ __forceinline__ void multiply_keys() {
    const uint64 q = matrix_descriptor(shared + q_stage.index * Tiles::q_bytes + warpgroup * 64 * Tiles::row_bytes, 1024);
    const uint64 k = matrix_descriptor(shared + Tiles::k_at + k_stage.index * Tiles::k_bytes, 1024);
    wgmma_fence(scores);
#pragma unroll
    for (int step = 0; step < (shape.head_dim + 15) / 16; ++step) {
      const int slab = step / 4, within = step % 4 * 32;
      wgmma<Element, Innermost::k>(scores, advance(q, slab * Tiles::q_slab + within),
                                   advance(k, slab * Tiles::kv_slab + within), step > 0);
    }
    wgmma_commit();
  }
  __device__ __forceinline__ void free_keys() {
    if (lane == 0) barrier_arrive(barriers.k_free(k_stage.index));
    k_stage.next();
  }

  /// O += P V, not awaited; O = P V for the first tile, so that nothing but the tensor cores writes O while they work.
  __device__ __forceinline__ void multiply_values(bool first) {
    barrier_wait(barriers.v_come(v_stage.index), v_stage.parity);
    const uint64 v = matrix_descriptor(shared + Tiles::v_at + v_stage.index * Tiles::v_bytes, 1024, Tiles::kv_slab);
    pin_weights();
    wgmma_fence(output);
#pragma unroll
    for (int step = 0; step < steps; ++step)
      wgmma<Element, Innermost::n>(output, weights[step], advance(v, step * 2048), step > 0 || !first);
    wgmma_commit();
  }
  /// Their registers are read until the product is done.
  __device__ __forceinline__ void pin_weights() {
#pragma unroll
    for (int step = 0; step < steps; ++step) pin(weights[step]);
  }
  /// `pending`: products issued since, which may go on.
  template <int pending>
  __device__ __forceinline__ void await_values() {
    wgmma_wait<pending>(output);
    pin_weights();
  }
  __device__ __forceinline__ void free_values() {
    if (lane == 0) barrier_arrive(barriers.v_free(v_stage.index));
    v_stage.next();
  }

  /// Hands back tiles of which this warpgroup sees nothing. All lanes wait, lest one still waits when the stage has gone
  /// around.
  __device__ __forceinline__ void skip_keys(int count) {
    for (int i = 0; i < count; ++i) {
      await_keys();
      sync_warp();
      free_keys();
    }
  }
  __device__ __forceinline__ void skip_values(int count) {
    for (int i = 0; i < count; ++i) {
      barrier_wait(barriers.v_come(v_stage.index), v_stage.parity);
      sync_warp();
      free_values();
    }
  }

  // Turns: a named barrier for each warpgroup, at which the one before it arrives. All take as many turns, since with turns
  // none skips a tile.
  static constexpr int first_turn = 1 + config.consumers;
  __device__ __forceinline__ void await_turn() const {
    if constexpr (config.turns) sync_threads(first_turn + warpgroup, 256);
  }
  __device__ __forceinline__ void pass_turn() const {
    if constexpr (config.turns) arrive_threads(first_turn + (warpgroup + 1 == config.consumers ? 0 : warpgroup + 1), 256);
  }

  __device__ __forceinline__ void round() {
#pragma unroll
    for (int step = 0; step < steps; ++step) round_weights<Element>(scores, step, weights[step]);
  }

  /// A tile of queries in work: where it lies, and what a score of it is.
  struct Current {
    Work work;
    Rule rule;
    KeyRange whole;  ///< keys that all of the warpgroup's queries see
    int query;       ///< this thread's first; the second one is 8 further

    __device__ __forceinline__ Current(const Consumer& consumer, const TileOfQueries& tile)
        : work(consumer.work_of(tile)),
          rule(consumer.params.attention, consumer.sequence(), work.tile.batch, work.tile.head),
          whole(rule.visibility().of_all(work.first_q, work.first_q + 63)),
          query(work.first_q + 16 * consumer.warp + consumer.lane / 4) {}
  };
  __device__ __forceinline__ void exponentiate(const Current& current, int index, float (&rescale)[2]) {
    const int first_k = index * keys;
    if (current.whole.holds(first_k, first_k + keys - 1))
      softmax.template exponentiate<true>(scores, current.rule, current.query, first_k, lane, config.rescale_above, rescale);
    else
      softmax.template exponentiate<false>(scores, current.rule, current.query, first_k, lane, config.rescale_above,
                                           rescale);
  }
  /// The first tile of keys, on its own.
  __device__ __forceinline__ void begin(const Current& current) {
    skip_keys(current.work.ahead());
    await_keys();
    await_turn();
    multiply_keys();
    pass_turn();
    wgmma_wait<0>(scores);
    free_keys();
    skip_values(current.work.ahead());
    float rescale[2];
    softmax.reset();
    exponentiate(current, current.work.seen.end - 1, rescale);
    round();
  }

  /// All tiles of queries that the block gets, one at least, as one sequence of tiles of keys: the first product of a tile
  /// of queries runs beside the last one of the tile before, as within a tile.
  __device__ __forceinline__ void run_through() {
    Current current(*this, await_queries());
    if (config.turns && warpgroup + 1 == config.consumers) pass_turn();  // the first one's turn comes from nobody
    begin(current);
    int index = current.work.seen.end - 1;
    bool first = true, waiting = false;  // an output waits to be written until the next product runs
    Results results = {};                // its tile's
    while (true) {
      const bool last = index == current.work.seen.begin;
      const TileOfQueries tile = current.work.tile;
      const int query = current.query;
      if (last) {
        free_queries();
        const TileOfQueries next = await_queries();
        if (next.tile < 0) {
          if (waiting) write(results);
          multiply_values(first);
          const Results ended = end(tile, query);
          await_values<0>();
          write(ended);
          break;
        }
        current = Current(*this, next);
        index = current.work.seen.end;
        skip_keys(current.work.ahead());
      }
      --index;
      await_keys();
      await_turn();
      multiply_keys();
      if (waiting) write(results);
      multiply_values(first);
      pass_turn();
      wgmma_wait<1>(scores);
      free_keys();
      float rescale[2];
      if (last) {
        results = end(tile, query);
        softmax.reset();
      }
      exponentiate(current, index, rescale);
      await_values<0>();
      free_values();
      if (last)
        skip_values(current.work.ahead());
      else
        rescale_rows(output, rescale);
      round();
      first = waiting = last;
    }
    store_wait<0>();
  }

  /// The same, each tile of queries on its own, where there is room for one only.
  __device__ __forceinline__ void run_apart() {
    if (config.turns && warpgroup + 1 == config.consumers) pass_turn();
    for (TileOfQueries tile = await_queries(); tile.tile >= 0; tile = await_queries()) {
      const Current current(*this, tile);
      const KeyRange seen = current.work.seen;
      begin(current);
      for (int index = seen.end - 2; index >= seen.begin; --index) {
        await_keys();
        await_turn();
        multiply_keys();
        multiply_values(index == seen.end - 2);
        pass_turn();
        wgmma_wait<1>(scores);
        free_keys();
        float rescale[2];
        exponentiate(current, index, rescale);
        await_values<0>();
        free_values();
        rescale_rows(output, rescale);
        round();
      }
      free_queries();
      multiply_values(seen.end - seen.begin == 1);
      const Results results = end(tile, current.query);
      await_values<0>();
      free_values();
      write(results);
    }
    store_wait<0>();
  }

  /// What is known of a tile of queries before its output is.
  struct Results {
    TileOfQueries tile;
    float scale[2];  ///< of the output's rows
  };
  /// Writes the lse.
  __device__ __forceinline__ Results end(const TileOfQueries& tile, int query) const {
    const AttentionParams& attention = params.attention;
    Results results = {tile, {}};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const SoftmaxEnd end = softmax.end(attention, tile.head, Rule::factor(attention), r);
      results.scale[r] = end.scale;
      if (lane % 4 == 0 && query + 8 * r < attention.seq_q && attention.lse != nullptr)
        lse_of<shape>(attention, sequence(), tile.batch, tile.head)[query + 8 * r] = end.lse;
    }
    return results;
  }
  /// The output, by way of shared memory and the copy engine.
  __device__ __forceinline__ void write(const Results& results) {
    const TileOfQueries& tile = results.tile;
    const float(&scale)[2] = results.scale;
    const uint32 staged = shared + Tiles::o_at + warpgroup * config.o_slabs * Tiles::o_slab;
    const bool stores = warp == 0 && elect_one();
#pragma unroll
    for (int first = 0; first < Tiles::v_slabs; first += config.o_slabs) {
      // The slabs may still be on their way to the output.
      if (stores) store_wait_read<0>();
      sync_threads(1 + warpgroup, 128);
#pragma unroll
      for (int slab = first; slab < first + config.o_slabs && slab < Tiles::v_slabs; ++slab) {
        constexpr int chunks = shape.head_dim_v / 8;
#pragma unroll
        for (int chunk = 8 * slab; chunk < 8 * slab + 8 && chunk < chunks; chunk += 2) {
          uint32 words[4] = {0, 0, 0, 0};
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = 4 * chunk + 2 * i;
            if (at < shape.head_dim_v / 2)
              words[i] = pack<Element>(multiply(output[at], scale[i % 2]), multiply(output[at + 1], scale[i % 2]));
          }
          const int r = 16 * warp + lane % 16, column = chunk % 8 + lane / 16;
          store_matrices(staged + (slab - first) * Tiles::o_slab + r * Tiles::row_bytes + (column ^ r % 8) * 16, words);
        }
      }
      fence_async_shared();
      sync_threads(1 + warpgroup, 128);
      if (stores) {
#pragma unroll
        for (int slab = first; slab < first + config.o_slabs && slab < Tiles::v_slabs; ++slab)
          store_tile(params.o, staged + (slab - first) * Tiles::o_slab, slab * 64,
                     tile.tile * Tiles::tile_q + 64 * warpgroup, tile.head, tile.batch);
        store_commit();
      }
    }
  }
};

template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaConfig& config>
__device__ __forceinline__ void attention_wgmma(const WgmmaParams& params) {
  using Tiles = WgmmaTiles<shape, config>;
  unsigned char* const memory = dynamic_shared();
  const uint32 shared = shared_address(memory);
  const Barriers<config.q_stages> barriers = {shared + Tiles::barriers_at};
  if (thread_index() == 0) {
    constexpr int warps = 4 * config.consumers;
    for (int stage = 0; stage < config.q_stages; ++stage) {
      barrier_init(barriers.q_come(stage), 1);
      barrier_init(barriers.q_free(stage), warps);
    }
    for (int stage = 0; stage < config.stages; ++stage) {
      barrier_init(barriers.k_come(stage), 1);
      barrier_init(barriers.k_free(stage), warps);
      barrier_init(barriers.v_come(stage), 1);
      barrier_init(barriers.v_free(stage), warps);
    }
    barriers_ready();
  }
  sync_block();

  // The same for a whole warp, and known to be.
  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    if constexpr (config.consumers > 1) give_registers<(config.consumers == 2 ? 24 : 32)>();
    if (warp_index() == 0 && elect_one()) produce<shape, config>(params, shared, memory);
  } else {
    if constexpr (config.consumers > 1) take_registers<(config.consumers == 2 ? 240 : 160)>();
    Consumer<Element, shape, Modification, config> consumer(params, memory, group - 1);
    if constexpr (config.q_stages > 1)
      consumer.run_through();
    else
      consumer.run_apart();
  }
}

}  // namespace tunesmith

#endif
