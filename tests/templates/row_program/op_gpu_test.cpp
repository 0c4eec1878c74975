// Numerics of row programs on a GPU: sums, chosen columns, long rows, random numbers.

#include <gtest/gtest.h>

#include "core/half.h"
#include "templates/row_program/evaluate/random.h"
#include "tests/support/gpu_kernels.h"
#include "tests/templates/row_program/op_cases.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class RowProgramGpu : public test::GpuKernels {};

TEST_F(RowProgramGpu, SumsOverRows) {
  std::vector<Case> cases;
  for (const char* program : {"shipped rms_norm_gradient", "shipped layer_norm_gradient"})
    for (const char* fields : {"rows=3001,cols=128,dtype=bf16", "rows=517,cols=4096,dtype=bf16", "rows=70,cols=20001",
                               "rows=5,cols=131072,dtype=f16"})
      for (Case& c : test::row_program_cases(
               test::row_program_text(program), fields, device().info(),
               {"variant=warp", "variant=block", "variant=hybrid", "variant=cluster", "variant=grid", "variant=two_pass",
                "variant=persistent", "variant=persistent,threads=256,blocks_per_row=2,stages=2,batch=2,keep_columns=0"}))
        cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), 20U);
  verify_all(cases);
}

// Columns of several blocks, and sums over positions: reproducible, whatever the order in which blocks run.
TEST_F(RowProgramGpu, SharedColumnsAndSumsOverPositions) {
  std::vector<Case> cases;
  for (const char* program : {"softmax", "layer_norm", "choices", "shipped layer_norm_gradient", "shipped rms_norm_gradient",
                              "shipped topk_gate_sigmoid"})
    for (const char* fields : {"rows=2,cols=21,inner=3136,dtype=bf16", "rows=1,cols=50257,inner=16,dtype=bf16",
                               "rows=33,cols=257,inner=785", "rows=8,cols=4096,inner=64,dtype=f16"})
      for (Case& c : test::row_program_cases(test::row_program_text(program), fields, device().info(),
                                             {"variant=resident", "variant=cluster", "variant=two_pass", "variant=split",
                                              "variant=two_pass,threads=256,lanes=128,unroll=2",
                                              "variant=split,threads=128,lanes=1,unroll=2,blocks_per_row=5"}))
        cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), has_clusters() ? 110U : 90U);
  verify_all(cases);
  for (std::size_t i = 0; i < cases.size(); i += 5) {
    const Case& c = cases[i];
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, *executable_of(c), device(), 5), "") << c.text();
  }
}

// Few columns and many, one list and several values, lists of more than 32 columns.
TEST_F(RowProgramGpu, ChosenColumns) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& text, const char* fields) {
    for (Case& c : test::row_program_cases(
             text, fields, device().info(),
             {"variant=warp,lanes=8", "variant=warp,lanes=32", "variant=block", "variant=hybrid", "variant=cluster",
              "variant=two_pass", "variant=persistent", "variant=persistent,threads=64,blocks_per_row=2,stages=2,batch=2"}))
      cases.push_back(std::move(c));
  };
  for (const char* program : {"shipped topk_gate", "shipped topk_gate_sigmoid", "shipped topk_gate_sigmoid_gradient",
                              "top_of_chosen", "top_stages"})
    for (const char* fields : {"rows=4099,cols=256,dtype=bf16", "rows=130,cols=5003", "rows=17,cols=50257,dtype=f16"})
      add(test::row_program_text(program), fields);
  for (const char* k : {"1", "2", "6", "16", "33", "48", "64"})
    for (const char* fields : {"rows=513,cols=64,dtype=f16", "rows=33,cols=1031", "rows=5,cols=131072,dtype=bf16"})
      add("in x : float[row, col]\ntopk[" + std::string(k) + "] v, i, w = x, x + 1\nout value : f32[row, " + k +
              "] = v\nout column : i32[row, " + k + "] = i\nout more : f32[row, " + k + "] = w\n",
          fields);
  EXPECT_GE(cases.size(), 100U);
  verify_all(cases);
}

TEST_F(RowProgramGpu, LongRowsAndManyRows) {
  std::vector<Case> cases;
  std::uint64_t seed = 5;
  for (const char* program : {"rms_norm", "softmax", "layer_norm", "add_rms_norm_e4m3"})
    for (const char* fields :
         {"rows=17,cols=50257,dtype=bf16", "rows=3,cols=150000,dtype=f32", "rows=4099,cols=128,dtype=f16"}) {
      const Problem problem = test::row_program_problem(test::row_program_text(program), fields);
      for (const Config& config : test::sample_space(problem, device().info(), 1, seed++))
        cases.push_back({problem, config});
    }
  verify_all(cases);
}

TEST_F(RowProgramGpu, SoftmaxAsAProgramIsAsAccurateAsSoftmax) {
  double largest = 0;
  for (const char* fields :
       {"rows=271,cols=1031", "rows=19,cols=8192", "rows=3,cols=203,inner=12", "rows=5,cols=1000,inner=196"}) {
    const std::vector<Case> cases = test::softmax_program_cases(fields, device().info());
    EXPECT_GE(cases.size(), 3U);
    compile_all(cases);
    for (const Case& c : cases)
      for (const InputKind kind : {InputKind::random, InputKind::edge_cases}) {
        const double error = test::error_of_softmax(fields, *executable_of(c), device(), kind);
        EXPECT_LE(error, 4) << c.text();
        largest = std::max(largest, error);
      }
  }
  EXPECT_GT(largest, 0.3);  // the check found real rounding errors
}

// Equal bits in every configuration and on the host: a function of the seed, the row and the column alone.
TEST_F(RowProgramGpu, RandomNumbersDoNotDependOnTheConfiguration) {
  constexpr std::int64_t rows = 300, cols = 777;
  const std::string text =
      "in x : f32[row, col]\nnum seed : i32\nout y : f32[row, col] = select(x == x, 0, 1) + uniform(seed, 3)\n";
  const std::vector<Case> cases = test::row_program_cases(
      text, "rows=300,cols=777,numbers=seed=-5", device().info(),
      {"variant=warp,lanes=32", "variant=warp,lanes=8,threads=64,access=staged", "variant=block,threads=96",
       "variant=hybrid,threads=32,register_vectors=1", "variant=two_pass,threads=64",
       "variant=cluster,threads=32,blocks_per_row=3", "variant=grid,threads=32,blocks_per_row=2",
       "variant=persistent,threads=32,blocks_per_row=2,stages=2,batch=2"});
  EXPECT_GE(cases.size(), has_clusters() ? 8U : 6U);
  compile_all(cases);
  for (const Case& c : cases) {
    const std::vector<std::byte> result = test::Launches(c.op(), c.problem, device(), 1).launch(*executable_of(c));
    for (std::int64_t i = 0; i < rows * cols; ++i)
      ASSERT_EQ(static_cast<float>(read_element(DType::f32, result.data(), i)),
                static_cast<float>(row_program::uniform(-5, i / cols, i % cols, 3)))
          << c.text() << " element " << i;
  }
}

}  // namespace
}  // namespace tunesmith
