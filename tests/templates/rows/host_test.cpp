// Numerics of the kernels over rows on the host executor, compared with float64, with poisoned outputs and canaries
// (tuner/verify.h): programs x schedules x access patterns x dtypes.

#include <gtest/gtest.h>

#include "tests/support/host_kernels.h"
#include "tests/templates/rows/matrix.h"
#include "tests/templates/softmax/launches.h"

namespace tunesmith {
namespace {

class RowsHost : public test::HostKernels, public testing::WithParamInterface<std::string> {};

TEST_P(RowsHost, Matrix) {
  const std::vector<test::MatrixCase> matrix = test::row_matrix(GetParam(), {device_.info()}, 1);
  test::expect_complete(GetParam(), matrix);
  std::vector<test::Case> cases;
  for (const test::MatrixCase& each : matrix) cases.push_back(each.c);
  test::expect_accurate(GetParam(), verify_all(cases));
}

INSTANTIATE_TEST_SUITE_P(All, RowsHost, testing::ValuesIn(test::row_families()),
                         [](const auto& family) { return family.param; });

class RowsAlone : public test::HostKernels {};

// A row gives bitwise the same result alone and with other rows, for any number of groups or blocks.
TEST_F(RowsAlone, ResultsDoNotDependOnTheNumberOfRows) {
  std::vector<test::Case> cases;
  for (const char* op : {"log_softmax", "softmax_backward", "layer_norm"})
    for (const auto& [fields, config] :
         {std::pair{",cols=300", "variant=warp"},
          {",cols=9000", "variant=block"},
          {",cols=9000", "variant=block,prefetch_blocks=2"},
          {",cols=9000", "variant=cluster"},
          {",cols=14008", "variant=grid,threads=32,blocks_per_row=40,register_vectors=4,min_blocks=1"},
          {",cols=9000", "variant=split"},
          {",cols=9000", "variant=two_pass,blocks_per_sm=1"},
          {",cols=900", "variant=persistent,threads=64,blocks_per_row=1,stages=3,batch=2"},
          {",cols=100,inner=12", "variant=resident,threads=128,lanes=4"},
          {",cols=100,inner=12", "variant=two_pass,threads=64,lanes=8"},
          {",cols=100,inner=12", "variant=cluster,threads=64,lanes=4,blocks_per_row=2"},
          {",cols=100,inner=12", "variant=split,threads=64,lanes=4,blocks_per_row=3"}})
      try {
        const test::Case alone = case_of(op, std::string("rows=1") + fields, config);
        cases.push_back(alone);
        cases.push_back({test::normalized(op, std::string("rows=9") + fields), alone.config});
      } catch (const Error&) {
        // Softmax has no persistent blocks, and programs have no split over adjacent columns.
      }
  EXPECT_EQ(cases.size(), 66U);
  std::vector<std::byte> alone;
  with_executables(cases, [&](const test::Case& c, const Executable& executable) {
    std::vector<std::byte> result = test::Launches(c.op(), c.problem, device_, 1).launch(executable);
    if (c.problem.fields.integer("rows") == 1) {
      alone = std::move(result);
    } else {
      ASSERT_LT(alone.size(), result.size());
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), result.begin())) << c.text();
    }
  });
}

}  // namespace
}  // namespace tunesmith
