// Numerics of the wgmma kernels on the host executor, which emulates Hopper's tensor cores, TMA and barriers: a kernel that
// waits too late reads NaN (jit/host/bulk_copy.cpp).

#include <gtest/gtest.h>

#include <set>

#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"
#include "tests/templates/attention/cases.h"
#include "tests/templates/attention/mods.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionWgmmaHost : public test::HostKernels {
 protected:
  /// The host executor's own search spaces have no wgmma.
  const DeviceInfo hopper_ = generic_device(parse_arch("sm_90a"));

  /// Adds up to `more` + 1 configurations with wgmma; the first is the default if that has wgmma.
  void add_cases(const Problem& problem, std::size_t more, std::vector<Case>& cases) {
    const std::size_t first = cases.size();
    const auto parsed = find_op("attention").parse(problem);
    if (const Config config = parsed->default_config(hopper_); config.variant() == "wgmma")
      cases.push_back({problem, config});
    for (Config& config : test::sample_space(problem, hopper_, 4 * more, 11))
      if (config.variant() == "wgmma" && cases.size() <= first + more) cases.push_back({problem, std::move(config)});
  }
};

TEST_F(AttentionWgmmaHost, EveryProblem) {
  std::vector<Case> cases;
  for (const Problem& problem : test::attention_problems(true)) add_cases(problem, 0, cases);
  EXPECT_GT(cases.size(), 10U);
  verify_covering(cases);
}

// Other tiles, numbers of stages and warpgroups, orders and ping-pong scheduling.
TEST_F(AttentionWgmmaHost, FarFromTheDefault) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=300,seq_kv=420,head_dim=64,heads=2", "seq_q=200,seq_kv=260,head_dim=128,heads=2,kv_heads=1,dtype=f16,alibi=1",
        "seq_q=270,seq_kv=330,head_dim=64,head_dim_v=128,causal=bottom-right,softcap=20",
        "seq_q=150,seq_kv=300,head_dim=256,causal=top-left,window_left=100"})
    add_cases(test::normalized("attention", fields), 6, cases);
  std::set<std::int64_t> tiles_q, stages, q_stages, ping_pong;
  for (const Case& c : cases) {
    tiles_q.insert(c.config.fields.integer("tile_q"));
    stages.insert(c.config.fields.integer("stages"));
    q_stages.insert(c.config.fields.integer("q_stages"));
    ping_pong.insert(c.config.fields.integer("ping_pong"));
  }
  EXPECT_GE(tiles_q.size(), 2U);
  EXPECT_GE(stages.size(), 2U);
  EXPECT_EQ(q_stages, (std::set<std::int64_t>{1, 2}));
  EXPECT_EQ(ping_pong, (std::set<std::int64_t>{0, 1}));
  verify_covering(cases);
}

TEST_F(AttentionWgmmaHost, UserFunctions) {
  std::vector<Case> cases;
  for (const char* name : {"relative_bias", "softcap", "alibi"}) {
    Problem problem{"attention", parse_fields("batch=2,heads=2,seq_q=137,seq_kv=153,head_dim=64,dtype=bf16", "fields")};
    problem.fields.set("score_mod", test::mod_example(name));
    add_cases(find_op("attention").normalize(problem), 0, cases);
  }
  EXPECT_EQ(cases.size(), 3U);
  verify_covering(cases);
}

// Races that a GPU may not show: the executor delays copies, products and stores as long as the kernel allows.
TEST_F(AttentionWgmmaHost, DetectsMissingAndLateWaits) {
  std::vector<Case> cases;
  add_cases(test::normalized("attention", "seq_q=300,seq_kv=700,head_dim=128,dtype=bf16"), 0, cases);
  ASSERT_EQ(cases.size(), 1U);
  test::expect_detected(cases[0],
                        {
                            {"barrier_wait(barriers.q_full(q_stage.index), q_stage.parity);", ""},
                            {"barrier_wait(barriers.k_full(k_stage.index), k_stage.parity);", ""},
                            {"barrier_wait(barriers.v_full(v_stage.index), v_stage.parity);", ""},
                            {"wait_for(barriers.k_empty(stage), k_stage.parity ^ 1);", ""},
                            {"wait_for(barriers.v_empty(stage), v_stage.parity ^ 1);", ""},
                            {"if (lane == 0) barrier_arrive(barriers.k_empty(k_stage.index));", ""},
                            {"wgmma_wait<1>(scores);", ""},
                            {"wgmma_wait<pending>(output);", ""},
                            {"wgmma_wait<pending>(output);", "wgmma_wait<pending + 1>(output);"},
                            {"store_wait<0>();", ""},
                        },
                        device_, compiler_);
}

}  // namespace
}  // namespace tunesmith
