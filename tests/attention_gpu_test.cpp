// The same numerics on a GPU, every variant and many configurations; repeats bit for bit; offsets of 64 bits.

#include <gtest/gtest.h>

#include <map>

#include "tests/attention_cases.h"
#include "tests/gpu_kernels.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionGpu : public test::GpuKernels {
 protected:
  void verify_all(const std::vector<Case>& cases) {
    compile_all(cases);
    std::map<std::string, std::pair<double, int>> seen;
    for (const Case& c : cases) {
      const CheckResult result = verify(c.op(), c.problem, *executable_of(c), device(), 5);
      EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
      auto& [worst, count] = seen[c.config.variant() + " " + c.problem.fields.word("dtype")];
      worst = std::max(worst, result.max_error);
      ++count;
    }
    for (const auto& [what, result] : seen)
      std::printf("%s: %d configurations, worst error %.2e relative\n", what.c_str(), result.second, result.first);
  }
};

TEST_F(AttentionGpu, EveryProblemInEveryVariant) {
  verify_all(test::attention_cases(test::attention_problems(false), device().info(), 3, 7));
}

TEST_F(AttentionGpu, TensorCoresOnEveryProblem) {
  verify_all(test::attention_cases(test::attention_problems(true), device().info(), 3, 107));
}

// What tuning looks at for common shapes, as it looks at them.
TEST_F(AttentionGpu, TheSpacesOfCommonShapes) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=32,batch=4", "seq_q=4096,head_dim=128,heads=16,batch=4,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=8,batch=4", "seq_q=1,seq_kv=8192,head_dim=128,heads=32,kv_heads=8"}) {
    const Problem problem = test::normalized("attention", fields);
    const Problem small = find_op("attention").verification_problem(problem);
    for (const Config& config : find_op("attention").search_space(problem, device().info(), Effort::quick))
      cases.push_back({small, config});
  }
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
