// rms_norm through the typed API, with real kernels on the host executor: the meaning of its options. Other tests cover the
// kernels' numerics.

#include "tunesmith/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/api/engine/host_options.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

constexpr std::int64_t rows = 3, cols = 40;

class RmsNormApi : public testing::Test {
 protected:
  RmsNormApi() {
    for (std::int64_t i = 0; i < rows * cols; ++i) x_[i] = static_cast<float>(std::sin(static_cast<double>(7 * i)) * 4);
    for (std::int64_t i = 0; i < cols; ++i) weight_[i] = static_cast<float>(i % 5) - 1.5F;
  }

  static double rstd_of(const float* row, double eps) {
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += static_cast<double>(row[c]) * row[c];
    return 1 / std::sqrt(sum / cols + eps);
  }

  Engine engine_{test::host_engine_options()};
  alignas(16) float x_[rows * cols], y_[rows * cols] = {}, weight_[cols], rstd_[rows] = {};
};

TEST_F(RmsNormApi, AddressesSwitchOptionsOn) {
  RmsNormProblem problem{.rows = rows, .cols = cols};
  problem.eps = 0.5;
  engine_.run(problem, {x_, y_});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      EXPECT_NEAR(y_[r * cols + c], x_[r * cols + c] * rstd_of(x_ + r * cols, 0.5), 1e-6);

  engine_.run(problem, {x_, y_, weight_, rstd_});
  for (std::int64_t r = 0; r < rows; ++r) {
    EXPECT_NEAR(rstd_[r], rstd_of(x_ + r * cols, 0.5), 1e-7);
    for (std::int64_t c = 0; c < cols; ++c)
      EXPECT_NEAR(y_[r * cols + c], x_[r * cols + c] * rstd_of(x_ + r * cols, 0.5) * weight_[c], 1e-5);
  }
}

TEST_F(RmsNormApi, Double) {
  RmsNormProblem problem{.rows = rows, .cols = cols, .dtype = DType::f64};
  problem.eps = 0.1;
  problem.weight_offset = 0.3;
  problem.weight_dtype = DType::f32;
  problem.weight = true;
  alignas(16) double x[rows * cols], y[rows * cols] = {}, rstd[rows] = {};
  for (std::int64_t i = 0; i < rows * cols; ++i) x[i] = std::sin(static_cast<double>(7 * i)) * 1e30;
  for (std::int64_t c = 0; c < cols; ++c) x[c] *= 1e170;  // the sum of squares overflows
  for (std::int64_t c = 0; c < cols; ++c) x[cols + c] *= 1e-30;
  engine_.run(problem, {x, y, weight_, rstd});
  for (std::int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += x[r * cols + c] * x[r * cols + c];
    const double expected = 1 / std::sqrt(sum / cols + 0.1);
    EXPECT_NEAR(rstd[r], expected, 1e-14 * expected);
    for (std::int64_t c = 0; c < cols; ++c) {
      const double exact = x[r * cols + c] * expected * (static_cast<double>(weight_[c]) + 0.3);
      EXPECT_NEAR(y[r * cols + c], exact, 1e-14 * std::fabs(exact));
    }
  }
  EXPECT_EQ(rstd[0], 0);
}

TEST_F(RmsNormApi, OffsetAndInPlace) {
  RmsNormProblem problem{.rows = rows, .cols = cols};
  problem.weight = true;
  problem.weight_offset = 1;
  const std::vector<float> before(x_, x_ + rows * cols);
  engine_.run(problem, {x_, x_, weight_});
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const double x = before[static_cast<std::size_t>(r * cols + c)];
      EXPECT_NEAR(x_[r * cols + c], x * rstd_of(before.data() + r * cols, 1e-6) * (weight_[c] + 1), 1e-5);
    }
}

TEST_F(RmsNormApi, PlansTellTheirArrays) {
  RmsNormProblem problem{.rows = rows, .cols = cols};
  problem.weight = problem.rstd = true;
  const Plan plan = engine_.prepare(problem);
  std::vector<std::string> names;
  for (const ArrayInfo& array : plan.arrays()) names.push_back(array.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y", "weight", "rstd"}));
  plan.launch({{"rstd", rstd_}, {"weight", weight_}, {"y", y_}, {"x", x_}});
  EXPECT_NEAR(rstd_[2], rstd_of(x_ + 2 * cols, 1e-6), 1e-6);
}

}  // namespace
}  // namespace tunesmith
