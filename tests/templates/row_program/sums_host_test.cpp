// Sums over rows and positions of row programs on the host executor.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "core/half.h"
#include "tests/templates/row_program/host_outputs.h"
#include "tests/templates/row_program/op_cases.h"

namespace tunesmith {
namespace {

using test::Case;
using test::row_program_cases;
using test::row_program_text;

using RowProgramHost = test::RowProgramHost;

// Sums over rows and positions: lanes of one warp and of several, vectors and single positions, columns of several blocks.
TEST_F(RowProgramHost, SumsOverPositionsInEveryVariant) {
  const std::string text = R"(
in x : float[row, col]
in w : f32[col]
sum s = x * w
max m = x - s
out y : float[row, col] = x * s - m
colsum dw : float[col] = x * s
colsum db : f32[col] = x
)";
  std::vector<Case> cases;
  std::set<std::string> variants;
  for (const char* fields : {"rows=1,cols=20,inner=2", "rows=37,cols=21,inner=5,dtype=f16",
                             "rows=2,cols=67,inner=168,dtype=bf16", "rows=1,cols=131,inner=1000"})
    for (const char* config :
         {"variant=resident,threads=64,lanes=2", "variant=resident,threads=128,lanes=64",
          "variant=resident,threads=32,lanes=32", "variant=two_pass,threads=64,lanes=8,unroll=2",
          "variant=two_pass,threads=256,lanes=64,unroll=4", "variant=cluster,threads=64,lanes=16,blocks_per_row=3",
          "variant=cluster,threads=128,lanes=128,blocks_per_row=2",
          "variant=split,threads=64,lanes=4,unroll=2,blocks_per_row=2",
          "variant=split,threads=64,lanes=64,unroll=1,blocks_per_row=5"})
      for (Case& c : row_program_cases(text, fields, device_.info(), {config})) {
        variants.insert(c.config.variant());
        cases.push_back(std::move(c));
      }
  EXPECT_EQ(variants, (std::set<std::string>{"cluster", "resident", "split", "two_pass"}));
  EXPECT_GE(cases.size(), 30U);
  verify_all(cases);
}

// Sums over rows in every variant: few rows and many, groups of lanes without a row, more rows than a partial sum takes.
TEST_F(RowProgramHost, SumsOverRowsInEveryVariant) {
  const std::string text = R"(
in x : float[row, col]
in w : f32[col]
sum s = x * w
out y : float[row, col] = x * s
colsum dw : float[col] = x * s
colsum db : f32[col] = x
)";
  std::vector<Case> cases;
  std::set<std::string> variants;
  for (const char* fields : {"rows=1,cols=200,dtype=bf16", "rows=37,cols=203,dtype=f32", "rows=2311,cols=64,dtype=f16"})
    for (const char* config :
         {"variant=block,threads=64", "variant=block,threads=32", "variant=warp,lanes=32,threads=64",
          "variant=warp,lanes=8,threads=128", "variant=warp,lanes=2,threads=32", "variant=two_pass,threads=64,unroll=1",
          "variant=two_pass,threads=32,unroll=2,blocks_per_sm=1", "variant=hybrid,threads=32,register_vectors=0",
          "variant=cluster,threads=32,blocks_per_row=2", "variant=grid,threads=32,blocks_per_row=2",
          "variant=persistent,threads=32,blocks_per_row=1,stages=2,batch=1,keep_columns=1",
          "variant=persistent,threads=64,blocks_per_row=1,stages=4,batch=8,keep_columns=0",
          "variant=persistent,threads=32,blocks_per_row=2,stages=3,batch=4,keep_columns=1"})
      for (Case& c : row_program_cases(text, fields, device_.info(), {config})) {
        variants.insert(c.config.variant());
        cases.push_back(std::move(c));
      }
  EXPECT_EQ(variants, (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "two_pass", "warp"}));
  EXPECT_GE(cases.size(), 30U);
  verify_all(cases);
}

// Sums of one element: many rows, groups of lanes without a row, several blocks for a row, parts without columns.
TEST_F(RowProgramHost, SumsOfOneElementInEveryVariant) {
  std::vector<Case> cases;
  std::set<std::string> variants;
  const auto add = [&](const char* program, const char* fields, const std::vector<const char*>& configs) {
    std::vector<Case> found = row_program_cases(row_program_text(program), fields, device_.info(), configs);
    EXPECT_EQ(found.size(), configs.size());
    for (Case& c : found) {
      variants.insert(c.config.variant());
      cases.push_back(std::move(c));
    }
  };
  add("total_alone", "rows=2311,cols=61,dtype=f16", {"variant=warp,lanes=8,threads=128"});
  add("total_alone", "rows=2311,cols=64", {"variant=persistent,threads=32,blocks_per_row=2,stages=3,batch=4"});
  add("total_alone", "rows=37,cols=1203",
      {"variant=two_pass,threads=64,unroll=1", "variant=grid,threads=32,blocks_per_row=3"});
  add("totals", "rows=37,cols=203", {"variant=block,threads=64", "variant=grid,threads=32,blocks_per_row=2"});
  add("totals", "rows=37,cols=808,dtype=bf16",
      {"variant=cluster,threads=32,blocks_per_row=2", "variant=hybrid,threads=32,register_vectors=0"});
  add("total_alone", "rows=7,cols=5,inner=90", {"variant=split,threads=64,lanes=8,unroll=2,blocks_per_row=4"});
  add("totals", "rows=3,cols=67,inner=168,dtype=bf16",
      {"variant=resident,threads=128,lanes=64", "variant=cluster,threads=64,lanes=16,blocks_per_row=3",
       "variant=two_pass,threads=64,lanes=8,unroll=2"});
  // Kernels for every width of a bucket.
  for (const char* fields : {"rows=37,cols=903,dtype=bf16", "rows=37,cols=5003"}) {
    const Problem problem = test::row_program_problem(row_program_text("totals"), fields);
    cases.push_back({problem, *find_op("row_program").parse(problem)->capacity_config(device_.info())});
  }
  EXPECT_EQ(variants, (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "resident", "split",
                                             "two_pass", "warp"}));
  verify_all(cases);
}

TEST_F(RowProgramHost, SumsOverNoRowsAreZero) {
  const std::string text = "in x : f32[row, col]\ncolsum s : f32[col] = x\ncolsum t : f32[] = x\n";
  auto cases = row_program_cases(text, "rows=0,cols=100", device_.info(), {"variant=block"});
  for (const Case& c :
       row_program_cases(text, "rows=0,cols=100,inner=7", device_.info(), {"variant=resident", "variant=two_pass"}))
    cases.push_back(c);
  EXPECT_EQ(cases.size(), 3U);
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const auto outputs = outputs_of(executable, c, {{}});
    EXPECT_EQ(outputs[0], std::vector<std::byte>(100 * sizeof(float)));
    EXPECT_EQ(outputs[1], std::vector<std::byte>(sizeof(float)));
  });
}

// NaN and infinities of a row reach the sums of their columns, and no others.
TEST_F(RowProgramHost, SumsOverRowsKeepSpecialValues) {
  const std::string text =
      "in x : f32[row, col]\ncolsum s : f32[col] = x\n"
      "colsum whole : f32[] = x\ncolsum third : f32[] = select(col == 2, x, 0)\ncolsum last : f32[] = select(col > 4, x, "
      "0)\n";
  constexpr int rows = 9, cols = 8;
  std::vector<float> x(rows * cols, 1);
  x[3 * cols + 1] = NAN;
  x[4 * cols + 2] = INFINITY;
  x[5 * cols + 3] = INFINITY;
  x[6 * cols + 3] = -INFINITY;
  x[7 * cols + 4] = 3e38F;
  x[8 * cols + 4] = 3e38F;
  std::vector<std::byte> bytes(x.size() * sizeof(float));
  std::memcpy(bytes.data(), x.data(), bytes.size());
  // The same numbers as (3, 8, 3), each of the 9 rows at a position.
  std::vector<float> moved(x.size());
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < cols; ++column)
      moved[(row / 3 * cols + column) * 3 + row % 3] = x[row * cols + column];
  std::vector<std::byte> moved_bytes(bytes.size());
  std::memcpy(moved_bytes.data(), moved.data(), bytes.size());
  auto cases = row_program_cases(text, "rows=9,cols=8", device_.info(),
                                 {"variant=block", "variant=two_pass", "variant=warp,lanes=1"});
  for (const Case& c : row_program_cases(text, "rows=3,cols=8,inner=3", device_.info(),
                                         {"variant=resident,threads=32,lanes=4", "variant=two_pass,threads=64,lanes=64"}))
    cases.push_back(c);
  ASSERT_EQ(cases.size(), 5U);
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const auto outputs = outputs_of(executable, c, {c.problem.fields.contains("inner") ? moved_bytes : bytes});
    const auto sum = [&](int column) { return read_element(DType::f32, outputs[0].data(), column); };
    EXPECT_EQ(sum(0), 9);
    EXPECT_TRUE(std::isnan(sum(1)));
    EXPECT_EQ(sum(2), INFINITY);
    EXPECT_TRUE(std::isnan(sum(3)));
    EXPECT_EQ(sum(4), INFINITY);
    EXPECT_EQ(sum(7), 9);
    const auto total = [&](std::size_t output) { return read_element(DType::f32, outputs[output].data(), 0); };
    EXPECT_TRUE(std::isnan(total(1)));
    EXPECT_EQ(total(2), INFINITY);
    EXPECT_EQ(total(3), 27);
  });
}

}  // namespace
}  // namespace tunesmith
