// Sources of the kernels over rows: NVRTC compiles programs x schedules x access patterns x dtypes, each schedule and dtype
// for every architecture that has it.

#include <gtest/gtest.h>

#include "tests/support/source_compilation.h"
#include "tests/templates/rows/matrix.h"

namespace tunesmith {
namespace {

class RowsNvrtc : public test::SourceCompilation, public testing::WithParamInterface<std::string> {};

TEST_P(RowsNvrtc, Matrix) {
  std::vector<DeviceInfo> devices;
  for (const char* arch : test::archs) {
    EXPECT_TRUE(supports(parse_arch(arch))) << arch;
    devices.push_back(generic_device(parse_arch(arch)));
  }
  const std::vector<test::MatrixCase> matrix = test::row_matrix(GetParam(), devices, 2);
  test::expect_complete(GetParam(), matrix);
  std::vector<Source> sources;
  for (const test::MatrixCase& each : matrix) sources.push_back(source_of(each.c, devices[each.device].arch));
  compile_all(sources, any_spills);
}

INSTANTIATE_TEST_SUITE_P(All, RowsNvrtc, testing::ValuesIn(test::row_families()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace tunesmith
