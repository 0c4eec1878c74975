// Attention on Hopper's tensor cores (sm_90a), f16 and bf16. A block is one producer warpgroup and `consumers` warpgroups of
// 64 queries each; blocks are as many as multiprocessors and take one tile of queries after the other.
//
//   producer    one thread: for each tile of queries Q, then K and V tile by tile, each by the copy engine into the next
//               free stage of shared memory; a barrier of the stage tells when it has come, another when it is free again.
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
// With 64 columns of values instructions are scarcer than tensor cores, which therefore add up weights, too: 8 columns of
// ones stand beside the values (WgmmaTiles::sums_weights), and what ALiBi adds to dot products is a further step of their
// product (BiasTiles). O is then divided by the sum of what it was weighted with, the rounded weights.
//
// After Shah, Bikshandi, Zhang, Thakkar, Ramani and Dao, "FlashAttention-3", 2024 (arXiv:2407.08608); the threshold for
// rescaling is FlashAttention-4's (Zadouri et al., 2025).
#pragma once

#include "attention/wgmma_consumer.cuh"
#include "attention/wgmma_producer.cuh"

#if !defined(TUNESMITH_HOST_EXECUTOR) && (!defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL))

namespace tunesmith {

template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaConfig& config>
__device__ __forceinline__ void attention_wgmma(const WgmmaParams& params) {
  using Tiles = WgmmaTiles<shape, config>;
  unsigned char* const memory = dynamic_shared();
  const uint32 shared = shared_address(memory);
  const Barriers<config.q_stages> barriers = {shared + Tiles::barriers_at};
  if (thread_index() == 0) {
    for (const TensorMap* map : {&params.q, &params.k, &params.v, &params.o}) prefetch_tensor_map(*map);
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
  if constexpr (adds_bias<shape>) {
    BiasTiles<config.tile_kv, config.q_stages>::template write<Element>(memory + Tiles::bias_at, Tiles::threads);
  }
  if constexpr (Tiles::sums_weights) {
    for (int i = thread_index(); i < Tiles::ones_bytes / 4; i += Tiles::threads)
      reinterpret_cast<uint32*>(memory + Tiles::ones_at)[i] = pack<Element>(1.0f, 1.0f);
  }
  if constexpr (adds_bias<shape> || Tiles::sums_weights) fence_async_shared();
  sync_block();

  // The same for a whole warp, and known to be.
  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    if constexpr (config.consumers > 1) give_registers<(config.consumers == 3 ? 32 : 24)>();
    if (warp_index() == 0 && elect_one()) Producer<Element, shape, config>(params, memory).run();
  } else {
    if constexpr (config.consumers > 1) take_registers<(config.consumers == 2 ? 240 : config.consumers == 3 ? 160 : 112)>();
    Consumer<Element, shape, Modification, config> consumer(params, memory, group - 1);
    if constexpr (config.q_stages > 1)
      consumer.run_through();
    else
      consumer.run_apart();
  }
}

}  // namespace tunesmith

#endif
