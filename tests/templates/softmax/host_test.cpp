// The softmax family on the host executor: what tests/templates/rows does not draw.

#include <gtest/gtest.h>

#include "tests/support/host_kernels.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class SoftmaxHost : public test::HostKernels {
 protected:
  /// Verifies the cases and checks the largest float32 error of each operation, in units in the last place.
  void verify_float32(const std::vector<Case>& cases) {
    const test::LargestErrors errors = verify_all(cases);
    for (const std::string_view op : test::softmax_ops) EXPECT_LE(errors.float32(op), 4.0) << op;
  }
};

// On sm_90a the blocks of a cluster send messages that the receiver counts; elsewhere they store and meet at a barrier.
TEST_F(SoftmaxHost, ClustersOfOtherArchitectures) {
  arch_ = parse_arch("sm_100a");
  std::vector<Case> cases;
  for (const char* op : {"softmax", "softmax_backward", "rms_norm", "layer_norm"})
    for (const char* fields : {"rows=7,cols=9001,dtype=bf16", "rows=7,cols=6000"})
      for (const char* blocks : {"2", "4"})
        cases.push_back(test::case_of(op, fields, device_.info(), std::string("variant=cluster,blocks_per_row=") + blocks));
  verify_all(cases);
}

// Groups of a cooperative grid process several rows, each with an exchange of tags; some vectors are in shared memory. With
// 132 multiprocessors there are two, three and one group.
const char* const grid_configs[] = {
    "variant=grid,threads=64,blocks_per_row=66,register_vectors=1,min_blocks=1",
    "variant=grid,threads=32,blocks_per_row=40,register_vectors=4,min_blocks=1",
    "variant=grid,threads=64,blocks_per_row=100,register_vectors=0,min_blocks=1",
};

TEST_F(SoftmaxHost, GridWithMoreRowsThanGroups) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const char* config : {grid_configs[0], op.starts_with("log") ? grid_configs[1] : grid_configs[2]}) {
      cases.push_back(case_of(op, "rows=11,cols=14008,dtype=bf16", config));
      const LaunchPlan plan =
          cases.back().op().parse(cases.back().problem)->launch_plan(cases.back().config, device_.info());
      ASSERT_LT(plan.kernels.at(0).grid.x, 150U);
    }
  verify_float32(cases);
  cases.clear();
  for (const std::string_view op : test::softmax_ops)
    cases.push_back(case_of(op, "rows=5,cols=14008,dtype=bf16", grid_configs[cases.size() % std::size(grid_configs)]));
  with_executables(cases, [this](const Case& c, const Executable& executable) {
    // The third launch starts with the workspace that the second one left.
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, executable, device_, 3), "") << c.text();
  });
}

// Intermediate values outside of float32's range although the scaled result is within it: x - max overflows, or sums
// excluding the maximum and gradients underflow.
TEST_F(SoftmaxHost, IntermediateOverflowAndUnderflowWithScale) {
  std::vector<Case> cases;
  for (const auto& [fields, config] : {std::pair{"rows=15,cols=64,scale=0.125", "variant=warp"},
                                       {"rows=15,cols=200,scale=1e-29,dtype=bf16", "variant=block"},
                                       {"rows=15,cols=1021,scale=0.125,dtype=bf16,out_dtype=f32", "variant=two_pass"},
                                       {"rows=15,cols=8192,scale=0.5", "variant=cluster"}})
    cases.push_back(case_of("log_softmax", fields, config));
  for (const char* scale : {"0.46", "0.5"})
    for (const char* config : {"variant=block", "variant=two_pass,threads=64", "variant=split,threads=32,unroll=1"})
      cases.push_back(
          case_of("log_softmax", std::string("rows=15,cols=1000,dtype=f16,out_dtype=f32,scale=") + scale, config));
  for (const char* scale : {"20", "1000"})
    cases.push_back(case_of("softmax_backward", std::string("rows=15,cols=300,scale=") + scale, "variant=block"));
  verify_float32(cases);
}

}  // namespace
}  // namespace tunesmith
