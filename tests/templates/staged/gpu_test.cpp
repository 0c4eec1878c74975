// Rows that pass through shared memory on a GPU, compared with float64.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/staged/cases.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class StagedGpu : public test::GpuKernels {
 protected:
  void expect_passed(const std::vector<Case>& cases) {
    if (device().info().arch.number() < 80) GTEST_SKIP() << "asynchronous copies need sm_80";
    compile_all(cases);
    for (const Case& c : cases) {
      const CheckResult result = verify(*c.op().parse(c.problem), *executable_of(c), device(), 5);
      EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
    }
  }
};

TEST_F(StagedGpu, EveryWidth) { expect_passed(test::staged_widths(device().info())); }
TEST_F(StagedGpu, EveryOption) { expect_passed(test::staged_options(device().info())); }
TEST_F(StagedGpu, LossesOfEveryGeometry) { expect_passed(test::staged_losses(device().info())); }
TEST_F(StagedGpu, Buckets) { expect_passed(test::staged_buckets(device().info())); }

}  // namespace
}  // namespace tunesmith
