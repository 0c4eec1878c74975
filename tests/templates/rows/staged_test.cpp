// Rows that pass through shared memory: the kernels of their bucket give the same bits, and what is not staged.

#include <gtest/gtest.h>

#include "tests/support/cases.h"
#include "tests/support/host_kernels.h"
#include "tuner/evaluate.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::Case;

class StagedHost : public test::HostKernels {
 protected:
  /// Returns the bytes of all arrays after a launch on random inputs.
  std::vector<std::vector<std::byte>> results_of(const Case& c, const Executable& executable) {
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    std::vector<std::vector<std::byte>> bytes;
    std::vector<HostArray> arrays;
    for (const ArrayInfo& info : problem->arrays()) {
      bytes.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
      arrays.push_back({info, bytes.back().data()});
    }
    problem->fill_inputs(7, InputKind::edge_cases, arrays);
    evaluate_on(device_, executable.module())(executable.plan(), arrays);
    return bytes;
  }
};

// The kernel for a bucket gives the same bits as the one for the width with the same lanes.
TEST_F(StagedHost, BucketsAgreeWithExactKernelsBitForBit) {
  std::vector<Case> cases;
  for (const char* op : {"softmax", "rms_norm", "softmax_backward"})
    for (const char* dtype : {"f32", "bf16"})
      for (const char* cols : {"25", "26", "29", "31"}) {
        const std::string fields = std::string("rows=77,dtype=") + dtype + ",cols=" + cols;
        const std::string config = "variant=warp,access=staged,threads=64,lanes=2,rounds=2";
        cases.push_back(case_of(op, fields, config));
        cases.push_back(case_of(op, fields, config + ",capacity=31"));
      }
  std::vector<std::vector<std::byte>> exact;
  bool is_exact = true;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    std::vector<std::vector<std::byte>> results = results_of(c, executable);
    if (!is_exact) {
      EXPECT_TRUE(results == exact) << c.text();
    }
    exact = std::move(results);
    is_exact = !is_exact;
  });
}

TEST(Staged, SaysWhyRowsAreNotStaged) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto why = [&](const std::string& op, const std::string& fields, const std::string& config, const DeviceInfo& on) {
    try {
      test::case_of(op, fields, on, "variant=warp,access=staged," + config);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string good = "threads=128,lanes=4,rounds=2";
  EXPECT_EQ(why("softmax", "rows=64,cols=37", good, device), "");
  const auto expect = [&](const char* op, const char* fields, const std::string& config, const char* reason) {
    EXPECT_NE(why(op, fields, config, device).find(reason), std::string::npos)
        << op << " " << fields << ": " << why(op, fields, config, device);
  };
  expect("softmax", "rows=64,cols=36", good, "is for rows that start between two vectors");
  expect("softmax", "rows=64,cols=37,x_row_stride=41,y_row_stride=41", good, "needs arrays without gaps between rows");
  expect("softmax", "rows=64,cols=37,x_alignment=8,y_alignment=8", good, "start at multiples of 16 bytes");
  expect("softmax", "rows=64,cols=37,dtype=bf16", "threads=128,lanes=32,rounds=1", "needs a multiple of 8");
  expect("softmax", "rows=64,cols=37", good + ",load=evict_last", "its load must be plain");
  expect("softmax", "rows=64,cols=37,dtype=f64", good, "not for f64");
  expect("layer_norm_gradient", "rows=64,cols=37", good, "no sums over the rows");
  EXPECT_NE(why("softmax", "rows=64,cols=37", good, generic_device(parse_arch("sm_75"))).find("needs sm_80 or later"),
            std::string::npos);
}

}  // namespace
}  // namespace tunesmith
