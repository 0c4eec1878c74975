// The float64 evaluation: against formulas that are written by hand, and its bounds against a simulation in f32.

#include "templates/row_program/evaluate/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <random>

#include "core/half.h"
#include "templates/row_program/evaluate/lower_bound.h"
#include "templates/row_program/evaluate/random.h"
#include "templates/row_program/evaluate/rounding.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/programs.h"
#include "templates/row_program/passes/separate.h"
#include "tests/templates/row_program/random_programs.h"
#include "tests/templates/row_program/simulate.h"

namespace tunesmith::row_program {
namespace {

using Rows = std::vector<std::vector<double>>;

std::vector<OutputRow> evaluated(const Program& program, std::int64_t cols, std::int64_t row, const Rows& inputs) {
  const std::vector<std::span<const double>> spans(inputs.begin(), inputs.end());
  return Evaluator(program, 100, cols, numbers_of(program)).row(row, spans);
}

/// Counts elements of a simulation of `simulated` that the evaluation of `program` does not accept.
int rejected(const Program& program, const Program& simulated, std::int64_t cols, std::uint64_t seed, bool special,
             std::string* first = nullptr, int* uncertain = nullptr) {
  const Rows inputs = random_inputs(program, cols, seed, special);
  const auto row = static_cast<std::int64_t>(seed % 100);
  const std::vector<OutputRow> expected = evaluated(program, cols, row, inputs);
  const Rows results = simulate(simulated, 100, cols, row, numbers_of(simulated), inputs);
  int count = 0;
  for (std::size_t o = 0; o < expected.size(); ++o) {
    EXPECT_EQ(expected[o].elements.size(), results[o].size());
    for (std::size_t i = 0; i < results[o].size(); ++i) {
      const Bounded& element = expected[o].elements[i];
      if (uncertain != nullptr && element.bound == anything) ++*uncertain;
      const Type type = program.outputs[o].sum_over_rows ? Type::f32 : *program.outputs[o].type;
      if (expected[o].accepts(type, i, results[o][i])) continue;
      if (count++ == 0 && first != nullptr)
        *first = program.outputs[o].name + "[" + std::to_string(i) + "] is " + std::to_string(results[o][i]) +
                 ", expected " + std::to_string(element.value) + " +- " + std::to_string(element.bound);
    }
  }
  return count;
}

TEST(RowProgramEvaluate, SoftmaxAndRmsNormAreTheirFormulas) {
  const Program softmax = with_dtype(parse(shipped_program("softmax")), Type::f32);
  const Program log_softmax = with_dtype(parse(shipped_program("log_softmax")), Type::f32);
  const Program rms_norm = with_dtype(parse(shipped_program("rms_norm")), Type::f32);
  for (const std::int64_t cols : {1, 7, 1024, 1025, 3000}) {
    const Rows inputs = random_inputs(rms_norm, cols, static_cast<std::uint64_t>(cols), false);
    const std::vector<double>&x = inputs[0], &w = inputs[1];
    double sum = 0, squares = 0;
    for (const double value : x) {
      sum += std::exp(value);
      squares += value * value;
    }
    const double scale = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-6);
    const auto y = evaluated(softmax, cols, 0, {x})[0].elements;
    const auto log_y = evaluated(log_softmax, cols, 0, {x})[0].elements;
    const auto normed = evaluated(rms_norm, cols, 0, inputs)[0].elements;
    ASSERT_EQ(y.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(y[i].value, std::exp(x[i]) / sum, 1e-14);
      EXPECT_NEAR(log_y[i].value, x[i] - std::log(sum), 1e-13);
      EXPECT_NEAR(normed[i].value, x[i] * scale * w[i], 1e-7 * std::fabs(x[i] * scale * w[i]));  // eps is rounded to f32
      EXPECT_LT(y[i].bound, 2e-5 * y[i].value);
      EXPECT_LT(normed[i].bound, 1e-5 * std::fabs(normed[i].value) + 1e-40);
    }
  }
}

TEST(RowProgramEvaluate, SoftCrossEntropyIsItsFormula) {
  const Program program = with_dtype(parse(shipped_program("soft_cross_entropy")), Type::f32);
  for (const std::int64_t cols : {1, 7, 1025})
    for (const double smoothing : {0.0, 0.25, 1.0}) {
      const Rows inputs = random_inputs(program, cols, static_cast<std::uint64_t>(cols), false);
      const std::vector<double>&x = inputs[0], &p = inputs[1];
      double sum = 0, loss = 0, magnitude = 0;
      for (const double value : x) sum += std::exp(value);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double term = (p[i] * (1 - smoothing) + smoothing / static_cast<double>(cols)) * (std::log(sum) - x[i]);
        loss += term;
        magnitude += std::fabs(term);
      }
      const std::vector<std::span<const double>> spans(inputs.begin(), inputs.end());
      const auto row = Evaluator(program, 100, cols, std::vector<double>{smoothing}).row(0, spans);
      EXPECT_NEAR(row[0].elements[0].value, loss, 1e-13 * magnitude);
      EXPECT_NEAR(row[1].elements[0].value, std::log(sum), 1e-13);
      EXPECT_LT(row[0].elements[0].bound, 2e-5 * (1 + magnitude));
    }
}

// Attention over keys 0 to 4 and 5 to 8 gives attention over all, in both units of lse.
TEST(RowProgramEvaluate, MergeAttentionIsAttentionOverAllKeys) {
  const Program program = with_dtype(parse(shipped_program("merge_attention")), Type::f32);
  const std::array<double, 9> scores{1, -3, 40, 2, 0.5, 39, 41, -100, 3};
  const auto attention = [&](std::size_t begin, std::size_t end, double unit) {
    double weights = 0, weighted = 0;
    for (std::size_t key = begin; key < end; ++key) {
      weights += std::exp(scores[key] - 41);
      weighted += std::exp(scores[key] - 41) * static_cast<double>(key);  // the value of a key is its number
    }
    return std::pair(weighted / weights, (41 + std::log(weights)) / unit);
  };
  for (const double unit : {1.0, static_cast<double>(std::log(2.0F))}) {
    const auto [o0, lse0] = attention(0, 5, unit);
    const auto [o1, lse1] = attention(5, 9, unit);
    const auto [o, lse] = attention(0, 9, unit);
    const std::array<std::vector<double>, 4> inputs{{{o0}, {o1}, {lse0}, {lse1}}};
    const std::vector<std::span<const double>> spans(inputs.begin(), inputs.end());
    const auto row = Evaluator(program, 1, 1, std::vector<double>{unit}).row(0, spans);
    EXPECT_NEAR(row[0].elements[0].value, o, 1e-13 * o);
    EXPECT_NEAR(row[1].elements[0].value, lse, 1e-13 * lse);
  }
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto of = [&](double o0, double o1, double lse0, double lse1) {
    const std::vector<OutputRow> row = evaluated(program, 1, 0, {{o0}, {o1}, {lse0}, {lse1}});
    return std::pair(row[0].elements[0].value, row[1].elements[0].value);
  };
  EXPECT_EQ(of(2, nan, 5, -inf), std::pair(2.0, 5.0)) << "no keys in the second set";
  EXPECT_EQ(of(nan, 3, -inf, -1e30), std::pair(3.0, -1e30));
  EXPECT_EQ(of(nan, nan, -inf, -inf), std::pair(0.0, -inf)) << "no keys";
  EXPECT_TRUE(std::isnan(of(nan, 3, 1, 1).first));
}

TEST(RowProgramEvaluate, SpecialValuesAreThoseOfPyTorch) {
  const Program program = with_dtype(parse("in x : f32[row, col]; max m = x; min n = x; lse l = x; sum s = x; argmax i = x\n"
                                           "argmin j = x; count c = x > 0; any a = x > 5; all b = x > -5; moments u, v = x\n"
                                           "out y : f32[row, col] = clamp(x, -1, 1) + m + n + l + s + u + v\n"
                                           "out o1 : i32[row] = i; out o2 : i32[row] = j\n"
                                           "out o3 : i32[row] = c + select(a, 100, 0) + select(b, 1000, 0)\n"
                                           "out o4 : f32[row] = l\n"),
                                     Type::f32);
  const auto of = [&](std::vector<double> x) { return evaluated(program, static_cast<std::int64_t>(x.size()), 0, {x}); };
  auto row = of({1, 3, 3, -2});
  EXPECT_EQ(row[1].elements[0].value, 1);  // the lowest index
  EXPECT_EQ(row[2].elements[0].value, 3);
  EXPECT_EQ(row[3].elements[0].value, 1003);
  row = of({1, std::nan(""), 7, std::nan("")});
  EXPECT_EQ(row[1].elements[0].value, 1);
  EXPECT_EQ(row[2].elements[0].value, 1);
  EXPECT_TRUE(std::isnan(row[0].elements[0].value));
  EXPECT_TRUE(std::isnan(row[4].elements[0].value));
  EXPECT_EQ(row[3].elements[0].value, 102);
  row = of({-HUGE_VAL, -HUGE_VAL});
  EXPECT_EQ(row[4].elements[0].value, -HUGE_VAL);
  row = of({HUGE_VAL, 1});
  EXPECT_EQ(row[4].elements[0].value, HUGE_VAL);
}

TEST(RowProgramEvaluate, SimulationsInF32LieWithinTheBounds) {
  int uncertain = 0, programs = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const std::string text = random_program(seed);
    SCOPED_TRACE(text);
    for (const Type dtype : {Type::f32, Type::bf16}) {
      const Program program = with_dtype(parse(text), dtype);
      for (const bool special : {false, true}) {
        std::string first;
        ASSERT_EQ(rejected(program, program, 75, seed, special, &first, special ? nullptr : &uncertain), 0) << first;
        ++programs;
      }
    }
  }
  EXPECT_LT(uncertain, programs * 75 / 100) << "too many elements may be anything";
}

TEST(RowProgramEvaluate, SimulationsOfShippedProgramsLieWithinTheBounds) {
  for (const auto& [name, text] : shipped_programs())
    for (const Type dtype : {Type::f32, Type::f16, Type::bf16})
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        const Program program = with_dtype(parse(text), dtype);
        std::string first;
        EXPECT_EQ(rejected(program, program, 500, seed, false, &first), 0) << name << ": " << first;
      }
}

struct Mutation {
  const char *program, *from, *to;
};

TEST(RowProgramEvaluate, MutatedProgramsLieOutsideOfTheBounds) {
  for (const Mutation& m :
       {Mutation{"rms_norm", "* w", "* (w + 0.0001)"}, Mutation{"rms_norm", "x * x", "x * x * 1.0001"},
        Mutation{"softmax", "exp(x - m)", "exp(x - m - 0.0001)"}, Mutation{"softmax", "/ s", "/ (s + 0.01)"},
        Mutation{"layer_norm", "+ b", "- b"}, Mutation{"row_quantize", "448", "440"},
        Mutation{"swiglu", "silu(gate)", "gelu(gate)"}, Mutation{"gumbel_sampling", "argmax", "argmin"},
        Mutation{"cross_entropy", "col == target", "col == target + 1"},
        Mutation{"soft_cross_entropy", "(l - logits)", "(l - 0.999 * logits)"},
        Mutation{"soft_cross_entropy", "probabilities *", "1.0001 * probabilities *"},
        Mutation{"softmax_dropout", "uniform(seed, 0)", "uniform(seed, 1)"},
        Mutation{"topk_gate", "exp(v - l)", "exp(v - l - 0.0001)"},
        Mutation{"topk_gate", "topk[8] v, i = x", "topk[8] v, i = x * 0.5"},
        Mutation{"topk_gate_sigmoid", "s + bias", "s - bias"}, Mutation{"topk_gate", "= i", "= i + 1"}}) {
    std::string text(shipped_program(m.program));
    const Program program = with_dtype(parse(text), Type::f32);
    const std::size_t at = text.rfind(m.from);
    ASSERT_NE(at, std::string::npos) << m.program;
    text.replace(at, std::string(m.from).size(), m.to);
    int count = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed)
      count += rejected(program, with_dtype(parse(text), Type::f32), 100, seed, false);
    EXPECT_GT(count, 0) << text;
  }
}

/// Returns the lower bound of the value of a definition.
double bound_of(const std::string& definition) {
  const Program program = parse(
      "in x : f32[row, col]\nnum n : f32 = 1\nmax largest = abs(x)\nlse l, m, s = x\n"
      "out used : f32[row] = n + l + m + s + largest\n" +
      definition + "\n");
  return lower_bounds(program)[static_cast<std::size_t>(program.outputs.back().node)];
}

TEST(RowProgramLowerBound, FollowsFromConstants) {
  constexpr double unknown = -INFINITY;
  for (const auto& [definition, bound] : {std::pair{"max(largest, 1e-12) / 448", 1e-12 / 448},
                                          {"max(largest, 3) * 2 + n * n", 6.0},
                                          {"s", 1.0},
                                          {"largest", 0.0},
                                          {"max(l, n)", unknown},
                                          {"largest - 1", unknown},
                                          {"max(largest, 1e-12) / n", unknown}})
    EXPECT_FLOAT_EQ(static_cast<float>(bound_of(std::string("out y : f32[row] = ") + definition)), static_cast<float>(bound))
        << definition;
}

// The term of the maximum is exp(0). So softmax divides by a sum that needs no scaling, also in separate stages.
TEST(RowProgramLowerBound, SumOfExponentialsBelowTheMaximumIsAtLeastOne) {
  for (const auto& [definitions, bound] : {std::pair{"lse l, m, s = x", 1.0},
                                           {"max m = x\nsum s = exp(x - m)", 1.0},
                                           {"max m = x * 2\nsum s = exp(x - m)", 0.0},
                                           {"max m = x\nsum s = exp(m - x)", 0.0},
                                           {"min m = x\nsum s = exp(x - m)", 0.0},
                                           {"max m = x\nmean s = exp(x - m)", 0.0}}) {
    const Program program =
        with_separate_stages(parse("in x : f32[row, col]\n" + std::string(definitions) + "\nout y : f32[row] = s\n"));
    EXPECT_EQ(lower_bounds(program)[static_cast<std::size_t>(program.outputs[0].node)], bound) << definitions;
  }
}

// A value below its bound would be divided without the scaling that tiny divisors need.
TEST(RowProgramLowerBound, HoldsForRandomPrograms) {
  int bounded = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Program program = with_dtype(parse(random_program(seed)), Type::f32);
    const std::vector<double> bounds = lower_bounds(program);
    const std::vector<OutputRow> row = evaluated(program, 75, 3, random_inputs(program, 75, seed, false));
    for (std::size_t o = 0; o < program.outputs.size(); ++o) {
      const double bound = bounds[static_cast<std::size_t>(program.outputs[o].node)];
      if (program.outputs[o].sum_over_rows || bound == -INFINITY) continue;
      ++bounded;
      for (const Bounded& element : row[o].elements)
        EXPECT_FALSE(element.value < bound) << random_program(seed) << program.outputs[o].name;
    }
  }
  EXPECT_GT(bounded, 20);
}

TEST(RowProgramEvaluate, ComparisonsWithinTheBoundPassEitherWay) {
  // 0.1 + 0.2 in f32 is not exact, so a kernel may find it below or above any number within the bound.
  const Program program = parse(
      "in x : f32[row, col]\nout y : f32[row, col] = select(x * 3 > 0.3, 5, 6)\n"
      "out i : i8[row, col] = x * 25\n");
  const auto row = evaluated(program, 2, 0, {{static_cast<double>(0.1f), 0.5}});
  for (const double value : {5.0, 6.0}) EXPECT_TRUE(accepts(Type::f32, value, row[0].elements[0]));
  EXPECT_FALSE(accepts(Type::f32, 7.5, row[0].elements[0]));
  EXPECT_TRUE(accepts(Type::f32, 5, row[0].elements[1]));
  EXPECT_FALSE(accepts(Type::f32, 6, row[0].elements[1]));
  // 2.5 may be rounded either way, 12.5 is exact.
  for (const double value : {2.0, 3.0}) EXPECT_TRUE(accepts(Type::i8, value, row[1].elements[0]));
  EXPECT_TRUE(accepts(Type::i8, 12, row[1].elements[1]));
  EXPECT_FALSE(accepts(Type::i8, 13, row[1].elements[1]));
}

TEST(RowProgramEvaluate, QuotientsMayBeProductsWithAReciprocal) {
  // 200 is in the middle between two elements of e4m3. 1 / 3 is rounded, so 600 * (1 / 3) may be on either side of it.
  const Program program = parse(
      "in x : f32[row, col]\nmax m = x\nout z : e4m3[row, col] = x / 3\nout w : e4m3[row, col] = x / 4\n"
      "out v : e4m3[row, col] = x / m\n");
  const auto row = evaluated(program, 2, 0, {{600, 800}});
  for (const double value : {192.0, 208.0}) EXPECT_TRUE(accepts(Type::e4m3, value, row[0].elements[0]));
  EXPECT_FALSE(accepts(Type::e4m3, 224, row[0].elements[0]));
  EXPECT_TRUE(accepts(Type::e4m3, 192, row[1].elements[1]));
  EXPECT_FALSE(accepts(Type::e4m3, 208, row[1].elements[1]));
  EXPECT_TRUE(accepts(Type::e4m3, 1, row[2].elements[1]));
  EXPECT_FALSE(accepts(Type::e4m3, 1.125, row[2].elements[1]));
}

TEST(RowProgramEvaluate, ProductsThatOverflowMayBeFusedWithASum) {
  const Program program = parse(
      "in a, b, c : f32[row, col]\nout fused : f32[row, col] = a * b + c\nout difference : f32[row, col] = c - a * b\n");
  const double most = 3e38;
  const Rows inputs{{most, most, most, most, INFINITY, 2},
                    {most, -most, most, -1.5, most, most},
                    {-INFINITY, 1, INFINITY, most, -INFINITY, -INFINITY}};
  const std::vector<OutputRow> expected = evaluated(program, 6, 0, inputs);
  const auto accepts = [&](std::size_t output, std::size_t column, double result) {
    return expected[output].accepts(Type::f32, column, result);
  };
  for (const double either : {static_cast<double>(-INFINITY), std::nan("")}) {  // with one rounding, or with two
    EXPECT_TRUE(accepts(0, 0, either));
    EXPECT_TRUE(accepts(1, 2, -either));
  }
  EXPECT_TRUE(accepts(0, 3, -1.5e38));
  EXPECT_TRUE(accepts(0, 1, -INFINITY));
  EXPECT_FALSE(accepts(0, 1, 1));
  EXPECT_FALSE(accepts(0, 2, std::nan("")));
  EXPECT_FALSE(accepts(1, 0, std::nan("")));
  EXPECT_FALSE(accepts(0, 4, -INFINITY));  // the product is infinite with one rounding, too
  EXPECT_TRUE(accepts(0, 5, -INFINITY));
}

TEST(RowProgramEvaluate, SumsThatMayOverflowAreInfiniteOrTheSum) {
  const Program program = parse(
      "in x : f32[row, col]\nsum s = x\nmoments m, v = x\n"
      "out total : f32[row] = s\nout y : f32[row, col] = x / s\nout mean_out : f32[row] = m\nout var : f32[row] = v\n");
  const double huge = 0x1p127, nan = std::nan("");
  const auto accepted = [&](const std::vector<double>& x, std::size_t output, double result) {
    return evaluated(program, static_cast<std::int64_t>(x.size()), 0, {x})[output].accepts(Type::f32, 0, result);
  };
  // Partial sums of one sign overflow: inf or the sum, in any order.
  const std::vector<double> positive{huge, huge, -huge, 1};
  EXPECT_TRUE(accepted(positive, 0, huge));
  EXPECT_TRUE(accepted(positive, 0, INFINITY));
  EXPECT_FALSE(accepted(positive, 0, -INFINITY));
  EXPECT_FALSE(accepted(positive, 0, nan));
  EXPECT_FALSE(accepted(positive, 0, huge / 2));
  EXPECT_TRUE(accepted(positive, 1, 1));
  EXPECT_TRUE(accepted(positive, 1, 0));
  EXPECT_FALSE(accepted(positive, 1, 0.5));
  EXPECT_TRUE(accepted(positive, 2, huge / 4));
  EXPECT_TRUE(accepted(positive, 2, INFINITY));
  EXPECT_FALSE(accepted(positive, 2, huge / 8));
  EXPECT_TRUE(accepted(positive, 3, INFINITY));
  EXPECT_FALSE(accepted(positive, 3, 1));
  // Of both signs: NaN, too.
  const std::vector<double> both{huge, huge, -huge, -huge};
  for (const double value : {0.0, HUGE_VAL, -HUGE_VAL, nan}) EXPECT_TRUE(accepted(both, 0, value)) << value;
  EXPECT_FALSE(accepted(both, 0, huge));
  // A sum that is certain to overflow, one that cannot, and one of infinite terms.
  EXPECT_FALSE(accepted({huge, huge, huge, 1}, 0, 0x1.fp127));
  EXPECT_TRUE(accepted({huge, huge, huge, 1}, 0, INFINITY));
  EXPECT_FALSE(accepted({huge, 0x1p126, -huge, -0x1p126}, 0, INFINITY));
  EXPECT_FALSE(accepted({HUGE_VAL, 1, 2, 3}, 0, nan));
  EXPECT_TRUE(accepted({HUGE_VAL, -huge, -huge, 3}, 0, nan));
  EXPECT_FALSE(accepted({HUGE_VAL, -huge, -huge, 3}, 0, -INFINITY));
  // Equal large terms have no deviations, whether their sum overflows or not.
  EXPECT_TRUE(accepted(std::vector<double>(8, 0x1p125), 3, 0));
}

TEST(RowProgramEvaluate, AMeanOfDenormalNumbersMayLoseItsSteps) {
  const Program program = parse("in x : f32[row, col]\nmoments m, v = x\nout y : f32[row] = m\n");
  constexpr std::int64_t cols = 4000;
  Rows inputs(1);
  float running = 0;
  for (std::int64_t k = 1; k <= cols; ++k) {
    const float x = k <= cols / 4 ? 0 : 450 * 0x1p-149F;  // a step of x / k rounds to 0
    inputs[0].push_back(x);
    running += (x - running) * (1.0F / static_cast<float>(k));
  }
  const OutputRow row = evaluated(program, cols, 0, inputs)[0];
  EXPECT_GT(std::fabs(running - row.elements[0].value), 64 * 0x1p-149);
  EXPECT_TRUE(row.accepts(Type::f32, 0, running));
  EXPECT_FALSE(row.accepts(Type::f32, 0, 8e-42));
}

TEST(RowProgramEvaluate, AnArgmaxHasAllCandidates) {
  const Program program =
      parse("in x : f32[row, col]\nargmax i = exp(x) * 0.1\nout y : i32[row] = i\nout z : f32[row, col] = x\n");
  EXPECT_EQ(evaluated(program, 4, 0, {{1, 2, std::nextafter(2.0f, 3.0f), 0}})[0].candidates,
            (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(evaluated(program, 4, 0, {{1, 2, 2.1, 0}})[0].candidates.empty());
  // NaN is larger than infinity, surely.
  const Program exact = parse("in x : f32[row, col]\nargmax i = x\nout y : i32[row] = i\nout z : f32[row, col] = x\n");
  const auto row = evaluated(exact, 3, 0, {{1, HUGE_VAL, std::nan("")}});
  EXPECT_TRUE(row[0].candidates.empty());
  EXPECT_EQ(row[0].elements[0].value, 2);
}

TEST(RowProgramEvaluate, TopkOfExactValuesIsExact) {
  const Program program = parse(
      "in x : f32[row, col]\ntopk[4] v, i, w = x, x * 2\nsum s = v\nout value : f32[row, 4] = v\n"
      "out column : i32[row, 4] = i\nout twice : f32[row, 4] = w\nout total : f32[row] = s\n"
      "out y : f32[row, col] = scatter(i, w)\n");
  const auto expect = [&](const std::vector<double>& x, const std::vector<double>& values, const std::vector<int>& columns) {
    const auto row = evaluated(program, static_cast<std::int64_t>(x.size()), 0, {x});
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_TRUE(accepts(Type::f32, values[k], row[0].elements[k])) << k;
      EXPECT_EQ(row[0].elements[k].bound, 0) << k;
      EXPECT_TRUE(row[1].accepts(Type::i32, k, columns[k])) << k;
      for (std::size_t other = 0; other < x.size(); ++other)
        EXPECT_EQ(row[1].accepts(Type::i32, k, static_cast<double>(other)), columns[k] == static_cast<int>(other)) << k;
      EXPECT_TRUE(accepts(Type::f32, 2 * values[k], row[2].elements[k])) << k;
    }
    for (std::size_t c = 0; c < x.size(); ++c) {
      const bool chosen = std::ranges::find(columns, static_cast<int>(c)) != columns.end();
      EXPECT_TRUE(accepts(Type::f32, chosen ? 2 * x[c] : 0, row[4].elements[c])) << c;
    }
    EXPECT_TRUE(accepts(Type::f32, values[0] + values[1] + values[2] + values[3], row[3].elements[0]));
  };
  const double inf = HUGE_VAL, nan = std::nan("");
  expect({3, 1, 4, 1, 5, 9, 2, 6}, {9, 6, 5, 4}, {5, 7, 4, 2});
  expect({1, 2, 1, 2, 1, 2}, {2, 2, 2, 1}, {1, 3, 5, 0});
  expect({-inf, 0, -0.0, -inf}, {0, 0, -inf, -inf}, {1, 2, 0, 3});
  expect({1, nan, inf, 7, nan, -inf}, {nan, nan, inf, 7}, {1, 4, 2, 3});
}

TEST(RowProgramEvaluate, TopkOfUncertainValuesHasAllCandidates) {
  const Program program = parse(
      "in x : f32[row, col]\nin w : f32[col]\ntopk[2] v, i, c = exp(x) * 0.1, w\nout value : f32[row, 2] = v\n"
      "out column : i32[row, 2] = i\nout carried : f32[row, 2] = c\nout y : f32[row, col] = scatter(i, c)\n");
  const auto next = static_cast<double>(std::nextafter(2.0f, 3.0f));
  const auto row = evaluated(program, 5, 0, {{1, 2, next, 0, 1.5}, {10, 20, 30, 40, 50}});
  const auto accepted = [&](std::size_t output, std::size_t rank) {
    std::vector<int> all;
    for (const int value : {0, 1, 2, 3, 4, 10, 20, 30, 40, 50})
      if (row[output].accepts(output == 1 ? Type::i32 : Type::f32, rank, value)) all.push_back(value);
    return all;
  };
  EXPECT_EQ(accepted(1, 0), (std::vector<int>{1, 2}));
  EXPECT_EQ(accepted(1, 1), (std::vector<int>{1, 2}));
  EXPECT_EQ(accepted(2, 0), (std::vector<int>{20, 30}));
  EXPECT_EQ(accepted(3, 0), (std::vector<int>{0}));
  EXPECT_TRUE(row[3].accepts(Type::f32, 1, 20));
  EXPECT_EQ(accepted(3, 4), (std::vector<int>{0}));
  // Surely ordered: one candidate each.
  const auto apart = evaluated(program, 5, 0, {{1, 2, 2.1, 0, 1.5}, {10, 20, 30, 40, 50}});
  EXPECT_TRUE(apart[1].accepts(Type::i32, 0, 2) && !apart[1].accepts(Type::i32, 0, 1));
  EXPECT_TRUE(apart[1].accepts(Type::i32, 1, 1) && !apart[1].accepts(Type::i32, 1, 4));
  // Many columns that are alike, beyond what is kept without sorting.
  const std::vector<double> alike(20000, 2.0);
  const auto many = evaluated(program, 20000, 0, {alike, alike});
  EXPECT_TRUE(many[1].accepts(Type::i32, 1, 19999) && many[1].accepts(Type::i32, 0, 0));
}

TEST(RowProgramRounding, GivesTheNearestValueOfEachType) {
  EXPECT_EQ(round_to_type(Type::bf16, 1 + 0x1p-8), 1);
  EXPECT_EQ(round_to_type(Type::bf16, 1 + 0x3p-8), 1 + 0x1p-6);
  EXPECT_EQ(round_to_type(Type::f16, 65520.0), HUGE_VAL);
  EXPECT_EQ(round_to_type(Type::f16, 65519.0), 65504);
  EXPECT_EQ(round_to_type(Type::e4m3, 1000.0), 448);
  EXPECT_EQ(round_to_type(Type::e4m3, -HUGE_VAL), -448);
  EXPECT_EQ(round_to_type(Type::e4m3, 0x1p-9), 0x1p-9);
  EXPECT_EQ(round_to_type(Type::e4m3, 0x1p-10), 0);
  EXPECT_EQ(round_to_type(Type::e5m2, 1e9), 57344);
  EXPECT_EQ(round_to_type(Type::i8, 2.5), 2);
  EXPECT_EQ(round_to_type(Type::i8, -1000.0), -128);
  EXPECT_EQ(round_to_type(Type::i8, std::nan("")), 0);
  EXPECT_EQ(round_to_type(Type::i32, 1e12), 2147483647);
}

TEST(RowProgramRounding, AgreesWithConversionsToFloat) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    // Random bits: all exponents, denormal numbers of f32 included.
    const double exact = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const double value = exact * (1 + 0x1p-24 * static_cast<double>(random() % 3)) + (i % 2 == 0 ? 0 : 0x1p-150);
    if (std::isnan(value)) continue;
    ASSERT_EQ(round_to_type(Type::f32, value), static_cast<double>(static_cast<float>(value))) << value;
    std::array<std::byte, 4> element{};
    for (const auto& [type, dtype] : {std::pair{Type::f16, DType::f16}, std::pair{Type::bf16, DType::bf16}}) {
      write_element(dtype, element.data(), 0, static_cast<float>(exact));
      ASSERT_EQ(round_to_type(type, exact), read_element(dtype, element.data(), 0)) << exact;
    }
  }
}

// The vectors of the authors' known-answer tests (Random123, kat_vectors, philox4x32 10).
TEST(RowProgramRandom, PhiloxGivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RowProgramRandom, UniformNumbersAreInTheOpenInterval) {
  double sum = 0, least = 1, most = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = uniform(5, i / 100, i % 100, 3);
    EXPECT_EQ(static_cast<double>(static_cast<float>(u)), u);
    sum += u;
    least = std::min(least, u);
    most = std::max(most, u);
  }
  EXPECT_GT(least, 0);
  EXPECT_LT(most, 1);
  EXPECT_NEAR(sum / 10000, 0.5, 0.012);  // four standard deviations
  EXPECT_NE(uniform(5, 0, 0, 0), uniform(6, 0, 0, 0));
  EXPECT_NE(uniform(5, 0, 0, 0), uniform(5, 0, 0, 1));
  EXPECT_NE(uniform(5, 0, 0, 0), uniform(5, 0, 1, 0));
}

}  // namespace
}  // namespace tunesmith::row_program
