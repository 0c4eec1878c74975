// Programs that compute in f64: types and constants of programs and gradients, and the evaluation in long double.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "templates/row_program/evaluate/evaluate.h"
#include "templates/row_program/evaluate/rounding.h"
#include "templates/row_program/language/canonical.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "templates/row_program/language/text_of.h"
#include "templates/row_program/passes/gradient.h"

namespace tunesmith::row_program {
namespace {

using Value = BoundedOf<long double>;

/// The first element of the first output, for inputs of one row.
Value value_of(const std::string& text, const std::vector<std::vector<double>>& inputs, std::vector<double> numbers = {}) {
  const Program program = with_dtype(parse(text), Type::f64);
  const std::vector<std::span<const double>> spans(inputs.begin(), inputs.end());
  return EvaluatorOf<long double>(program, 1, static_cast<std::int64_t>(inputs.at(0).size()), std::move(numbers))
      .row(0, spans)
      .at(0)
      .elements.at(0);
}

Value result(const std::string& expression, double x, double w = 1) {
  return value_of("in x, w : float[row, col]\nout y : float[row, col] = (" + expression + ") + w * 0", {{x}, {w}});
}

TEST(RowProgramF64, AnyArrayOfF64DecidesAboutTheProgram) {
  const auto wide = [](const char* text, Type dtype) { return computes_in_f64(with_dtype(parse(text), dtype)); };
  const char* const generic = "in x : float[row, col]\nin w : f32[col]\nout y : bf16[row, col] = x * w";
  EXPECT_TRUE(wide(generic, Type::f64));
  EXPECT_FALSE(wide(generic, Type::f32));
  EXPECT_TRUE(wide("in x : bf16[row, col]\nin s : f64[row]\nout y : bf16[row, col] = x * s", Type::f32));
  EXPECT_TRUE(wide("in x : bf16[row, col]\nin w : f64[col]\nout y : bf16[row, col] = x * w", Type::f32));
  EXPECT_TRUE(wide("in x : bf16[row, col]\nsum s = x\nout y : f64[row] = s", Type::f32));
  EXPECT_TRUE(wide("in x : bf16[row, col]\ncolsum y : f64[col] = x", Type::f32));
  EXPECT_FALSE(wide("in x : bf16[row, col]\nout y : f32[row, col] = x", Type::f64));
}

TEST(RowProgramF64, ConstantsKeepTheirDigits) {
  EXPECT_EQ(static_cast<double>(result("x * 0.1", 1).value), 0.1);
  EXPECT_EQ(static_cast<double>(result("x * pi", 1).value), 3.141592653589793);
  EXPECT_EQ(static_cast<double>(result("x * (0.7 * 13)", 1).value), 0.7 * 13);
  EXPECT_EQ(static_cast<double>(value_of("in x : f64[row, col]\nout y : f64[row, col] = x * 1e-300", {{1}}).value), 1e-300);
  // The default of a number, and its value.
  const char* const numbers = "in x : float[row, col]\nnum a : f32 = 0.1\nout y : float[row, col] = x * a";
  EXPECT_EQ(*with_dtype(parse(numbers), Type::f64).numbers.at(0).value, 0.1);
  EXPECT_EQ(static_cast<double>(value_of(numbers, {{1}}, {1.0 / 3}).value), 1.0 / 3);
  // Arithmetic in f32 rounds them as before: 0.7f * 13 is not the float next to 0.7 * 13.
  const Program narrow = with_dtype(parse("in x : float[row, col]\nout y : float[row, col] = x * (0.7 * 13)"), Type::f32);
  bool found = false;
  for (const Node& node : narrow.nodes) found = found || node.value == static_cast<double>(0.7F * 13.0F);
  EXPECT_TRUE(found);
  EXPECT_NE(static_cast<double>(0.7F * 13.0F), static_cast<double>(static_cast<float>(0.7 * 13)));
}

TEST(RowProgramF64, F32NamesTheTypeOfArithmetic) {
  EXPECT_EQ(static_cast<double>(result("f32(x)", 0.1).value), 0.1);
  EXPECT_EQ(static_cast<double>(result("f32(16777217 + i32(x)) * 1", 0).value), 16777217);
  EXPECT_EQ(static_cast<double>(result("bf16(x)", 0.1).value), 0.10009765625);
}

TEST(RowProgramF64, IntegersOfTheTextAreExact) {
  const Program program = with_dtype(parse("in x : f32[row, col]\nnum n : i32 = 16777217\nout y : f32[row, col] = "
                                           "select(n == 16777217, x, select(n == 16777216, 0, 1))"),
                                     Type::f32);
  EXPECT_EQ(*program.numbers.at(0).value, 16777217);
  bool odd = false;
  for (const Node& node : program.nodes) odd = odd || (node.operation == Operation::constant && node.value == 16777217);
  EXPECT_TRUE(odd);
}

TEST(RowProgramF64, GradientsHaveTheTypesOfTheProgram) {
  const auto types = [](const char* text) {
    std::string all;
    const Program gradient = parse(gradient_text(parse(text)));
    for (const Input& input : gradient.inputs) all += input.name + ":" + std::string(enum_name(*input.type)) + " ";
    for (const Output& output : gradient.outputs) all += output.name + "=" + std::string(enum_name(*output.type)) + " ";
    EXPECT_TRUE(computes_in_f64(gradient)) << text;
    return all;
  };
  EXPECT_EQ(types("in x : f64[row, col]\nin w : f32[col]\nout y : f64[row, col] = x * w"),
            "x:f64 w:f32 dy:f64 dx=f64 dw=f32 ");
  EXPECT_EQ(types("in x : bf16[row, col]\nin w : f64[col]\nout y : bf16[row, col] = x * w"),
            "x:bf16 w:f64 dy:bf16 dx=bf16 dw=f64 ");
  EXPECT_EQ(types("in x : f64[row, col]\nout y : e4m3[row, col] = x * x"), "x:f64 dy:f64 dx=f64 ");
}

TEST(RowProgramF64, GradientsKeepTheDigitsOfConstants) {
  const std::string text = gradient_text(parse(shipped_program("geglu")));
  EXPECT_NE(text.find("0.7071067811865476"), std::string::npos) << text;
  for (const auto& [name, program] : shipped_programs()) {
    if (name == "gumbel_sampling") continue;
    const Program parsed = with_dtype(parse(program), Type::f64);
    const std::string printed = text_of(parse(program));
    EXPECT_EQ(canonical_text(with_dtype(parse(printed), Type::f64)), canonical_text(parsed)) << name;
  }
}

// To the accuracy of differences of long double: steps of 2^-17 have an error of about 2^-34 and 2^-64 / 2^-17.
TEST(RowProgramF64, GradientsAreThoseOfDifferences) {
  const std::string text = R"(
in x : float[row, col]
num a : f32 = 0.3
lse l = x * a
moments m, v = x
out y : float[row] = l * 0.7 + rsqrt(v + 0.1) + tanh(m)
)";
  const std::vector<double> x{0.3, -1.2, 2.5, 0.7, 1.1};
  const long double step = 0x1p-17L;
  const Program gradient = with_dtype(parse(gradient_text(parse(text))), Type::f64);
  std::vector<std::vector<double>> inputs{x, {1}};
  const std::vector<std::span<const double>> spans(inputs.begin(), inputs.end());
  const auto derivatives = EvaluatorOf<long double>(gradient, 1, 5, {0.3}).row(0, spans).at(0).elements;
  for (std::size_t c = 0; c < x.size(); ++c) {
    std::vector<double> more = x, less = x;
    more[c] += 0x1p-17;
    less[c] -= 0x1p-17;
    const long double difference = (value_of(text, {more}, {0.3}).value - value_of(text, {less}, {0.3}).value) / (2 * step);
    EXPECT_NEAR(static_cast<double>(derivatives[c].value), static_cast<double>(difference), 1e-9);
    EXPECT_LT(derivatives[c].bound, 1e-12L);
  }
}

TEST(RowProgramF64, BoundsAreThoseOfF64) {
  EXPECT_EQ(result("x + 1", 2).bound, 0);  // exact
  const Value sum = result("x + 0.2", 0.1);
  EXPECT_GT(sum.bound, 0x1p-55L);
  EXPECT_LT(sum.bound, 0x1p-50L);
  // 64 bits do not hold the product, and a kernel may fuse it with the difference.
  const Value product = result("x * x - 1", 1 + 0x1p-40);
  EXPECT_GT(product.bound, 0);
  EXPECT_GE(product.bound, std::fabs(product.value - (0x1p-39L + 0x1p-80L)));
  EXPECT_EQ(result("x * x", 1 + 0x1p-20).bound, 0);  // 41 bits
  EXPECT_GT(result("x * x", 1e-200).bound, 0);       // a denormal, or 0
  EXPECT_LT(result("exp(x)", -700).bound, 0x1p-1055L);
}

TEST(RowProgramF64, TheRangeIsThatOfF64) {
  EXPECT_TRUE(std::isinf(result("x * x", 1e200).value));
  EXPECT_EQ(result("x * x", 1e200).bound, 0);
  EXPECT_TRUE(std::isfinite(result("x * x", 1e100).value));
  EXPECT_TRUE(std::isinf(result("exp(x)", 710).value));
  EXPECT_FALSE(std::isinf(result("exp(x)", 709).value));
  EXPECT_EQ(result("(x * 1.5) / 1.5", 0x1.fffffffffffffp1023).bound, 0);  // infinite for certain
  EXPECT_TRUE(std::isinf(result("x * 1.0000000000000002", 0x1.fffffffffffffp1023).bound) ||
              std::isinf(result("x * 1.0000000000000002", 0x1.fffffffffffffp1023).value));
}

// A number between two doubles is rounded once.
TEST(RowProgramF64, NumbersOfLongDoubleAreRoundedOnce) {
  const long double above_a_tie = 1 + 0x1p-11L + 0x1p-63L, below = 1 + 0x3p-11L - 0x1p-63L;
  EXPECT_EQ(round_to_type(Type::f16, above_a_tie), 1 + 0x1p-10);
  EXPECT_EQ(round_to_type(Type::f16, below), 1 + 0x1p-10);
  EXPECT_EQ(round_to_type(Type::f16, -above_a_tie), -1 - 0x1p-10);
  EXPECT_EQ(round_to_type(Type::f16, static_cast<double>(above_a_tie)), 1);
  EXPECT_EQ(round_to_type(Type::i8, 2.5L + 0x1p-62L), 3);
  EXPECT_EQ(round_to_type(Type::f64, 1 + 0x1p-53L + 0x1p-63L), 1 + 0x1p-52);
  EXPECT_EQ(round_to_type(Type::f32, 0x1p-16000L), 0);
  EXPECT_EQ(round_to_type(Type::f32, 0x1p2000L), HUGE_VAL);
}

}  // namespace
}  // namespace tunesmith::row_program
