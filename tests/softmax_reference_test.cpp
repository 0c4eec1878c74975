// The judge itself: the float64 reference accepts what is right and refuses what is slightly wrong.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "templates/half.h"
#include "templates/op.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

/// A problem with its arrays on the host and the right answer in y.
struct Solved {
  const Op& op = find_op("softmax");
  Problem problem;
  std::vector<std::vector<std::byte>> storage;
  std::vector<HostArray> arrays;

  explicit Solved(SoftmaxProblem typed, InputKind kind = InputKind::awkward) : problem(op.normalize(to_problem(typed))) {
    for (const ArrayInfo& info : op.arrays(problem)) storage.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
    for (std::size_t i = 0; i < storage.size(); ++i) arrays.push_back({op.arrays(problem)[i], storage[i].data()});
    op.fill_inputs(problem, 7, kind, arrays);
    const std::int64_t cols = typed.cols;
    for (std::int64_t row = 0; row < typed.rows; ++row) {
      long double largest = -INFINITY, sum = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        const double x = read(0, row, c);
        largest = std::isnan(x) || std::isnan(static_cast<double>(largest)) ? NAN : std::max<long double>(largest, x);
      }
      for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(read(0, row, c) - largest);
      for (std::int64_t c = 0; c < cols; ++c)
        write(1, row, c, static_cast<double>(std::exp(read(0, row, c) - largest) / sum));
    }
  }
  double read(std::size_t array, std::int64_t row, std::int64_t column) const {
    const ArrayInfo& info = arrays[array].info;
    return read_element(info.dtype, arrays[array].data, row * info.strides[0] + column);
  }
  void write(std::size_t array, std::int64_t row, std::int64_t column, double value) {
    const ArrayInfo& info = arrays[array].info;
    write_element(info.dtype, arrays[array].data, row * info.strides[0] + column, static_cast<float>(value));
  }
  CheckResult check(std::int64_t max_rows = 1 << 30) const { return op.check(problem, arrays, max_rows); }
};

SoftmaxProblem typed(DType dtype, std::int64_t rows = 40, std::int64_t cols = 97) {
  SoftmaxProblem problem = SoftmaxProblem::contiguous(rows, cols, dtype);
  problem.x_row_stride = cols + 3;
  problem.y_row_stride = cols + 5;
  return problem;
}

class Reference : public testing::TestWithParam<DType> {};

TEST_P(Reference, AcceptsTheRightAnswer) {
  const Solved solved(typed(GetParam()));
  const CheckResult result = solved.check();
  EXPECT_TRUE(result.passed) << result.first_failure;
  EXPECT_LE(result.max_error, 0.5000001);  // one rounding, of the exact result
  EXPECT_EQ(result.checked_rows, 40);
}

TEST_P(Reference, RefusesASlightlyWrongElement) {
  Solved solved(typed(GetParam()));
  const double right = solved.read(1, 20, 96);
  const double step = spacing(GetParam(), right) * (GetParam() == DType::f32 ? 8 : 1);
  solved.write(1, 20, 96, right + step);
  const CheckResult result = solved.check();
  EXPECT_FALSE(result.passed);
  EXPECT_NE(result.first_failure.find("y[20,96]"), std::string::npos) << result.first_failure;
}

TEST_P(Reference, RefusesANumberWhereNaNIsDueAndNaNWhereANumberIsDue) {
  for (const auto& [row, value] : {std::pair<int, double>{1, 0.0}, {2, 0.0}, {3, 0.5}, {0, NAN}, {30, NAN}}) {
    Solved solved(typed(GetParam()));
    solved.write(1, row, 5, value);
    EXPECT_FALSE(solved.check().passed) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Reference, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

TEST(ReferenceSampling, FirstAndLastRowAreAlwaysLookedAt) {
  for (const std::int64_t wrong_row : {0, 999}) {
    Solved solved(typed(DType::f32, 1000, 8), InputKind::random);
    solved.write(1, wrong_row, 0, 2.0);
    const CheckResult result = solved.check(10);
    EXPECT_FALSE(result.passed);
    EXPECT_EQ(result.checked_rows, 10);
    EXPECT_EQ(result.total_rows, 1000);
  }
}

TEST(Inputs, AreReproducibleAndDependOnTheSeed) {
  const Op& op = find_op("softmax");
  const Problem problem = op.normalize(to_problem(SoftmaxProblem::contiguous(33, 65, DType::f32)));
  const auto fill = [&](std::uint64_t seed, InputKind kind) {
    std::vector<std::byte> x(33 * 65 * 4), y(33 * 65 * 4);
    const std::vector<HostArray> arrays{{op.arrays(problem)[0], x.data()}, {op.arrays(problem)[1], y.data()}};
    op.fill_inputs(problem, seed, kind, arrays);
    return x;
  };
  EXPECT_EQ(fill(1, InputKind::random), fill(1, InputKind::random));
  EXPECT_NE(fill(1, InputKind::random), fill(2, InputKind::random));
  EXPECT_NE(fill(1, InputKind::random), fill(1, InputKind::awkward));
}

TEST(Inputs, RandomOnesAreFiniteSpreadAndCentred) {
  const Solved solved(SoftmaxProblem::contiguous(100, 1000, DType::f32), InputKind::random);
  double sum = 0, squares = 0;
  for (std::int64_t row = 0; row < 100; ++row)
    for (std::int64_t column = 0; column < 1000; ++column) {
      const double x = solved.read(0, row, column);
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
    }
  EXPECT_NEAR(sum / 1e5, 0.0, 0.05);
  EXPECT_NEAR(squares / 1e5, 4.0, 0.1);
}

TEST(Inputs, AwkwardRowsHoldWhatTheyPromise) {
  const Solved solved(SoftmaxProblem::contiguous(20, 64, DType::f32));
  int nan = 0, plus = 0, minus = 0, denormal = 0, offset = 0;
  for (std::int64_t row = 0; row < 20; ++row)
    for (std::int64_t column = 0; column < 64; ++column) {
      const double x = solved.read(0, row, column);
      nan += std::isnan(x);
      plus += x == INFINITY;
      minus += x == -INFINITY;
      denormal += x != 0 && std::fabs(x) < 0x1p-126;
      offset += std::fabs(x) > 9000 && std::fabs(x) < 11000;
    }
  EXPECT_EQ(nan, 1);
  EXPECT_EQ(plus, 1);
  EXPECT_EQ(minus, 64 + 32 + 32);
  EXPECT_GT(denormal, 32);
  EXPECT_EQ(offset, 128);
}

}  // namespace
}  // namespace tunesmith
