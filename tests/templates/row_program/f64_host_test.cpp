// The comparison of row programs that compute in f64 with their evaluation in long double rejects steps in float32.

#include <gtest/gtest.h>

#include <cmath>

#include "core/half.h"
#include "tests/templates/row_program/op_cases.h"

namespace tunesmith {
namespace {

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
