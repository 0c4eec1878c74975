// Kernels for a capacity on a GPU, compared with float64.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/capacity/cases.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class CapacityGpu : public test::GpuKernels {
 protected:
  void verify_shared(const std::vector<Case>& cases) {
    const std::vector<test::SharedKernel> kernels = test::by_kernel(cases);
    std::vector<Case> first;
    for (const test::SharedKernel& kernel : kernels) first.push_back(kernel.cases.front());
    compile_all(first);
    for (const test::SharedKernel& kernel : kernels) {
      const Binary binary = build(kernel.cases.front()).binary;
      for (const Case& c : kernel.cases) {
        const ParsedProblemPtr problem = c.op().parse(c.problem);
        const CheckResult result = verify(*problem, *make_executable(*problem, c.config, binary, device()), device(), 5);
        EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
      }
    }
    std::printf("%zu problems in %zu kernels\n", cases.size(), kernels.size());
  }
};

TEST_F(CapacityGpu, EverySmallWidth) { verify_shared(test::every_small_width(device().info())); }

TEST_F(CapacityGpu, BucketEndsInEveryVariant) {
  if (!has_clusters()) GTEST_SKIP() << "clusters need sm_90";
  verify_shared(test::bucket_ends_in_every_variant(device().info()));
}

TEST_F(CapacityGpu, FewLongRows) {
  if (!has_clusters()) GTEST_SKIP() << "clusters need sm_90";
  verify_shared(test::few_long_rows(device().info(), true));
}

TEST_F(CapacityGpu, RowsInSharedMemoryOfTheirOwnWidth) {
  if (!has_clusters()) GTEST_SKIP() << "clusters need sm_90";
  verify_shared(test::rows_in_shared_memory(device().info()));
}

}  // namespace
}  // namespace tunesmith
