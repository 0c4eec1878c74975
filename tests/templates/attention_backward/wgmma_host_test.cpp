// Waits and exchanges of the wgmma kernels of attention's backward pass: the host executor, which emulates Hopper's tensor
// cores, TMA and barriers, detects each one that is missing or late (jit/host/bulk_copy.cpp).

#include <gtest/gtest.h>

#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionBackwardWgmmaHost : public test::HostKernels {
 protected:
  const DeviceInfo hopper_ = generic_device(parse_arch("sm_90a"));
};
TEST_F(AttentionBackwardWgmmaHost, DetectsMissingAndLateWaitsOfOrderedSums) {
  const Case ordered =
      test::case_of("attention_backward", "seq_q=500,seq_kv=400,head_dim=128,deterministic=1", hopper_, "kernels=1");
  test::expect_detected(ordered,
                        {
                            {"barrier_wait(barriers.sums_full(stage), parity);", ""},
                            {"barrier_arrive(barriers.sums_empty(stage));", ""},
                            {"if (lane == 0) barrier_arrive(barriers.sums_full(sums.index));", ""},
                            {"store_wait_read<0>();", ""},
                            {"barrier_wait(barriers.dout_empty(stage.index), stage.parity);", ""},
                            {"barrier_wait(barriers.q_empty(stage.index), stage.parity);", ""},
                            {"add_relaxed(this->counter(part), 1);", ""},
                        },
                        device_, compiler_);
}

// Sums that are not zeroed: each part must be stored once, and before any addition.
TEST_F(AttentionBackwardWgmmaHost, DetectsWrongFirstAdditions) {
  const Case helped = test::case_of("attention_backward", "seq_q=300,seq_kv=400,head_dim=64", hopper_, "kernels=1");
  ASSERT_EQ(helped.config.fields.integer("adders"), 1);
  test::expect_detected(helped,
                        {
                            {"== untouched) return true;", "== untouched) return false;"},
                            {"if (target.seen == stored) return false;", "return true;"},
                            {"announces = config.ordered || first;", ""},
                            {"store_wait_read<0>();", ""},
                        },
                        device_, compiler_);
}

// Each wait of the kernel for dq is necessary.
TEST_F(AttentionBackwardWgmmaHost, DetectsMissingAndLateWaitsOfTheKernelForDq) {
  const Case two{test::normalized("attention_backward", "seq_q=200,seq_kv=500,head_dim=64,causal=bottom-right"),
                 Config{parse_fields("variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,kernels=2", "config")}};
  test::expect_detected(two,
                        {
                            {"barrier_wait(barriers.q_full(), 0);", ""},
                            {"barrier_wait(barriers.dout_full(), 0);", ""},
                            {"barrier_wait(barriers.v_empty(v_stage.index), v_stage.parity ^ 1);", ""},
                            {"barrier_wait(barriers.k_empty(k_stage.index), k_stage.parity ^ 1);", ""},
                            {"if (more) now = await_keys(tiles, now.index - 1);", "--now.index;"},
                            {"wgmma_wait<1>(dq);", ""},
                            {"wgmma_wait<0>(gradients);", ""},
                            {"own_q(this->first_q() + 64 * group)", "own_q(this->first_q())"},
                        },
                        device_, compiler_);
}

// The exchange of a head split: a missing barrier or a wrong rank changes dk or dv.
TEST_F(AttentionBackwardWgmmaHost, DetectsWrongHeadSplits) {
  const Case split{test::normalized("attention_backward", "seq_q=100,seq_kv=150,head_dim=64,heads=4,kv_heads=1"),
                   Config{parse_fields("variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,head_split=4", "config")}};
  test::expect_detected(split,
                        {
                            {"send(dv, rank - 1);", "send(dv, rank);"},
                            {"takes_part && (rank & distance) == 0", "false"},
                            {"takes_part && (rank & distance) != 0", "false"},
                            {"sync_cluster();  // earlier sums have been read", ""},
                            {"kv_head * group + cluster_rank() * group / head_split", "kv_head * group"},
                        },
                        device_, compiler_);
}

TEST_F(AttentionBackwardWgmmaHost, DetectsMissingWaitsOfPersistentBlocks) {
  const Case persistent{
      test::normalized("attention_backward", "seq_q=500,seq_kv=1400,head_dim=64,heads=3,causal=bottom-right"),
      Config{parse_fields("variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=0,adders=1,persistent=1", "config")}};
  test::expect_detected(persistent,
                        {
                            {"barrier_wait(barriers.dv_staged(items.slot.index, group), items.slot.parity);", ""},
                            {"barrier_wait(barriers.dk_staged(items.slot.index, group), items.slot.parity);", ""},
                            {"barrier_wait(this->barriers.dq_done(this->item.index), this->item.parity);", ""},
                            {"work.kv_at = Tiles::kv_stage(items.slot) * Tiles::kv_bytes;", ""},
                        },
                        device_, compiler_);
}

}  // namespace
}  // namespace tunesmith
