// Numerics of the kernels over rows on the host executor, compared with float64, with poisoned outputs and canaries
// (tuner/verify.h): programs x schedules x access patterns x dtypes.

#include <gtest/gtest.h>

#include "tests/support/host_kernels.h"
#include "tests/templates/rows/matrix.h"

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

}  // namespace
}  // namespace tunesmith
