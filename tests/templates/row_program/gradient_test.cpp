// Gradients of row programs, by central differences in float64.

#include "templates/row_program/passes/gradient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "templates/row_program/evaluate/evaluate.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "templates/row_program/language/text_of.h"
#include "tests/templates/row_program/random_programs.h"
#include "tunesmith/error.h"

namespace tunesmith::row_program {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr std::int64_t cols = 40;

std::vector<OutputRow> evaluated(const Program& program, const std::vector<double>& numbers, const Rows& inputs) {
  const std::vector<std::span<const double>> spans(inputs.begin(), inputs.end());
  return Evaluator(program, 10, cols, numbers).row(3, spans);
}

/// Compares the gradient of sum(weights * outputs) with differences. Returns the number of derivatives compared.
int check_gradient(const std::string& text, std::uint64_t seed, double tolerance = 2e-6) {
  const Program program = with_dtype(parse(text), Type::f32);
  const std::string gradient = gradient_text(parse(text));
  SCOPED_TRACE(text + "gradient:\n" + gradient);
  const Program backward = with_dtype(parse(gradient, "gradient"), Type::f32);
  Rows inputs = random_inputs(program, cols, seed, false);
  for (std::size_t n = 0; n < inputs.size(); ++n)  // no ties
    for (std::size_t i = 0; i < inputs[n].size() && inputs[n].size() > 1; ++i)
      if (program.inputs[n].type != Type::i32) inputs[n][i] += 0.00117 * static_cast<double>(i) + 0.0003;

  std::map<std::string, std::vector<double>> arrays;
  for (std::size_t i = 0; i < inputs.size(); ++i) arrays[program.inputs[i].name] = inputs[i];
  const std::vector<double> numbers = numbers_of(program);
  const std::vector<OutputRow> outputs = evaluated(program, numbers, inputs);
  Rows weights;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    weights.emplace_back();
    const bool one = program.outputs[o].kind == Kind::scalar;  // a sum of the columns' terms
    for (std::size_t i = 0; i < outputs[o].elements.size(); ++i)
      weights.back().push_back(std::sin(static_cast<double>((one ? 0 : 3 * i) + o + seed)));
    arrays["d" + program.outputs[o].name] = one ? std::vector<double>{weights.back()[0]} : weights.back();
  }
  const auto loss = [&] {
    double sum = 0;
    const std::vector<OutputRow> row = evaluated(program, numbers, inputs);
    for (std::size_t o = 0; o < row.size(); ++o) {
      if (value_type(*program.outputs[o].type) != Type::f32) continue;
      for (std::size_t i = 0; i < row[o].elements.size(); ++i) sum += weights[o][i] * row[o].elements[i].value;
    }
    return sum;
  };

  Rows backward_inputs;
  std::vector<double> backward_numbers;
  for (const Input& input : backward.inputs) backward_inputs.push_back(arrays.at(input.name));
  for (const Number& number : backward.numbers) backward_numbers.push_back(number.value.value_or(7));
  const std::vector<OutputRow> derivatives = evaluated(backward, backward_numbers, backward_inputs);
  int compared = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (std::size_t o = 0; o < derivatives.size(); ++o) {
      if (backward.outputs[o].name != "d" + program.inputs[i].name) continue;
      for (std::size_t k = 0; k < inputs[i].size(); ++k) {
        constexpr double step = 1e-5;
        const double before = inputs[i][k];
        inputs[i][k] = before + step;
        const double above = loss();
        inputs[i][k] = before - step;
        const double below = loss();
        inputs[i][k] = before;
        // Constants of the gradient are rounded to f32, hence 1e-6; third derivatives times step^2 are smaller.
        const double difference = (above - below) / (2 * step);
        EXPECT_NEAR(derivatives[o].elements[k].value, difference, tolerance * (1 + std::fabs(difference)))
            << backward.outputs[o].name << "[" << k << "]";
        ++compared;
      }
    }
  }
  return compared;
}

TEST(RowProgramGradient, OfShippedProgramsIsThatOfDifferences) {
  for (const auto& [name, text] : shipped_programs()) {
    if (name == "gumbel_sampling") continue;  // an argmax has no gradient
    EXPECT_GE(check_gradient(std::string(text), 1), cols) << name;
  }
}

TEST(RowProgramGradient, OfEveryFunctionIsThatOfDifferences) {
  for (const char* const value : {"-x",
                                  "abs(x)",
                                  "exp(x)",
                                  "exp2(x)",
                                  "log(abs(x) + 1)",
                                  "log1p(x * x)",
                                  "tanh(x)",
                                  "erf(x)",
                                  "sqrt(x * x + 1)",
                                  "rsqrt(x * x + 1)",
                                  "sigmoid(x)",
                                  "silu(x)",
                                  "gelu(x)",
                                  "gelu_tanh(x)",
                                  "relu(x)",
                                  "min(x, r)",
                                  "max(r, x)",
                                  "clamp(x, -1, r)",
                                  "x / (2 + r * r)",
                                  "r / (2 + x * x)",
                                  "select(x > 0.5, x * x, x * r)",
                                  "x - r",
                                  "floor(x) * x",
                                  "bf16(x)",
                                  "x ? 1 : 2"}) {
    std::string expression = value;
    if (expression == "x ? 1 : 2") expression = "x > 0 ? x : 2 * x";
    if (expression == "bf16(x)") expression = "x * f32(x)";
    EXPECT_GE(check_gradient("in x : f32[row, col]\nin r : f32[row]\nout y : f32[row, col] = " + expression + " + r\n", 2),
              cols)
        << value;
  }
}

TEST(RowProgramGradient, OfEveryReductionIsThatOfDifferences) {
  for (const char* const reduction : {"sum a = x * w",
                                      "mean a = x * x",
                                      "max a = x * w",
                                      "min a = x + w",
                                      "lse a = 2 * x",
                                      "lse k, a = 2 * x",
                                      "lse k, b, a = x + w",
                                      "moments a, v = x * w",
                                      "moments m, a = x",
                                      "sum[32] a = x * w",
                                      "mean[32] a = x",
                                      "max[32] a = x * x",
                                      "lse[32] a = x",
                                      "moments[32] m, a = x * w",
                                      "sum a = w",
                                      "sum a = q * x",
                                      "sum a = q",
                                      "lse l, m, s = x; a = exp(x - m) / s",
                                      "topk[3] v = x * w; sum a = v * v",
                                      "topk[3] v, i, c = x, x * w; lse a = v + c",
                                      "topk[2] v, i, c = x * w, x; max a = c",
                                      "topk[3] v = x; moments m, a = v",
                                      "topk[3] v = x; mean b = v * v; min a = v - b",
                                      "topk[4] v = w + q * x; lse l, m, s = v; sum a = exp(v - m) / s * (1 + rank)",
                                      "sum b = x; topk[2] v = x; sum a = v * b"}) {
    SCOPED_TRACE(reduction);
    EXPECT_GE(check_gradient("in x : f32[row, col]\nin w : f32[col]\nin q : f32[row, col/32]\n" + std::string(reduction) +
                                 "\nout y : f32[row, col] = a * x + w * w + q\nout z : f32[row, col/32] = q * 2\n",
                             3),
              2 * cols);
  }
}

TEST(RowProgramGradient, OfRandomProgramsIsAProgram) {
  int gradients = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const Program program = parse(random_program(seed));
    try {
      const std::string gradient = gradient_text(program);
      EXPECT_EQ(text_of(parse(gradient)), gradient);
      ++gradients;
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_TRUE(message.starts_with("the gradient has ") || message.find("has no gradient") != std::string::npos ||
                  message.starts_with("no output"))
          << message;
    }
  }
  EXPECT_GT(gradients, 100);
}

TEST(RowProgramGradient, OfRandomSmoothProgramsIsThatOfDifferences) {
  int programs = 0;
  for (std::uint64_t seed = 0; seed < 6000 && !HasFailure(); ++seed) {
    const std::string text = random_program(seed);
    bool smooth = true;
    for (const char* const word :
         {"floor", "round", " <", " >", "==", "!=", "16(", "f16 =", "bf16 =", "float(", "e4m3(", "arg", "online", "i32"})
      smooth = smooth && text.find(word) == std::string::npos;
    if (!smooth) continue;
    try {
      gradient_text(parse(text));
    } catch (const Error&) {
      continue;  // beyond a limit
    }
    // A difference has an error of step^2 times the third derivative.
    check_gradient(text, seed, 1e-4);
    ++programs;
  }
  EXPECT_GT(programs, 50);
}

TEST(RowProgramGradient, OfAColumnSumIsThatOfDifferences) {
  EXPECT_GE(check_gradient("in x : f32[row, col]\nin w : f32[col]\nsum s = x\ncolsum y : f32[col] = x * x * w + s\n", 4),
            2 * cols);
}

// Values of every kind: each element counts once.
TEST(RowProgramGradient, OfASumOfOneElementIsThatOfDifferences) {
  EXPECT_GE(check_gradient("in x : f32[row, col]\nin w : f32[col]\nin r : f32[row]\nsum s = x * w\nsum[16] g = x * x\n"
                           "colsum a : f32[] = x * x * w + s\ncolsum b : f32[] = s * s * r\ncolsum c : f32[] = g * g * r\n"
                           "colsum d : f32[] = w * w\n",
                           6),
            2 * cols);
  EXPECT_GE(check_gradient("in x : f32[row, col]\nin b : f32[row, 5]\ntopk[5] v, i = x\ncolsum a : f32[] = v * b * b\n", 7),
            cols);
}

TEST(RowProgramGradient, OfChosenColumnsIsThatOfDifferences) {
  for (const char* const outputs :
       {"out y : f32[row, 5] = v * v + b", "out y : f32[row, 5] = exp(v - l)\nout z : f32[row, 5] = c * b",
        "out y : f32[row, col] = scatter(i, v * v) * x + w\nout z : f32[row, 5] = b * c",
        "out y : f32[row, col] = x * x * scatter(i, exp(v - l) * b)",
        "out y : f32[row, 5] = v / t * b + r\nout i_out : i32[row, 5] = i"})
    EXPECT_GE(check_gradient("in x : f32[row, col]\nin w : f32[col]\nin b : f32[row, 5]\nin r : f32[row]\n"
                             "topk[5] v, i, c = x + w, x * w\nlse l = v\nsum t = exp(v) * r\n" +
                                 std::string(outputs) + "\nout sum_of : f32[row] = t + r\n",
                             5),
              2 * cols);
}

TEST(RowProgramGradient, OfOneWithoutIsAnError) {
  const auto message = [](const char* text) {
    try {
      gradient_text(parse(text));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(
      message("monoid product(a, b) = a * b identity 1\nin x : f32[row, col]\nreduce p = product(x)\nout y : f32[row] = p\n")
          .find("monoid 'product', line 3, has no gradient"),
      std::string::npos);
  EXPECT_NE(
      message("in x : f32[row, col]\nargmax i = x\nout y : i32[row] = i\n").find("no output of the program has a gradient"),
      std::string::npos);
  EXPECT_NE(
      message("in x : f32[row, col]\nin i : i32[row, 2]\nin w : f32[row, 2]\nout y : f32[row, col] = x + scatter(i, w)\n")
          .find("'scatter', line 4, has no gradient"),
      std::string::npos);
  EXPECT_NE(message("in a, b, c : f32[row, col]\nout y, : f32[row, col] = a\n").find("one output"), std::string::npos);
  EXPECT_NE(message("in a, b, c, d : f32[row, col]\nout y : f32[row, col] = a * b * c * d\n")
                .find("5 inputs [row, col]; allowed: up to 4"),
            std::string::npos);
}

}  // namespace
}  // namespace tunesmith::row_program
