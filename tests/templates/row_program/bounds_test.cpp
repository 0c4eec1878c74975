// Bounds of reductions whose terms are far from certain, such as values that topk carries along for columns that may be
// chosen or not: every choice of columns lies within them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "templates/row_program/evaluate/evaluate.h"
#include "templates/row_program/language/parse.h"

namespace tunesmith::row_program {
namespace {

/// Returns the value of a reduction of two of five columns, as a function of their values.
struct OfTwo {
  const char* reducer;
  double (*exact)(double a, double b);
};

TEST(RowProgramBounds, ReductionsOfUncertainChoicesCoverEachOfThem) {
  const std::vector<double> alike(5, 2.0), carried{-7, 3, 0.5, 9, -1};
  for (const OfTwo& of : {OfTwo{"sum", [](double a, double b) { return a + b; }},
                          OfTwo{"mean", [](double a, double b) { return (a + b) / 2; }},
                          OfTwo{"max", [](double a, double b) { return std::max(a, b); }},
                          OfTwo{"min", [](double a, double b) { return std::min(a, b); }},
                          OfTwo{"lse", [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }}}) {
    // exp(x) is uncertain, so each column may be one of the two.
    const Program program = parse("in x, w : f32[row, col]\ntopk[2] v, i, c = exp(x), w\n" + std::string(of.reducer) +
                                  " s = c\nout y : f32[row, 2] = c * 0 + s\n");
    const std::vector<std::vector<double>> inputs{alike, carried};
    const std::vector<std::span<const double>> spans(inputs.begin(), inputs.end());
    const std::vector<OutputRow> row = Evaluator(program, 1, 5, {}).row(0, spans);
    for (const double a : carried)
      for (const double b : carried) {
        if (a == b) continue;
        EXPECT_TRUE(row[0].accepts(Type::f32, 0, of.exact(a, b)))
            << of.reducer << " of " << a << " and " << b << " is " << of.exact(a, b) << ", the evaluation gives "
            << row[0].elements[0].value << " with an error of at most " << row[0].elements[0].bound;
      }
    EXPECT_FALSE(row[0].accepts(Type::f32, 0, 100)) << of.reducer;
  }
}

}  // namespace
}  // namespace tunesmith::row_program
