// Numerics of the kernels over rows on a GPU, compared with float64: programs x schedules x access patterns x dtypes; and
// whether launches are reproducible.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/rows/matrix.h"
#include "tests/templates/softmax/launches.h"

namespace tunesmith {
namespace {

class RowsGpu : public test::GpuKernels, public testing::WithParamInterface<std::string> {};

TEST_P(RowsGpu, Matrix) {
  std::vector<test::Case> cases;
  for (const std::uint64_t seed : {3, 4})
    for (const test::MatrixCase& each : test::row_matrix(GetParam(), {device().info()}, seed)) cases.push_back(each.c);
  test::expect_accurate(GetParam(), verify_each(cases));
  constexpr std::size_t some = 7;
  constexpr int launches = 5;
  for (std::size_t i = 0; i < cases.size(); i += some) {
    const test::Case& c = cases[i];
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, *executable_of(c), device(), launches), "") << c.text();
  }
}

INSTANTIATE_TEST_SUITE_P(All, RowsGpu, testing::ValuesIn(test::row_families()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace tunesmith
