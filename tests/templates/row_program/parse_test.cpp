// Correct programs: what their graphs are.

#include "templates/row_program/language/parse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "templates/row_program/language/programs.h"

namespace tunesmith::row_program {
namespace {

TEST(RowProgramParse, AllShippedProgramsAreCorrect) {
  ASSERT_GT(shipped_programs().size(), 20u);
  for (const auto& [name, text] : shipped_programs()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(text.starts_with("# "));
    const Program program = parse(text, name);
    EXPECT_FALSE(program.outputs.empty());
    for (const Type dtype : {Type::f32, Type::f16, Type::bf16}) {
      const Program typed = with_dtype(program, dtype);
      for (const Node& node : typed.nodes) EXPECT_FALSE(node.to_problem_dtype);
      for (const Input& input : typed.inputs) EXPECT_TRUE(input.type.has_value());
    }
  }
  EXPECT_EQ(shipped_program("rms_norm").substr(0, 9), "# RMSNorm");
  EXPECT_TRUE(shipped_program("rms_nor").empty());
}

/// The value of `out y : f32[row, col] = ...`.
Node output_of(const std::string& expression) {
  const Program program =
      parse("in x : f32[row, col]\nout y : f32[row, col] = " + expression + "\nout z : f32[row, col] = x\n");
  return program.nodes[static_cast<std::size_t>(program.outputs[0].node)];
}

double constant(const std::string& expression) {
  const Node node = output_of(expression);
  EXPECT_EQ(node.operation, Operation::constant) << expression;
  return node.value;
}

TEST(RowProgramParse, ConstantsAreFoldedAsF32) {
  EXPECT_EQ(constant("1 / 3"), static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(constant("1e-6"), static_cast<double>(1e-6f));
  EXPECT_EQ(constant("2 + 3 * 4 - -1"), 15);
  EXPECT_EQ(constant("2 - 3 - 4"), -5);
  EXPECT_EQ(constant("8 / 4 / 2"), 1);
  EXPECT_EQ(constant("(2 + 3) * 4"), 20);
  EXPECT_EQ(constant("1 < 2 && 3 >= 3 || false ? 5 : 6"), 5);
  EXPECT_EQ(constant("1 > 2 ? 1 : 2 > 1 ? 7 : 8"), 7);
  EXPECT_EQ(constant("select(!(1 == 1), 3, 4)"), 4);
  EXPECT_EQ(constant("clamp(9, -1, 1) + min(3, 4) + max(3, 4)"), 8);
  EXPECT_EQ(constant("e4m3(1000) + i8(2.5) + bf16(257)"), 448 + 2 + 256);
  EXPECT_EQ(constant("-inf"), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(constant("nan")));
  EXPECT_EQ(constant("round(2.5) + floor(-0.5)"), 1);
  EXPECT_EQ(constant("16777216 + 1"), 16777216);  // rounded to f32
}

TEST(RowProgramParse, OnlyExactSimplificationsAreMade) {
  EXPECT_EQ(output_of("x * 1").operation, Operation::input);
  EXPECT_EQ(output_of("--x").operation, Operation::input);
  EXPECT_EQ(output_of("x / 4").operation, Operation::multiply);
  EXPECT_EQ(output_of("x / 3").operation, Operation::divide);
  EXPECT_EQ(output_of("x + 0").operation, Operation::add);       // -0 + 0 is 0
  EXPECT_EQ(output_of("x * 0").operation, Operation::multiply);  // NaN
  EXPECT_EQ(output_of("x - x").operation, Operation::subtract);
  EXPECT_EQ(output_of("x + -x * 1").operation, Operation::subtract);
}

TEST(RowProgramParse, EqualSubexpressionsAreOneNodeAndUnusedOnesAreNone) {
  const Program program = parse(
      "in x : f32[row, col]\nfn f(a) = exp(a) * 2\nunused = tanh(x)\nsum also_unused = x\n"
      "sum s = exp(x); sum t = exp(x)\nout y : f32[row, col] = f(x) + 2 * exp(x) + s * t\n");
  EXPECT_EQ(program.reductions.size(), 1u);
  EXPECT_EQ(std::ranges::count(program.nodes, Operation::exp, &Node::operation), 1);
  EXPECT_EQ(std::ranges::count(program.nodes, Operation::tanh, &Node::operation), 0);
}

TEST(RowProgramParse, KindsTypesAndStagesFollowFromOperands) {
  const Program p = parse(
      "in x : e4m3[row, col]; in s : f32[row, col/64]; in w : f16[col]\nin t : i32[row]; num a : i32 = 3\n"
      "max[64] m = x * s          # stage 1\n"
      "mean u = x / m             # stage 2\n"
      "argmax i = (x - u) * w     # stage 3\n"
      "count c = col < t\n"
      "out y : f32[row, col/64] = m + u\nout z : i32[row] = i\nout k : i32[row] = c\nout v : bool[row, col] = w > a\n");
  EXPECT_EQ(p.group, 64);
  EXPECT_EQ(p.stages, 3);
  ASSERT_EQ(p.reductions.size(), 4u);
  const auto output = [&](std::size_t o) { return p.nodes[static_cast<std::size_t>(p.outputs[o].node)]; };
  EXPECT_EQ(output(0).kind, Kind::group);
  EXPECT_EQ(output(0).stage, 2);
  EXPECT_EQ(output(1).kind, Kind::row);
  EXPECT_EQ(output(1).type, Type::i32);
  EXPECT_EQ(output(1).stage, 3);
  EXPECT_EQ(output(2).stage, 1);
  EXPECT_EQ(output(3).kind, Kind::col);
  EXPECT_EQ(output(3).type, Type::boolean);
  for (std::size_t r = 1; r < 4; ++r) EXPECT_GE(p.reductions[r].stage, p.reductions[r - 1].stage);
  for (std::size_t n = 0; n < p.nodes.size(); ++n) {
    for (const int operand : p.nodes[n].operands) EXPECT_LT(operand, static_cast<int>(n));
    if (p.nodes[n].operation == Operation::less && p.nodes[n].type == Type::boolean) {
      EXPECT_EQ(p.nodes[static_cast<std::size_t>(p.nodes[n].operands[0])].type,
                p.nodes[static_cast<std::size_t>(p.nodes[n].operands[1])].type);
    }
  }
}

TEST(RowProgramParse, ATypeRounds) {
  const Program p =
      parse("in x, r : bf16[row, col]\nh : bf16 = x + r\nout y : f32[row, col] = h * 2\nout z : bf16[row, col] = h\n");
  EXPECT_EQ(std::ranges::count(p.nodes, Operation::round_to, &Node::operation), 1);
  const Program q = with_dtype(parse("in x : float[row, col]\nh : float = x * x\nout y : f32[row, col] = h\n"), Type::f32);
  EXPECT_EQ(std::ranges::count(q.nodes, Operation::round_to, &Node::operation), 0);
}

TEST(RowProgramParse, LinesContinueInsideBracketsAndAfterOperators) {
  const Program p =
      parse("in x : f32[row, col]  # input\r\n\r\nz = min(x,\n   # between\n  2) +\n  1; out y : f32[row, col] = z");
  EXPECT_EQ(p.outputs.size(), 1u);
  EXPECT_EQ(p.nodes[static_cast<std::size_t>(p.outputs[0].node)].operation, Operation::add);
}

TEST(RowProgramParse, AColumnSumIsAnOutput) {
  const Program p = parse("in x : bf16[row, col]\ncolsum db : bf16[col] = x\n");
  EXPECT_TRUE(p.outputs[0].sum_over_rows);
  EXPECT_EQ(p.outputs[0].kind, Kind::col);
  EXPECT_EQ(p.nodes[static_cast<std::size_t>(p.outputs[0].node)].kind, Kind::full);
}

}  // namespace
}  // namespace tunesmith::row_program
