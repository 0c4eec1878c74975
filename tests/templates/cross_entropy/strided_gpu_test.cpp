// Cross-entropy over a dimension that is not the last, on a GPU: numerics of the host executor's cases, a large part of the
// search space of common shapes, reproducibility.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/cross_entropy/strided_cases.h"
#include "tests/templates/softmax/launches.h"

namespace tunesmith {
namespace {

using test::Case;

class StridedCrossEntropyGpu : public test::GpuKernels {};

TEST_F(StridedCrossEntropyGpu, EveryOptionInEveryVariant) {
  std::vector<Case> cases;
  std::uint64_t seed = 60;
  for (const Problem& problem : test::strided_cross_entropy_problems())
    for (const Config& config : test::sample_space(problem, device().info(), 3, seed++)) cases.push_back({problem, config});
  for (Case& c : test::strided_cross_entropy_variants(device().info())) cases.push_back(std::move(c));
  verify_all(cases);
}

TEST_F(StridedCrossEntropyGpu, LargePartOfTheSearchSpaceOfCommonShapes) {
  std::vector<Case> cases;
  for (const auto& [op, fields] : {std::pair{"cross_entropy", "rows=2,cols=21,inner=16384,gradient=separate,dloss=scalar"},
                                   {"cross_entropy", "rows=2,cols=19,inner=3025,dtype=bf16,gradient=in_place"},
                                   {"cross_entropy", "rows=2,cols=1000,inner=784,dtype=bf16,reduction=none,nll=1"},
                                   {"cross_entropy", "rows=4,cols=128256,inner=4,gradient=in_place,reduction=none"},
                                   {"cross_entropy_backward", "rows=2,cols=150,inner=4096,dtype=bf16,nll=1"}}) {
    const Problem problem = test::normalized(op, fields);
    for (const Config& config : test::sample_space(problem, device().info(), 10, 4)) cases.push_back({problem, config});
  }
  verify_all(cases);
}

TEST_F(StridedCrossEntropyGpu, IsReproducible) {
  std::vector<Case> cases;
  for (const char* config :
       {"variant=resident", "variant=cluster,blocks_per_row=4", "variant=two_pass", "variant=split,blocks_per_row=5"})
    for (Case& c : case_if_valid("cross_entropy", "rows=3,cols=1000,inner=52,gradient=separate", config))
      cases.push_back(std::move(c));
  EXPECT_EQ(cases.size(), has_clusters() ? 4U : 3U);
  compile_all(cases);
  for (const Case& c : cases)
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, *executable_of(c), device(), 5), "") << c.text();
}

}  // namespace
}  // namespace tunesmith
