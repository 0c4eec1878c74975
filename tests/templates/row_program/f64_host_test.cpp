// Numerics of row programs that compute in f64 on the host executor, compared with their evaluation in long double; and that
// the comparison rejects steps in float32.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>

#include "core/half.h"
#include "templates/row_program/language/parse.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/row_program/f64_cases.h"
#include "tests/templates/row_program/random_programs.h"
#include "tests/templates/softmax/launches.h"
#include "tunesmith/error.h"
#include "tunesmith/row_program.h"

namespace tunesmith {
namespace {

using test::Case;

std::set<std::string> variants_of(const std::vector<Case>& cases) {
  std::set<std::string> variants;
  for (const Case& c : cases) variants.insert(c.config.variant());
  return variants;
}

class RowProgramF64Host : public test::HostKernels {};

constexpr const char* sums = R"(
in x : f64[row, col]
in w : f32[col]
sum s = x * w
out y : f64[row, col] = x * s
colsum dw : f64[col] = x * s
colsum db : f32[col] = x
)";

// Sums over rows: few rows and many, groups of lanes without a row, more rows than a partial sum takes.
TEST_F(RowProgramF64Host, SumsOverRowsInEveryVariant) {
  std::vector<Case> cases;
  for (const char* fields : {"rows=1,cols=200", "rows=37,cols=203", "rows=2311,cols=64"})
    for (const char* config :
         {"variant=block,threads=64", "variant=warp,lanes=32,threads=64", "variant=warp,lanes=8,threads=128",
          "variant=two_pass,threads=64,unroll=1", "variant=hybrid,threads=32,register_vectors=0",
          "variant=cluster,threads=32,blocks_per_row=2", "variant=grid,threads=32,blocks_per_row=2",
          "variant=persistent,threads=32,blocks_per_row=1,stages=2,batch=1,keep_columns=1",
          "variant=persistent,threads=64,blocks_per_row=1,stages=4,batch=8,keep_columns=0",
          "variant=persistent,threads=32,blocks_per_row=2,stages=3,batch=4,keep_columns=1"})
      for (Case& c : test::row_program_cases(sums, fields, device_.info(), {config})) cases.push_back(std::move(c));
  EXPECT_EQ(variants_of(cases),
            (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "two_pass", "warp"}));
  EXPECT_GE(cases.size(), 25U);
  verify_all(cases);
}

TEST_F(RowProgramF64Host, SumsOverPositionsInEveryVariant) {
  std::vector<Case> cases;
  for (const char* fields : {"rows=1,cols=20,inner=2", "rows=37,cols=21,inner=5", "rows=1,cols=131,inner=1000"})
    for (const char* config :
         {"variant=resident,threads=64,lanes=2", "variant=resident,threads=128,lanes=64",
          "variant=two_pass,threads=256,lanes=64,unroll=4", "variant=cluster,threads=64,lanes=16,blocks_per_row=3",
          "variant=split,threads=64,lanes=4,unroll=2,blocks_per_row=2",
          "variant=split,threads=64,lanes=64,unroll=1,blocks_per_row=5"})
      for (Case& c : test::row_program_cases(sums, fields, device_.info(), {config})) cases.push_back(std::move(c));
  EXPECT_EQ(variants_of(cases), (std::set<std::string>{"cluster", "resident", "split", "two_pass"}));
  verify_all(cases);
}

// Sums over rows and columns, in each of the templates that they have.
TEST_F(RowProgramF64Host, SumsOfOneElement) {
  const std::string text =
      "in x : f64[row, col]\nsum s = x\ncolsum t : f64[] = x * s\ncolsum dw : f64[col] = x\ncolsum u : f32[] = s\n";
  std::vector<Case> cases;
  for (const char* config :
       {"variant=block,threads=64", "variant=two_pass,threads=64,unroll=1", "variant=cluster,threads=32,blocks_per_row=2",
        "variant=persistent,threads=64,blocks_per_row=1,stages=4,batch=8,keep_columns=0"})
    for (Case& c : test::row_program_cases(text, "rows=211,cols=203", device_.info(), {config}))
      cases.push_back(std::move(c));
  for (Case& c : test::row_program_cases(
           text, "rows=3,cols=21,inner=50", device_.info(),
           {"variant=resident,threads=64,lanes=2", "variant=split,threads=64,lanes=4,unroll=2,blocks_per_row=2"}))
    cases.push_back(std::move(c));
  EXPECT_EQ(cases.size(), 6U);
  verify_all(cases);
}

/// What a kernel might compute in float32 by mistake.
enum class Mutation { none, input, eps, sum, constant, rounding_twice };

/// Returns whether the check accepts results that were computed with this mutation.
bool accepts(Mutation mutation) {
  constexpr std::size_t rows = 9, cols = 500;
  const Problem problem = test::row_program_problem(R"(
in x : f64[row, col]
num eps : f64 = 0.1
mean ms = x * x
out y : f64[row, col] = x * rsqrt(ms + eps) * 0.7
out z : f16[row, col] = x
)",
                                                    "rows=9,cols=500");
  const ParsedProblemPtr parsed = find_op("row_program").parse(problem);
  const std::vector<ArrayInfo> infos = parsed->arrays();
  std::vector<double> x(rows * cols), y(rows * cols), z(rows * cols);
  std::vector<HostArray> arrays{{infos[0], reinterpret_cast<std::byte*>(x.data())},
                                {infos[1], reinterpret_cast<std::byte*>(y.data())},
                                {infos[2], reinterpret_cast<std::byte*>(z.data())}};
  parsed->fill_inputs(3, InputKind::random, arrays);
  x[7] = 1 + 0x1p-11 + 0x1p-40;  // f32 rounds it to a tie of f16
  const auto step = [&](Mutation of, double value) { return mutation == of ? static_cast<float>(value) : value; };
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < cols; ++c)
      sum = step(Mutation::sum, sum + step(Mutation::input, x[row * cols + c]) * x[row * cols + c]);
    const double scale = 1 / std::sqrt(sum / cols + step(Mutation::eps, 0.1));
    for (std::size_t c = 0; c < cols; ++c) {
      const std::size_t at = row * cols + c;
      y[at] = x[at] * scale * step(Mutation::constant, 0.7);
      const bool is_tie = at == 7;
      write_element(DType::f16, arrays[2].data, static_cast<std::int64_t>(at),
                    is_tie ? (mutation == Mutation::rounding_twice ? 1.0 : 1 + 0x1p-10) : x[at]);
    }
  }
  return parsed->check(arrays, rows).passed;
}

TEST(RowProgramF64, StepsInFloat32AreRejected) {
  EXPECT_TRUE(accepts(Mutation::none));
  EXPECT_FALSE(accepts(Mutation::input));
  EXPECT_FALSE(accepts(Mutation::eps));
  EXPECT_FALSE(accepts(Mutation::sum));
  EXPECT_FALSE(accepts(Mutation::constant));
  EXPECT_FALSE(accepts(Mutation::rounding_twice));
}

}  // namespace
}  // namespace tunesmith
