// Attention backward for Hopper (sm_90a), f16 and bf16, warp-specialized: one kernel with five products, or two kernels with
// four and three. A block keeps 128 or 64 keys of a key head and goes through the Q tiles of all heads that share them.
//
//   multipliers  two warpgroups of 64 keys each, which never wait for each other:
//                  S^T = K Q^T, P^T = exp(S^T - lse), dP^T = V dO^T, dV += P^T dO, dS^T = P^T * (dP^T - delta), dK += dS^T Q
//                P^T and dS^T are A operands in registers. P is kept in 16 bits only, so that S and dP share registers. With
//                `ahead`, S^T of the next tile follows dK without a gap.
//                Head dimensions above 128 leave no registers for both gradients of 64 keys (`roles`): there a block has 64
//                keys, one warpgroup computes S, P and dV, the other one dP, dS and dK, and P goes through shared memory.
//   loader       one warpgroup. One thread loads K, V and a ring of Q and dO tiles through TMA. Where that is faster, the
//                first loads start before the block's threads have met (`loads_early`). All threads compute dQ = dS K for dS
//                that the multipliers leave in shared memory, in pieces of 64 x 64, and add the pieces to float32 sums in
//                the workspace by bulk reductions. Its fences and stores thus delay no other product.
//   adders       a fourth warpgroup, always if `ordered` and roles are keys. One of its warps loads instead, two add the
//                pieces (LoaderWithAdders). More registers are left to the others without it, which `ahead` needs at
//                head_dim 128.
//
// Launches     Each kernel may start while the one before it ends (device/dependent_launch.cuh).
//
// Two kernels  Instead, dQ has a kernel of its own, in which blocks keep queries (wgmma_queries.cuh). Then this one neither
//              stores dS nor adds anything, and its loader only loads. S and dP are computed twice, but there are no sums in
//              the workspace, and dQ has the same bits in each run. The additions to dQ cost more than two products above
//              head_dim 128, and for few blocks, because the blocks of both kernels run next to each other.
//
// Every "come" and "free" of a stage is an mbarrier. Before: delta, log2(e) * lse, and zeros for the sums, or for their
// counters if there are adders (prepare.cuh). After: the sums become dQ (wgmma_dq.cuh).
//
// Order        The sums are formed in any order, so dQ may differ by rounding between runs, unless `ordered`: then each part
//              of 64 queries and 64 columns has a counter (head dimensions above 128: 16 queries), and a block adds its part
//              when the counter says that the blocks before it have (QueryRing). Blocks take tickets in the order of
//              WgmmaKeys and only wait for smaller tickets, so the smallest one always proceeds.
//
// Cluster      If a cluster of blocks holds all keys of a key head, its blocks exchange pieces of dQ through shared memory:
//              nothing is summed in the workspace, no kernel follows, and dQ has the same bits in each run
//              (wgmma_exchange.cuh).
//
// Head split   Under a causal mask, or with few key heads, there may be too few blocks to fill the device evenly. Then the
//              blocks of a cluster share the query heads of a key head, and add dK and dV at the end
//              (wgmma_head_split.cuh).
//
// Persistent   A persistent block goes through the keys of many blocks (wgmma_persistent.cuh).
//
// Options      With softcap, score_mod or dropout the factor of dP - delta is not the P of dV. It is kept in 16 bits in the
//              place of dS. Its sign, or the sign of P, says which pairs are dropped. The numbers of dropout are computed
//              while tensor cores compute S. mask_mod: fully masked Q tiles are skipped (MaskedQueryRing), and mask_mod is
//              called in partial tiles only. Packed sequences: the tensor maps end where the sequence ends, so that TMA
//              reads zeros beyond it and writes nothing there (MapPlace). Statistics and sums of each sequence begin at a
//              multiple of 128 rows. dslopes: each warp adds its pairs' share to a place of its own, and the last kernel
//              sums these.
//
// Limits       At head_dim 128 with 64 x 128 tiles shared memory moves 2950 clocks' worth of data for 2560 clocks of
//              products. With 64 keys at head_dim 256 the additions to dQ move 0.4 / 64 bytes for each operation.
//
// Reference: FlashAttention-3 (arXiv:2407.08608); dQ in a warpgroup of its own, as in ThunderKittens.
#pragma once

#include "attention/unaligned.cuh"
#include "attention_backward/aux_mma.cuh"
#include "attention_backward/heads.cuh"
#include "attention_backward/prepare.cuh"
#include "attention_backward/score_gradient.cuh"
#include "attention_backward/wgmma_adders.cuh"
#include "attention_backward/wgmma_dq.cuh"
#include "attention_backward/wgmma_exchange.cuh"
#include "attention_backward/wgmma_loader.cuh"
#include "attention_backward/wgmma_multiplier.cuh"
#include "attention_backward/wgmma_persistent.cuh"
#include "attention_backward/wgmma_queries.cuh"
#include "device/dependent_launch.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

template <typename Element, const AttentionShape& shape, typename Modification, const WgmmaBackwardConfig& config>
__device__ __forceinline__ void attention_backward_wgmma(const WgmmaBackwardParams& params) {
  using Tiles = WgmmaBackwardTiles<shape, config>;
  using Registers = WgmmaBackwardRegisters<Element, shape, config>;
  const uint32 shared = shared_address(dynamic_shared());
  const BackwardBarriers<config.stages> barriers = {shared + Tiles::barriers_at};
  await_last_kernel();
  let_next_kernel_start();  // on multiprocessors without further blocks of this one, whose results it awaits
  if (thread_index() == (Tiles::loads_early ? 32 * Tiles::loading_warp : 0)) {
    for (const TensorMap* map : {&params.q, &params.k, &params.v, &params.dout}) prefetch_tensor_map(*map);
    constexpr int warps = 4 * Tiles::multipliers, factor_warps = Tiles::by_gradient ? 4 : warps;
    for (int stage = 0; stage < config.stages; ++stage) {
      barrier_init(barriers.q_full(stage), 1);
      barrier_init(barriers.q_empty(stage), warps);
      barrier_init(barriers.dout_full(stage), 1);
      barrier_init(barriers.dout_empty(stage), warps);
    }
    for (int stage = 0; stage < 2; ++stage) {
      if constexpr (!Tiles::separate_dq) {
        barrier_init(barriers.ds_full(stage), factor_warps);
        barrier_init(barriers.ds_empty(stage), 4);
      }
      if constexpr (Tiles::by_gradient) {
        barrier_init(barriers.p_full(stage), 4);
        barrier_init(barriers.p_empty(stage), 4);
      }
    }
    if constexpr (config.adders)
      for (int stage = 0; stage < Tiles::sums_stages; ++stage) {
        barrier_init(barriers.sums_full(stage), 4);
        barrier_init(barriers.sums_empty(stage), 1);
      }
    if constexpr (config.cluster > 0) {
      for (int stage = 0; stage < 2; ++stage) {
        barrier_init(barriers.slots_full(stage), 1);
        barrier_init(barriers.slots_empty(stage), 4 * config.cluster);
      }
    }
    for (int stage = 0; stage < Tiles::kv_stages; ++stage) {
      barrier_init(barriers.k_full(stage), 1);
      barrier_init(barriers.v_full(stage), 1);
    }
    if constexpr (config.persistent) {
      for (int i = 0; i < 2; ++i) {
        barrier_init(barriers.k_empty(i), 1);
        barrier_init(barriers.v_empty(i), 1);
        for (int group = 0; group < Tiles::multipliers; ++group) {
          barrier_init(barriers.dv_staged(i, group), 4);
          barrier_init(barriers.dk_staged(i, group), 4);
        }
        barrier_init(barriers.item_full(i), 1);
        barrier_init(barriers.dq_done(i), 4);
        barrier_init(barriers.item_empty(i), PersistentItems<shape, config>::readers);
      }
    } else if constexpr (config.ordered)
      *reinterpret_cast<uint32*>(dynamic_shared() + Tiles::ticket_at) =
          atomic_add(workspace_words(params.backward, params.backward.counters_at), 1u);
    barriers_ready();
  }
  if constexpr (Tiles::loads_early)
    if (warp_index() == Tiles::loading_warp) {
      sync_warp();
      using First = Loader<Element, shape, config>;
      // Others compute it again, so that no register holds it until then.
      const int number = here(block_number<config>(shared + Tiles::ticket_at));
      First(params, shared, First::keys_of(params, number)).begin();
    }
  sync_block();
  if constexpr (config.cluster > 0)
    cluster_arrive_relaxed();  // the fence has published the barriers
  else if constexpr (shape.varlen && !config.persistent) {
    const WgmmaKeys keys(params.backward, Tiles::tile_kv, block_number<config>(shared + Tiles::ticket_at),
                         Tiles::last_first);
    if (keys.first_k >= sequence_of<shape>(params.backward.attention, keys.batch).seq_kv) return;
  }
  // Uniform for the warp, in a way that the compiler sees.
  const int group = shuffle(warp_index() / 4, 0);
  if constexpr (config.adders) {
    if (group == 3) {
      give_registers<Registers::helper>();
      if constexpr (config.persistent)
        PersistentLoader<Element, shape, config>(params, shared).run_helpers();
      else
        LoaderWithAdders<Element, shape, config>(params, shared).run_helpers();
      if constexpr (config.head_split > 0) HeadSplit<shape, config>::attend();
      return;
    }
  }
  if (group == 0) {
    if constexpr (config.adders) {
      give_registers<Registers::loader>();
      if constexpr (config.persistent)
        PersistentLoader<Element, shape, config>(params, shared).multiply_pieces();
      else
        LoaderWithAdders<Element, shape, config>(params, shared).multiply_pieces();
    } else {
      give_registers<Registers::loader>();
      if constexpr (Tiles::separate_dq) {
        if (warp_index() == 0) Loader<Element, shape, config>(params, shared).load_tiles();
      } else if constexpr (config.cluster > 0)
        ExchangingLoader<Element, shape, config>(params, shared).run();
      else
        Loader<Element, shape, config>(params, shared).run();
    }
    if constexpr (config.head_split > 0) HeadSplit<shape, config>::attend();
  } else {
    take_registers<Registers::multiplier>();
    if constexpr (config.persistent) {
      PersistentMultiplier<Element, shape, Modification, config>(params, shared, group - 1).run();
      return;
    }
    Multiplier<Element, shape, Modification, config> multiplier(params, shared, group - 1);
    if constexpr (config.cluster > 0) {
      if (has_keys<shape>(params.backward, multiplier.keys_of(block_number<config>(0)))) multiplier.run();
      cluster_wait();
    } else if constexpr (!Tiles::by_gradient)
      multiplier.run();
    else if (group == 1)
      multiplier.run_values();
    else
      multiplier.run_keys();
  }
}

}  // namespace tunesmith

#endif
