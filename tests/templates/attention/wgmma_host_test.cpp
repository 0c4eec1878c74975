// Numerics of the wgmma kernels on the host executor, which emulates Hopper's tensor cores, TMA and barriers: a kernel that
// waits too late reads NaN (jit/host/bulk_copy.cpp).

#include <gtest/gtest.h>

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
