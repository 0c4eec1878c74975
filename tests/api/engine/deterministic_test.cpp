// Plan::deterministic(): a plan says whether equal inputs give equal bits in every run.

#include <gtest/gtest.h>

#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

using fakes::FakeEngine;
using fakes::in_mode;

TEST(DeterministicPlan, APlanSaysWhetherItIsOne) {
  FakeEngine fake(in_mode(Mode::off));  // of sm_90a
  AttentionBackwardProblem problem{{.heads = 64, .seq_q = 1024, .head_dim = 128}};
  const Plan fused = fake.engine->prepare(problem);
  ASSERT_EQ(fused.config().variant(), "wgmma");
  EXPECT_FALSE(fused.deterministic());
  PrepareOptions options;
  for (const char* adds_nothing : {"variant=wgmma,kernels=2", "variant=mma"}) {
    options.config.fields = parse_fields(adds_nothing, "config");
    EXPECT_TRUE(fake.engine->prepare(problem, options).deterministic()) << adds_nothing;
  }

  problem.score_mod =
      "// aux: bias:f32[heads]\n"
      "__device__ float score_mod(float score, int, int h, int, int, const Aux& aux) { return score + aux.bias[h]; }\n";
  problem.daux = {"bias"};
  EXPECT_FALSE(fake.engine->prepare(problem, options).deterministic());

  problem.deterministic = true;
  EXPECT_TRUE(fake.engine->prepare(problem, options).deterministic());
  const Plan ordered = fake.engine->prepare(problem);
  ASSERT_EQ(ordered.config().variant(), "wgmma");
  EXPECT_TRUE(ordered.deterministic());

  EXPECT_TRUE(fake.engine->prepare(static_cast<const AttentionProblem&>(problem)).deterministic());
  EXPECT_TRUE(fake.engine->prepare(SoftmaxProblem::contiguous(8, 100, DType::f32)).deterministic());
}

}  // namespace
}  // namespace tunesmith
