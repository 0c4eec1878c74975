// Attention forward for Hopper (sm_90a), f16 and bf16: warp-specialized and persistent. A block has one producer warpgroup
// and `consumers` warpgroups of 64 queries each; there is one block per multiprocessor.
//
//   producer    one thread, or one warp for pages of less than a K/V tile, loads Q, K and V tiles through TMA into a ring
//               of stages in shared memory, each guarded by a "full" and an "empty" mbarrier.
//   consumer    S = Q K^T; softmax in registers; O += P V. The product with the next K is issued before the product with
//               the current V, so that tensor cores work during the exponentials:
//                 S0 | softmax S0 | S1  P0 V0 | softmax S1 | S2  P1 V1 | ...
//               With two stages of Q the same holds across Q tiles. O / sum goes to shared memory and from there to the
//               output through TMA while the next product runs.
//
// Masks       K/V tiles run from last to first, so partial tiles of a causal mask come first and full tiles need no mask
//             code. A warpgroup releases fully masked tiles without computing on them.
// Rescaling   O is rescaled only when the running maximum has grown by more than 2^8 (FlashAttention-4).
// Sums        At head_dim 64, tensor cores also sum P, by a product with 8 columns of ones (WgmmaTiles::sums_weights), and
//             add the ALiBi bias (BiasTiles), because instruction issue is the bottleneck there. O is divided by the sum of
//             rounded weights. A caller's lse comes from a second sum, of unrounded weights (UnroundedSums).
//
// Reference: FlashAttention-3 (arXiv:2407.08608).
#pragma once

#include "attention/wgmma_consumer.cuh"
#include "attention/wgmma_producer.cuh"

#if TUNESMITH_HAS_SM90A

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
      barrier_init(barriers.q_full(stage), 1);
      barrier_init(barriers.q_empty(stage), warps);
    }
    for (int stage = 0; stage < config.stages; ++stage) {
      barrier_init(barriers.k_full(stage), 1);
      barrier_init(barriers.k_empty(stage), warps);
      barrier_init(barriers.v_full(stage), 1);
      barrier_init(barriers.v_empty(stage), warps);
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

  // Make it visibly uniform within the warp for the compiler.
  const int group = shuffle(warp_index() / 4, 0);
  if (group == 0) {
    if constexpr (config.consumers > 1) give_registers<(config.consumers == 3 ? 32 : 24)>();
    using Produces = Producer<Element, shape, config>;
    if (warp_index() == 0 && (Produces::threads > 1 || elect_one())) Produces(params, memory).run();
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
