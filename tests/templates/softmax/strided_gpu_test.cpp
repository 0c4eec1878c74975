// Numerics of softmax over a dimension that is not the last, on a GPU: every layout, a large part of the search space,
// reproducibility.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/softmax/launches.h"
#include "tests/templates/softmax/strided_cases.h"

namespace tunesmith {
namespace {

using test::Case;

class StridedSoftmaxGpu : public test::GpuKernels {
 protected:
  void verify_float32(const std::vector<Case>& cases) {
    // Units in the last place: two exponentials' and a sum's 1.24, and half a unit for its additions and for the quotient
    // (templates/softmax/reference.cpp). With few columns, the errors of a sum's terms may agree: 4.38 among 700 000
    // elements.
    constexpr double derived = 2 * 1.24 + 1.24 + 0.5 + 0.5;
    const test::LargestErrors errors = verify_all(cases);
    for (const std::string_view op : test::softmax_ops) EXPECT_LE(errors.float32(op), derived) << op;
  }
};

TEST_F(StridedSoftmaxGpu, EveryLayoutInEveryVariant) {
  std::vector<Case> cases;
  std::uint64_t seed = 100;
  std::size_t turn = 0;
  for (const Problem& problem : test::strided_problems(67)) {  // a different variant of each
    const std::vector<Config> sample = test::sample_space(problem, device().info(), 1, seed++);
    cases.push_back({problem, sample[turn++ % sample.size()]});
  }
  verify_float32(cases);
}

TEST_F(StridedSoftmaxGpu, LargePartOfTheSearchSpaceOfCommonShapes) {
  std::vector<Case> cases;
  for (const auto& [op, fields] : {std::pair{"softmax", "rows=2,cols=21,inner=16384"},
                                   {"log_softmax", "rows=2,cols=1000,inner=784,dtype=bf16"},
                                   {"softmax_backward", "rows=2,cols=19,inner=3025,dtype=f16"},
                                   {"log_softmax_backward", "rows=4,cols=128256,inner=4"}}) {
    const Problem problem = test::normalized(op, fields);
    for (const Config& config : test::sample_space(problem, device().info(), 10, 4)) cases.push_back({problem, config});
  }
  verify_float32(cases);
}

TEST_F(StridedSoftmaxGpu, IsReproducible) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const char* config :
         {"variant=resident", "variant=cluster,blocks_per_row=4", "variant=two_pass", "variant=split,blocks_per_row=5"})
      for (Case& c : case_if_valid(op, "rows=3,cols=1000,inner=52", config)) cases.push_back(std::move(c));
  EXPECT_EQ(cases.size(), has_clusters() ? 16U : 12U);
  compile_all(cases);
  for (const Case& c : cases)
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, *executable_of(c), device(), 5), "") << c.text();
}

}  // namespace
}  // namespace tunesmith
