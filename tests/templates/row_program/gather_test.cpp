// Sums with one term that is not 0: which are recognized, and what their kernels compute in every variant.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/half.h"
#include "templates/render.h"
#include "tests/templates/row_program/host_outputs.h"
#include "tests/templates/row_program/op_cases.h"
#include "tests/templates/row_program/random_programs.h"

namespace tunesmith {
namespace {

using test::Case;
using test::row_program_cases;

/// Returns how many sums of a case threads compute as one term.
std::size_t gathers_of(const Case& c) {
  const std::string source = render(*c.op().parse(c.problem), c.config);
  std::size_t count = 0;
  while (source.find("gather(OfGather<" + std::to_string(count) + ">, const Params") != std::string::npos) ++count;
  return count;
}
std::size_t gathers_of(const std::string& text, const std::string& fields, const char* config = "variant=block") {
  const auto cases = row_program_cases(text, fields, generic_device(parse_arch("sm_90a")), {config});
  EXPECT_EQ(cases.size(), 1U) << fields << " " << config;
  return gathers_of(cases.at(0));
}

std::string program_of(const std::string& sum) {
  return "in x, y : float[row, col]\nin w : f32[col]\nin t : i32[row]\nin f : f32[row]\nin b : bool[row]\nin c : i32[]\n"
         "num n : i32 = 2\nmax m = x * y * w * f\nargmax k = x\nsum s = " +
         sum + "\nout loss : f32[row] = m + k + t + select(b, n, c) + s\n";
}

TEST(RowProgramGather, IsRecognized) {
  for (const char* sum : {"select(col == t, x, 0)",
                          "select(t == col, x, 0.0)",
                          "select(col != t, 0, x)",
                          "col == t ? x : -0.0",
                          "select(!(col != t), x, 0)",
                          "select(!(t == col), 0, x)",
                          "-select(col == t, x, 0)",
                          "f16(select(col == t, x, 0))",
                          "select(col == f, x, 0)",
                          "select(f + 1 == col, x, 0)",
                          "select(col == c, x, 0)",
                          "select(col == n, x, 0)",
                          "select(col == 7, x, 0)",
                          "select(col == row, x, 0)",
                          "select(col == t && b, x, 0)",
                          "select(b && t == col, x, 0)",
                          "select(col == t && col != 0, x, 0)",
                          "select(col != t || b, 0, x)",
                          "select(col == t, exp(x * w) - y, 0)",
                          "select(col == t, w, 0)",
                          "select(col == t, 1, 0)",
                          "select(col == t, col * f, 0)",
                          "select(col == k, y, 0)",
                          "select(col == t, x - m, 0)",
                          "select(col == t, select(x > y, x, 0), 0)"})
    EXPECT_EQ(gathers_of(program_of(sum), "rows=64,cols=4096,dtype=bf16"), 1U) << sum;
}

TEST(RowProgramGather, OtherSumsAreSums) {
  for (const char* sum : {"select(col < t, x, 0)", "select(col == t, 0, x)", "select(col == t, x, 1)",
                          "select(col != t, x, 0)", "select(x == t, x, 0)", "select(col == w, x, 0)",
                          "select(col == t || b, x, 0)", "select(col != t && b, 0, x)", "select(col == t, x, 0) * f",
                          "select(col == t, x, 0) + y", "select(col == t, uniform(1, 0), 0)", "select(abs(col) == t, x, 0)"})
    EXPECT_EQ(gathers_of(program_of(sum), "rows=64,cols=4096,dtype=bf16"), 0U) << sum;
  const std::string text = program_of("select(col == t, x, 0)"), of_float = program_of("select(col == f, x, 0)");
  EXPECT_EQ(gathers_of("in x : float[row, col]\nin t : i32[row]\nmax m = select(col == t, x, 0)\nmean a = select(col == t, "
                       "x, 0)\nout y : f32[row] = m + a\n",
                       "rows=64,cols=4096"),
            0U);
  // Of groups, and of values that groups of columns reduce.
  EXPECT_EQ(gathers_of("in x : float[row, col]\nin t : i32[row]\nmax[32] g = x\nsum[32] a = select(col == t, x, 0)\n"
                       "sum s = select(col == t, x - g, 0)\nout y : f32[row] = s\nout z : f32[row, col/32] = a\n",
                       "rows=64,cols=4096"),
            0U);
  // Of inputs that are overwritten.
  const std::string in_place =
      "in x, r : float[row, col]\nin t : i32[row]\nmax m = x\nsum s = select(col == t, x, 0)\n"
      "sum u = select(col == t, r, 0)\nout y : float[row, col] = x - m - s - u\n";
  EXPECT_EQ(gathers_of(in_place, "rows=64,cols=4096"), 2U);
  EXPECT_EQ(gathers_of(in_place, "rows=64,cols=4096,in_place=y=x"), 1U);
  EXPECT_EQ(gathers_of(in_place, "rows=64,cols=4096,inner=4,in_place=y=r", "variant=resident"), 1U);
  // Of short rows, by the narrowest input that is loaded again.
  EXPECT_EQ(gathers_of(text, "rows=64,cols=512,dtype=bf16"), 1U);
  EXPECT_EQ(gathers_of(text, "rows=64,cols=511,dtype=bf16"), 0U);
  EXPECT_EQ(gathers_of(text, "rows=64,cols=256,dtype=f32"), 1U);
  EXPECT_EQ(gathers_of(text, "rows=64,cols=781,dtype=f32", "variant=warp,lanes=8,threads=64,access=staged"), 0U);
  // f32 cannot tell columns beyond 2^24 apart.
  EXPECT_EQ(gathers_of(of_float, "rows=2,cols=16777216", "variant=two_pass"), 1U);
  EXPECT_EQ(gathers_of(of_float, "rows=2,cols=16777217", "variant=two_pass"), 0U);
  EXPECT_EQ(gathers_of(text, "rows=2,cols=16777217", "variant=two_pass"), 1U);
}

TEST(RowProgramGather, AStageOfAStridedDimensionHasAReduction) {
  const std::string text = "in x : float[row, col]\nin t : i32[row]\nsum s = select(col == t, x, 0)\nout y : f32[row] = s\n";
  for (const char* config : {"variant=resident", "variant=two_pass", "variant=split"}) {
    EXPECT_EQ(gathers_of(text, "rows=64,cols=1000,inner=4", config), 0U);
    EXPECT_EQ(gathers_of(text + "max m = x\nout z : f32[row] = m\n", "rows=64,cols=1000,inner=4", config), 1U);
  }
  EXPECT_EQ(gathers_of(text, "rows=64,cols=1000"), 1U);
}

// Columns that are inputs, among other reductions.
constexpr const char* given = R"(
in x : float[row, col]
in w : f32[col]
in t : i32[row]
in f : f32[row]
max m = x
sum a = select(col == t, x, 0)
sum b = select(f != col, 0, x * w + f)
out of_integer : f32[row] = a
out of_number : f32[row] = select(m == -inf, m, b)
)";
// A column that a reduction finds, and a constant one with a term of the second stage.
constexpr const char* found_first = R"(
in x : float[row, col]
in w : f32[col]
in t : i32[row]
max m = x
argmax k = x
min d = x - m
sum a = select(col == k && t > 0, w, 0)
sum b = select(col == 3, m - x, 0)
out of_argmax : f32[row] = a
out of_constant : f32[row] = select(d > 0, d, b)
)";
// Stages that are nothing but one term.
constexpr const char* alone = R"(
in x : float[row, col]
in w : f32[col]
in t : i32[row]
in f : f32[row]
sum a = select(col == t, x, 0)
sum b = select(f == col, w + a, 0)
out of_integer : f32[row] = a
out of_number : f32[row] = b
)";

constexpr double infinite = std::numeric_limits<double>::infinity();

class RowProgramGatherHost : public test::RowProgramHost {
 protected:
  static std::int64_t target(std::int64_t row, std::int64_t cols) {
    const std::array<std::int64_t, 8> targets{
        0, cols - 1, cols, -1, std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), cols / 2, -100};
    return targets[static_cast<std::size_t>(row) % targets.size()];
  }
  static double number(std::int64_t row, std::int64_t cols) {
    const auto last = static_cast<double>(cols - 1);
    const std::array<double, 11> numbers{-0.0, 2.5, std::nan(""), infinite, -infinite, -1, last, last + 1, 1e30, 7, -0.5};
    return numbers[static_cast<std::size_t>(row) % numbers.size()];
  }
  /// Sums of a few of them are exact in every type. Row 0 begins with -0; others have NaN or infinity.
  static double element(std::int64_t row, std::int64_t column) {
    if (row == 0 && column == 0) return -0.0;
    if (row % 5 == 3 && column == 11) return row % 2 == 0 ? infinite : std::nan("");
    return static_cast<double>((row * 7 + column * 13) % 61 - 30) / 4;
  }
  static double weight(std::int64_t column) { return static_cast<double>(1 << column % 3) / 2; }

  /// Checks the outputs of a case, whose rows are `inner` positions of each of `rows` matrices.
  void expect_terms(const Executable& executable, const Case& c) {
    const std::vector<ArrayInfo> infos = c.op().parse(c.problem)->arrays();
    const std::int64_t inner = c.problem.fields.contains("inner") ? c.problem.fields.integer("inner") : 1,
                       cols = c.problem.fields.integer("cols"), rows = c.problem.fields.integer("rows") * inner;
    std::vector<std::vector<std::byte>> inputs;
    for (std::size_t i = 0; i < (c.problem.fields.string("program").find("in f") == std::string::npos ? 3 : 4); ++i)
      inputs.emplace_back(static_cast<std::size_t>(infos[i].extent_bytes()), std::byte{0xff});
    const auto stride = [&](const char* field, std::int64_t otherwise) {
      return c.problem.fields.contains(field) ? std::stoll(c.problem.fields.string(field).substr(2)) : otherwise;
    };
    const std::int64_t row_stride = stride("row_strides", cols * inner), col_stride = stride("col_strides", inner),
                       inner_stride = stride("inner_strides", 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < cols; ++column)
        write_element(infos[0].dtype, inputs[0].data(),
                      row / inner * row_stride + column * col_stride + row % inner * inner_stride, element(row, column));
      write_integer(DType::i32, inputs[2].data(), row, target(row, cols));
      if (inputs.size() > 3) write_element(DType::f32, inputs[3].data(), row, number(row, cols));
    }
    for (std::int64_t column = 0; column < cols; ++column)
      write_element(DType::f32, inputs[1].data(), column, weight(column));

    const auto outputs = outputs_of(executable, c, inputs);
    const std::string& text = c.problem.fields.string("program");
    const bool is_first = text.find("argmax") != std::string::npos, is_alone = text.find("max") == std::string::npos;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto expected = is_first ? terms_found_first(row, cols) : terms_given(row, cols, is_alone);
      for (std::size_t k = 0; k < 2; ++k) {
        const double found = read_element(DType::f32, outputs[k].data(), row);
        EXPECT_TRUE(found == expected[k] || (std::isnan(found) && std::isnan(expected[k])))
            << c.text() << " row " << row << " output " << k << ": " << found << ", expected " << expected[k];
        EXPECT_FALSE(found == 0 && std::signbit(found)) << c.text() << " row " << row << " output " << k;
      }
    }
  }

 private:
  static std::array<double, 2> terms_given(std::int64_t row, std::int64_t cols, bool is_alone) {
    const std::int64_t t = target(row, cols);
    const double a = t >= 0 && t < cols ? element(row, t) : 0, f = number(row, cols);
    const auto at = f >= 0 && f < static_cast<double>(cols) ? static_cast<std::int64_t>(f) : -1;
    if (at < 0 || static_cast<double>(at) != f) return {a, 0};
    return {a, is_alone ? weight(at) + a : element(row, at) * weight(at) + f};
  }
  static std::array<double, 2> terms_found_first(std::int64_t row, std::int64_t cols) {
    double most = -infinite;
    std::int64_t at = 0;
    for (std::int64_t column = 0; column < cols && !std::isnan(most); ++column)
      if (const double x = element(row, column); x > most || std::isnan(x)) {
        most = x;
        at = column;
      }
    return {target(row, cols) > 0 ? weight(at) : 0, most - element(row, 3)};
  }
};

TEST_F(RowProgramGatherHost, TermsAreExactInEveryVariant) {
  std::vector<Case> cases;
  std::set<std::string> variants;
  const auto add = [&](Case c) {
    EXPECT_EQ(gathers_of(c), 2U) << c.text();
    variants.insert(c.config.variant());
    cases.push_back(std::move(c));
  };
  const std::vector<const char*> configs{"variant=warp,lanes=8,threads=64",
                                         "variant=warp,lanes=32,threads=64",
                                         "variant=block,threads=96",
                                         "variant=hybrid,threads=32,register_vectors=1",
                                         "variant=two_pass,threads=64,unroll=2",
                                         "variant=cluster,threads=32,blocks_per_row=3",
                                         "variant=grid,threads=32,blocks_per_row=2",
                                         "variant=persistent,threads=64,blocks_per_row=1,stages=2,batch=2,keep_columns=1",
                                         "variant=persistent,threads=32,blocks_per_row=2,stages=3,batch=1,keep_columns=0"};
  std::size_t turn = 0;
  for (const char* fields :
       {"rows=23,cols=257", "rows=23,cols=781,dtype=f16", "rows=24,cols=1000,dtype=bf16", "rows=23,cols=203,dtype=f64"}) {
    for (Case& c : row_program_cases(given, fields, device_.info(), configs)) add(std::move(c));
    const std::vector<const char*> some{configs[turn], configs[turn + 2], configs[turn + 4]};
    for (const char* text : {found_first, alone})
      for (Case& c : row_program_cases(text, std::string(fields) + ",row_strides=x=1008", device_.info(), some))
        add(std::move(c));
    ++turn;
  }
  for (const char* fields : {"rows=23,cols=903,dtype=bf16", "rows=23,cols=5003", "rows=3,cols=30011,dtype=f16"}) {
    const Problem problem = test::row_program_problem(given, fields);
    add({problem, *find_op("row_program").parse(problem)->capacity_config(device_.info())});
  }
  EXPECT_EQ(variants, (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "two_pass", "warp"}));
  EXPECT_GE(cases.size(), 40U);
  with_executables(cases, [&](const Case& c, const Executable& executable) { expect_terms(executable, c); });
}

TEST_F(RowProgramGatherHost, TermsOfADimensionThatIsNotTheLast) {
  std::vector<Case> cases;
  std::set<std::string> variants;
  for (const char* fields :
       {"rows=3,cols=257,inner=8", "rows=2,cols=513,inner=7,dtype=bf16", "rows=1,cols=129,inner=12,dtype=f64",
        "rows=2,cols=300,inner=11,row_strides=x=4000,col_strides=x=1,inner_strides=x=302"})
    for (const char* text : {given, found_first})
      for (Case& c :
           row_program_cases(text, fields, device_.info(),
                             {"variant=resident,threads=128,lanes=2", "variant=two_pass,threads=64,lanes=8,unroll=2",
                              "variant=cluster,threads=64,lanes=4,blocks_per_row=3",
                              "variant=split,threads=64,lanes=2,unroll=2,blocks_per_row=3"})) {
        EXPECT_EQ(gathers_of(c), 2U) << c.text();
        variants.insert(c.config.variant());
        cases.push_back(std::move(c));
      }
  EXPECT_EQ(variants, (std::set<std::string>{"cluster", "resident", "split", "two_pass"}));
  EXPECT_GE(cases.size(), 12U);
  with_executables(cases, [&](const Case& c, const Executable& executable) { expect_terms(executable, c); });
}

// Terms of random programs: roundings, divisors, integers, and numbers of random kinds, at columns that the row decides.
TEST_F(RowProgramGatherHost, RandomTermsAgreeWithTheirEvaluation) {
  constexpr std::uint64_t first_seed = 20261127, wanted = 24;
  const char* const columns[] = {"5", "row", "cols - 1 - row", "2.5 * row"};
  const char* const shapes[] = {"rows=9,cols=1024,dtype=bf16", "rows=9,cols=1056,dtype=f32", "rows=9,cols=1120,dtype=f16"};
  const char* const configs[] = {"variant=persistent,threads=32,stages=2,batch=2,keep_columns=0",
                                 "variant=two_pass,threads=32,unroll=1",
                                 "variant=hybrid,threads=32,register_vectors=1",
                                 "variant=cluster,threads=32,blocks_per_row=2",
                                 "variant=grid,threads=32,blocks_per_row=2",
                                 "variant=warp,lanes=32",
                                 "variant=block,threads=64"};
  const char* const strided_configs[] = {"variant=resident,threads=64,lanes=2",
                                         "variant=split,threads=64,lanes=2,unroll=2,blocks_per_row=3"};
  std::vector<Case> cases;
  std::set<std::string> variants;
  for (std::uint64_t seed = first_seed; cases.size() < wanted && seed < first_seed + 40 * wanted; ++seed) {
    std::string text = row_program::random_program(seed);
    const std::size_t sum = text.find("\nsum v");
    if (sum == std::string::npos || text.find("topk") < sum) continue;  // it may add up the chosen columns
    const std::size_t term = text.find(" = ", sum) + 3, end = text.find('\n', term);
    text.replace(term, end - term,
                 std::string("select(col == ") + columns[seed % 4] + ", " + text.substr(term, end - term) + ", 0)");
    const bool strided = cases.size() % 4 == 3 && text.find("col/") == std::string::npos;
    const std::string fields = strided ? "rows=2,cols=520,inner=5,dtype=bf16" : shapes[seed / 4 % 3];
    const char* const config = strided ? strided_configs[seed / 4 % 2] : configs[cases.size() % 7];
    for (Case& c : row_program_cases(text, fields + test::numbers_for(text), device_.info(), {config})) {
      if (gathers_of(c) == 0) continue;
      variants.insert(c.config.variant());
      cases.push_back(std::move(c));
    }
  }
  EXPECT_EQ(cases.size(), wanted);
  EXPECT_EQ(variants, (std::set<std::string>{"block", "cluster", "grid", "hybrid", "persistent", "resident", "split",
                                             "two_pass", "warp"}));
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
