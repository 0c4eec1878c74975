// Attention on Hopper's tensor cores (sm_90a), f16 and bf16. A block is one producer warpgroup and `consumers` warpgroups of
// 64 queries each; blocks are as many as multiprocessors and take one tile of queries after the other.
//
//   producer    one thread: for each tile of queries Q, then K and V tile by tile, each by the copy engine into the next
//   free
//               stage of shared memory; a barrier of the stage tells when it has come, another when it is free again.
//   consumer    S = Q K^T; softmax in registers; O += P V. The product of the next K is issued before that of the last V, so
//               that the tensor cores work while the exponentials of a tile are computed:
//                 S0 | softmax S0 | S1  P0 V0 | softmax S1 | S2  P1 V1 | ...
//               At the end O / sum goes to shared memory and from there to the output by the copy engine, while the producer
//               already fetches the next tile.
//
// Keys go from the last tile to the first, so that tiles which a causal mask crosses come first and the mask's code is gone
// from the rest. A row's accumulators are rescaled only when its largest score has grown by more than 2^8 since the last
// time: what is added up meanwhile is larger, never wrong.
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
  int stages;     ///< tiles of K, and of V, that are on their way or in use
  int o_slabs;    ///< 64 columns of the output that a warpgroup stages at a time
  TileOrder order;
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
  static constexpr int k_at = q_bytes, v_at = k_at + config.stages * k_bytes, o_at = v_at + config.stages * v_bytes;
  static constexpr int barriers_at = o_at + config.consumers * config.o_slabs * o_slab;
  // Barriers: Q has come, Q is free, and for each stage: K has come, is free, V has come, is free. Then the tile's number.
  static constexpr int barriers = 2 + 4 * config.stages;
  static constexpr int tile_at = barriers_at + 8 * barriers;
  static constexpr int smem_bytes = tile_at + 16;
};

/// A tile of queries of one head.
struct TileOfQueries {
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
template <typename Tiles>
struct Barriers {
  uint32 base;
  __device__ __forceinline__ uint32 q_come() const { return base; }
  __device__ __forceinline__ uint32 q_free() const { return base + 8; }
  __device__ __forceinline__ uint32 k_come(int stage) const { return base + 16 + 32 * stage; }
  __device__ __forceinline__ uint32 k_free(int stage) const { return base + 24 + 32 * stage; }
  __device__ __forceinline__ uint32 v_come(int stage) const { return base + 32 + 32 * stage; }
  __device__ __forceinline__ uint32 v_free(int stage) const { return base + 40 + 32 * stage; }
};

/// One thread.
template <const AttentionShape& shape, const WgmmaConfig& config>
__device__ __forceinline__ void produce(const WgmmaParams& params, uint32 shared, unsigned char* memory) {
  using Tiles = WgmmaTiles<shape, config>;
  const AttentionParams& attention = params.attention;
  const Barriers<Tiles> barriers = {shared + Tiles::barriers_at};
  auto* const counter = reinterpret_cast<uint32*>(attention.workspace);
  auto* const shared_tile = reinterpret_cast<volatile int*>(memory + Tiles::tile_at);
  const int tiles = attention.batch * attention.heads * attention.q_tiles;
  const int blocks = static_cast<int>(grid_blocks());
  const Sequence sequence = {0, 0, attention.seq_q, attention.seq_kv};
  const Visibility<shape> visibility(attention, sequence);
  const int group = attention.heads / attention.kv_heads;
  prefetch_tensor_map(params.q);
  prefetch_tensor_map(params.k);
  prefetch_tensor_map(params.v);
  prefetch_tensor_map(params.o);

  Stage<config.stages> k_stage, v_stage;
  uint32 q_parity = 1;
  for (int number = static_cast<int>(block_index());;) {
    const bool more = number < tiles;
    barrier_wait(barriers.q_free(), q_parity);
    q_parity ^= 1;
    *shared_tile = more ? number : -1;
    if (!more) {
      barrier_arrive(barriers.q_come());
      break;
    }
    const TileOfQueries tile = tile_of(attention, number);
    const int kv_head = tile.head / group, first_q = tile.tile * Tiles::tile_q;
    barrier_arrive_expecting(barriers.q_come(), Tiles::q_bytes);
#pragma unroll
    for (int slab = 0; slab < Tiles::qk_slabs; ++slab)
      load_tile(shared + slab * Tiles::q_slab, params.q, barriers.q_come(), L2Hint::evict_first, slab * 64, first_q,
                tile.head, tile.batch);

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
    const KeyRange keys = key_tiles<shape, config.tile_kv>(visibility, first_q, first_q + Tiles::tile_q - 1);
    if (!keys.empty()) {
      load_k(keys.end - 1);
      for (int index = keys.end - 2; index >= keys.begin; --index) {
        load_k(index);
        load_v(index + 1);
      }
      load_v(keys.begin);
    }
    if constexpr (config.order == TileOrder::counter)
      number = blocks + static_cast<int>(atomic_add(counter, 1u));
    else
      number += blocks;
  }
  if constexpr (config.order == TileOrder::counter) {
    // The last block to finish leaves the counters as it found them.
    if (atomic_add(counter + 1, 1u) == static_cast<uint32>(blocks) - 1) {
      counter[0] = 0;
      counter[1] = 0;
    }
  }
}

/// 64 queries of a tile, by a warpgroup.
template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaConfig& config>
struct Consumer {
  using Tiles = WgmmaTiles<shape, config>;
  static constexpr int keys = config.tile_kv, steps = keys / 16;

  const WgmmaParams& params;
  const uint32 shared;
  const Barriers<Tiles> barriers;
  const int warpgroup, warp, lane;
  Stage<config.stages> k_stage, v_stage;

  float scores[keys / 2];  ///< of a tile; then weights
  float output[shape.head_dim_v / 2];
  uint32 weights[steps][4];  ///< of the tile before, rounded
  QuadSoftmax<Element, shape, Modification, keys> running;

  __device__ __forceinline__ Consumer(const WgmmaParams& kernel_params, uint32 shared_base, int group)
      : params(kernel_params),
        shared(shared_base),
        barriers{shared_base + Tiles::barriers_at},
        warpgroup(group),
        warp(warp_index() & 3),
        lane(lane_index()) {}

  /// This thread's first row among the 64; the second one is 8 further.
  __device__ __forceinline__ int row() const { return 16 * warp + lane / 4; }

  /// S = Q K^T, not awaited.
  __device__ __forceinline__ void multiply_keys() {
    const int stage = k_stage.index;
    barrier_wait(barriers.k_come(stage), k_stage.parity);
    const uint64 q = matrix_descriptor(shared + warpgroup * 64 * Tiles::row_bytes, 1024);
    const uint64 k = matrix_descriptor(shared + Tiles::k_at + stage * Tiles::k_bytes, 1024);
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

  /// O += P V, not awaited.
  __device__ __forceinline__ void multiply_values() {
    const int stage = v_stage.index;
    barrier_wait(barriers.v_come(stage), v_stage.parity);
    const uint64 v = matrix_descriptor(shared + Tiles::v_at + stage * Tiles::v_bytes, 1024, Tiles::kv_slab);
    pin_weights();
    wgmma_fence(output);
#pragma unroll
    for (int step = 0; step < steps; ++step)
      wgmma<Element, Innermost::n>(output, weights[step], advance(v, step * 2048), true);
    wgmma_commit();
  }
  /// Their registers are read until the product is done.
  __device__ __forceinline__ void pin_weights() {
#pragma unroll
    for (int step = 0; step < steps; ++step) pin(weights[step]);
  }
  __device__ __forceinline__ void await_values() {
    wgmma_wait<0>(output);
    pin_weights();
    if (lane == 0) barrier_arrive(barriers.v_free(v_stage.index));
    v_stage.next();
  }

  __device__ __forceinline__ void round_all() {
#pragma unroll
    for (int step = 0; step < steps; ++step) round_weights<Element>(scores, step, weights[step]);
  }

  __device__ __forceinline__ void attend(const TileOfQueries& tile) {
    const AttentionParams& attention = params.attention;
    const Sequence sequence = {0, 0, attention.seq_q, attention.seq_kv};
    const Scores<shape, Modification> rule(attention, sequence, tile.batch, tile.head);
    const int block_q = tile.tile * Tiles::tile_q, first_q = block_q + 64 * warpgroup, query = first_q + row();
    const KeyRange tiles = key_tiles<shape, keys>(rule.visibility(), block_q, block_q + Tiles::tile_q - 1);
    const KeyRange whole = rule.visibility().of_all(first_q, first_q + 63);
    running.reset();
#pragma unroll
    for (int i = 0; i < shape.head_dim_v / 2; ++i) output[i] = 0.0f;

    const auto softmax = [&](int index, float(&rescale)[2]) {
      const int first_k = index * keys;
      if (whole.holds(first_k, first_k + keys - 1))
        running.template exponentiate<true>(scores, rule, query, first_k, lane, config.rescale_above, rescale);
      else
        running.template exponentiate<false>(scores, rule, query, first_k, lane, config.rescale_above, rescale);
    };
    float rescale[2];
    if (!tiles.empty()) {
      multiply_keys();
      wgmma_wait<0>(scores);
      free_keys();
      softmax(tiles.end - 1, rescale);
      round_all();
      for (int index = tiles.end - 2; index >= tiles.begin; --index) {
        multiply_keys();
        multiply_values();
        wgmma_wait<1>(scores);
        free_keys();
        softmax(index, rescale);
        await_values();
        rescale_rows(output, rescale);
        round_all();
      }
    }
    sync_warp();  // without a tile nothing else has held the lanes together that read the tile's number
    if (lane == 0) barrier_arrive(barriers.q_free());
    if (!tiles.empty()) {
      multiply_values();
      await_values();
    }
    finish(rule, tile, query);
  }

  /// The tile's results, by the copy engine; the lse by the threads themselves.
  __device__ __forceinline__ void finish(const Scores<shape, Modification>& rule, const TileOfQueries& tile, int query) {
    const AttentionParams& attention = params.attention;
    const Sequence sequence = {0, 0, attention.seq_q, attention.seq_kv};
    float scale[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const SoftmaxEnd end = running.end(attention, tile.head, rule.factor(), r);
      scale[r] = end.scale;
      if (lane % 4 == 0 && query + 8 * r < attention.seq_q && attention.lse != nullptr)
        lse_of<shape>(attention, sequence, tile.batch, tile.head)[query + 8 * r] = end.lse;
    }
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
  const Barriers<Tiles> barriers = {shared + Tiles::barriers_at};
  if (thread_index() == 0) {
    constexpr int warps = 4 * config.consumers;
    barrier_init(barriers.q_come(), 1);
    barrier_init(barriers.q_free(), warps);
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
    Consumer<Element, shape, Modification, config> consumer(params, shared, group - 1);
    for (uint32 parity = 0;; parity ^= 1) {
      barrier_wait(barriers.q_come(), parity);
      const int number = *reinterpret_cast<volatile int*>(memory + Tiles::tile_at);
      if (number < 0) break;
      consumer.attend(tile_of(params.attention, number));
    }
    store_wait<0>();
  }
}

}  // namespace tunesmith

#endif
