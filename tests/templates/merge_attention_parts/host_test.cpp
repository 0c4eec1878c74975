// merge_attention_parts: numerics on the host executor, what the check detects, and its description.

#include <gtest/gtest.h>

#include <set>

#include "templates/render.h"
#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"
#include "tests/templates/merge_attention_parts/cases.h"
#include "tunesmith/error.h"
#include "tunesmith/merge_attention_parts.h"

namespace tunesmith {
namespace {

using test::Case;

class MergePartsHost : public test::OptimizedHostKernels {};

TEST_F(MergePartsHost, EveryProblem) {
  std::vector<Case> cases;
  for (const std::string& fields : test::merge_parts_problems())
    for (const char* config : {"threads=64,together=1", "threads=128", "threads=256,together=8"})
      cases.push_back(case_of("merge_attention_parts", fields, config));
  verify_all(cases);
}

TEST_F(MergePartsHost, CheckDetectsMutations) {
  const Case c = case_of("merge_attention_parts", "parts=5,batch=2,heads=3,seq_q=7,head_dim=32,dtype=f32,lse_base=two",
                         "threads=64,together=2");
  test::expect_detected(
      c,
      {{"values[j][c] = multiply(values[j][c], rescale);", "values[j][c] = values[j][c];"},
       {"sum = multiply(sum, rescale);", ""},
       {"top == none ? 0.0f : top", "top"},
       {"if (logarithm[i] == none) continue;", ""},
       {"first + i < params.parts ? lse : none", "lse"},
       {"* params.outer + query", "* params.outer"},
       {"log_of_one_plus(subtract(sum, 1.0f)), params.log_of_e)", "log_of_one_plus(subtract(sum, 1.0f)), 1.0f)"}},
      device_, compiler_);
}

TEST(MergePartsDescription, ErrorsAndNormalForm) {
  const auto expect_error = [](const std::string& fields, const char* part) {
    try {
      test::normalized("merge_attention_parts", fields);
      ADD_FAILURE() << fields << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_error("parts=0,seq_q=1,head_dim=64", "parts is 0");
  expect_error("parts=2,seq_q=1,head_dim=12", "head_dim is 12; allowed: 8 to 512 in steps of 8");
  expect_error("parts=2,seq_q=1,head_dim=64,lse_base=10", "lse_base is ");
  MergePartsProblem typed{.parts = 4, .batch = 2, .heads = 8, .seq_q = 3, .head_dim = 128};
  typed.lse_base = LseBase::two;
  const Problem problem =
      test::normalized("merge_attention_parts", "parts=4,batch=2,heads=8,seq_q=3,head_dim=128,dtype=bf16,lse_base=two");
  EXPECT_EQ(find_op("merge_attention_parts").normalize(to_problem(typed)), problem);
}

// Sizes and the base are parameters of the launch.
TEST(MergePartsDescription, SourcesAndKeys) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  for (const std::string& fields : test::merge_parts_problems()) {
    const ParsedProblemPtr problem =
        find_op("merge_attention_parts").parse(test::normalized("merge_attention_parts", fields));
    const Config config = problem->default_config(device);
    EXPECT_EQ(render(*find_op("merge_attention_parts").parse(problem->verification_problem()), config),
              render(*problem, config))
        << fields;
  }
}

}  // namespace
}  // namespace tunesmith
