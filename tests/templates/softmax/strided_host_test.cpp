// Numerics of softmax over a dimension that is not the last, on the host executor: every operation in every variant,
// compared with float64, with poisoned outputs and canaries (tuner/verify.h). Inputs contain ties, infinities and NaN.

#include <gtest/gtest.h>

#include "tests/support/host_kernels.h"
#include "tests/templates/softmax/launches.h"
#include "tests/templates/softmax/strided_cases.h"

namespace tunesmith {
namespace {

using test::Case;

class StridedSoftmaxHost : public test::HostKernels {
 protected:
  test::LargestErrors verify_float32(const std::vector<Case>& cases) {
    test::LargestErrors errors = verify_all(cases);
    for (const std::string_view op : test::softmax_ops) EXPECT_LE(errors.float32(op), 4.0) << op;
    return errors;
  }
};

// One warp, several warps per lane group, groups of lanes within a warp, more members than columns, and blocks whose last
// lanes have no positions.
TEST_F(StridedSoftmaxHost, AllGeometriesOfOneShape) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const char* threads : {"32", "64", "256"})
    for (const char* lanes : {"1", "2", "8", "32", "64", "256"}) {
      if (std::stoi(lanes) > std::stoi(threads)) continue;
      for (const char* variant :
           {"resident", "cluster,blocks_per_row=2", "two_pass,unroll=2", "split,unroll=1,blocks_per_row=3"})
        cases.push_back(test::case_of(test::softmax_ops[turn++ % 4], "rows=3,cols=22,inner=12", device_.info(),
                                      std::string("variant=") + variant + ",threads=" + threads + ",lanes=" + lanes));
    }
  ASSERT_GT(cases.size(), 40U);
  verify_float32(cases);
}

// A slice of a split column may contain only -inf, and there may be fewer columns than threads.
TEST_F(StridedSoftmaxHost, SlicesWithoutElements) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const char* fields : {"rows=9,cols=400,inner=2", "rows=9,cols=9,inner=2,safe=1,dtype=bf16"})
      for (const char* config : {"variant=split,threads=64,lanes=2,unroll=1,blocks_per_row=7",
                                 "variant=cluster,threads=64,lanes=2,blocks_per_row=7"})
        cases.push_back(test::case_of(op, fields, device_.info(), config));
  verify_float32(cases);
}

TEST_F(StridedSoftmaxHost, ResultsDoNotDependOnTheNumberOfRows) {
  std::vector<Case> cases;
  for (const char* op : {"log_softmax", "softmax_backward"})
    for (const char* config :
         {"variant=resident,threads=128,lanes=4", "variant=two_pass,threads=64,lanes=8",
          "variant=cluster,threads=64,lanes=4,blocks_per_row=2", "variant=split,threads=64,lanes=4,blocks_per_row=3"})
      for (const char* rows : {"1", "5"})
        cases.push_back(test::case_of(op, std::string("rows=") + rows + ",cols=100,inner=12", device_.info(), config));
  std::vector<std::vector<std::byte>> results;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    results.push_back(test::Launches(c.op(), c.problem, device_, 1).launch(executable));
  });
  for (std::size_t i = 0; i < cases.size(); i += 2) {
    ASSERT_LT(results[i].size(), results[i + 1].size());
    EXPECT_TRUE(std::equal(results[i].begin(), results[i].end(), results[i + 1].begin())) << cases[i].text();
  }
}

}  // namespace
}  // namespace tunesmith
