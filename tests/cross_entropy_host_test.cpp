// Numerics of the generated cross-entropy kernels on the host executor, against float64, with poisoned outputs and canaries
// (tuner/verify.h).

#include <gtest/gtest.h>

#include <set>

#include "jit/host/host_compiler.h"
#include "jit/host/host_device.h"
#include "templates/render.h"
#include "tests/cross_entropy_cases.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class CrossEntropyHost : public testing::Test {
 protected:
  /// Compiles all cases in few compiler runs and verifies each.
  void verify_all(const std::vector<Case>& cases) {
    constexpr std::size_t batch = 16;
    for (std::size_t begin = 0; begin < cases.size(); begin += batch) {
      const std::size_t end = std::min(begin + batch, cases.size());
      std::vector<CompileRequest> requests;
      for (std::size_t i = begin; i < end; ++i)
        requests.push_back(
            {cases[i].problem.op + ".cu", render(cases[i].op(), cases[i].problem, cases[i].config), device_.info().arch});
      const auto modules = device_.load_all(compiler_.compile_many(requests));
      for (std::size_t i = begin; i < end; ++i) {
        const Case& c = cases[i];
        const Executable executable(device_, modules[i - begin], c.op().launch_plan(c.problem, c.config, device_.info()));
        const CheckResult result = verify(c.op(), c.problem, executable, device_, 3);
        EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
        worst_ = std::max(worst_, result.max_error / result.allowed_error);
      }
    }
  }

  HostDevice device_;
  HostCompiler compiler_;
  double worst_ = 0;
};

TEST_F(CrossEntropyHost, EveryOption) {
  std::vector<Case> cases;
  for (const Problem& problem : test::cross_entropy_problems())
    cases.push_back({problem, find_op(problem.op).default_config(problem, device_.info())});
  verify_all(cases);
  EXPECT_GT(worst_, 0.05) << "the judge saw no rounding errors";
}

TEST_F(CrossEntropyHost, EveryVariant) {
  const std::vector<Case> cases = test::cross_entropy_variants(device_.info());
  std::set<std::string> variants;
  for (const Case& c : cases) variants.insert(c.config.variant());
  EXPECT_EQ(variants, (std::set<std::string>{"warp", "block", "hybrid", "cluster", "grid", "online", "split"}));
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
