// Numerics of the generated softmax on the host executor: every variant, configurations sampled over the whole search space,
// against float64, with poisoned outputs and canaries (tuner/verify.h).

#include <gtest/gtest.h>

#include <memory>

#include "jit/host/host_compiler.h"
#include "jit/host/host_device.h"
#include "templates/render.h"
#include "tests/softmax_cases.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

class SoftmaxHost : public testing::Test {
 protected:
  /// Compiles all cases in few compiler runs and verifies each.
  void verify_all(const std::vector<test::Case>& cases) {
    constexpr std::size_t batch = 24;
    for (std::size_t begin = 0; begin < cases.size(); begin += batch) {
      const std::size_t end = std::min(begin + batch, cases.size());
      std::vector<CompileRequest> requests;
      for (std::size_t i = begin; i < end; ++i)
        requests.push_back({"softmax.cu", render(op_, cases[i].problem, cases[i].config), device_.info().arch});
      const auto modules = device_.load_all(compiler_.compile_many(requests));
      for (std::size_t i = begin; i < end; ++i) {
        const test::Case& c = cases[i];
        const Executable executable(device_, modules[i - begin], op_.launch_plan(c.problem, c.config, device_.info()));
        const CheckResult result = verify(op_, c.problem, executable, device_, 3);
        EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
        if (c.problem.fields.word("out_dtype") == "f32" && result.max_error > worst_) {
          worst_ = result.max_error;
          worst_case_ = c.text();
        }
      }
    }
  }

  void TearDown() override { EXPECT_LE(worst_, 4.0) << worst_case_; }  // units in the last place, as documented

  const Op& op_ = find_op("softmax");
  HostDevice device_;
  HostCompiler compiler_;
  double worst_ = 0;
  std::string worst_case_;
};

TEST_F(SoftmaxHost, EdgeProblemsInEveryVariant) {
  std::vector<test::Case> cases;
  std::uint64_t seed = 11;
  for (const Problem& problem : test::edge_problems(19))
    for (const Config& config : test::sample_space(problem, device_.info(), 3, seed++)) cases.push_back({problem, config});
  verify_all(cases);
  EXPECT_GT(worst_, 0.5);  // the judge saw real rounding errors
}

TEST_F(SoftmaxHost, TheWholeGeometrySpaceOfOneShape) {
  // Hints change nothing here, so one hint combination of each geometry is enough.
  std::vector<test::Case> cases;
  for (const char* fields : {"rows=17,cols=1152,dtype=bf16", "rows=17,cols=520"}) {
    const Problem problem = op_.normalize({"softmax", parse_fields(fields, "problem")});
    for (const Config& config : op_.search_space(problem, device_.info(), Effort::full))
      if (config.fields.word("load") == "plain" && config.fields.word("store") == "plain")
        cases.push_back({problem, config});
  }
  ASSERT_GT(cases.size(), 40U);
  verify_all(cases);
}

TEST_F(SoftmaxHost, LongRows) {
  std::vector<test::Case> cases;
  for (const char* fields :
       {"rows=15,cols=50257,dtype=bf16", "rows=14,cols=100003,dtype=f16,out_dtype=f32", "rows=2,cols=262144"}) {
    const Problem problem = op_.normalize({"softmax", parse_fields(fields, "problem")});
    for (const char* variant : {"variant=online,threads=1024,unroll=4", "variant=online,threads=128,unroll=1"})
      cases.push_back({problem, op_.complete_config(problem, device_.info(), Config{parse_fields(variant, "c")})});
  }
  for (const char* fields : {"rows=15,cols=65536,dtype=bf16", "rows=14,cols=50257", "rows=14,cols=40000,x_alignment=8"}) {
    const Problem problem = op_.normalize({"softmax", parse_fields(fields, "problem")});
    cases.push_back({problem, op_.complete_config(problem, device_.info(), Config{parse_fields("variant=hybrid", "c")})});
  }
  const Problem block = op_.normalize({"softmax", parse_fields("rows=15,cols=32768", "problem")});
  cases.push_back({block, op_.complete_config(block, device_.info(), Config{parse_fields("variant=block", "c")})});
  verify_all(cases);
}

TEST_F(SoftmaxHost, ManyMoreRowsThanABlockHolds) {
  std::vector<test::Case> cases;
  for (const char* variant : {"variant=warp,lanes=4,threads=256", "variant=warp,lanes=32,threads=64",
                              "variant=block,threads=32", "variant=online,threads=32,unroll=2"}) {
    const Problem problem = op_.normalize({"softmax", parse_fields("rows=1003,cols=24,dtype=f16", "problem")});
    cases.push_back({problem, op_.complete_config(problem, device_.info(), Config{parse_fields(variant, "c")})});
  }
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
