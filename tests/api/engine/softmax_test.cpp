// The softmax family through the typed API, with real kernels on the host executor: tests the meaning of every option. Other
// tests cover the kernels' numerics.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "tests/api/engine/host_options.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

constexpr std::int64_t family_cols = 12;

template <typename T>
struct alignas(16) Aligned {
  T values[16 * family_cols] = {};
};

class SoftmaxFamily : public testing::Test {
 protected:
  SoftmaxFamily() {
    for (std::int64_t i = 0; i < 16 * family_cols; ++i) {
      x_.values[i] = static_cast<float>(std::sin(static_cast<double>(7 * i)) * 4);
      dy_.values[i] = static_cast<float>(std::cos(static_cast<double>(5 * i)));
    }
  }

  double x(std::int64_t r, std::int64_t c) const { return x_.values[r * family_cols + c]; }

  /// Runs all four operations with the options and compares them with the formulas over the elements that take part.
  void expect_all(std::int64_t rows, const SoftmaxOptions& options, const SoftmaxArrays& arrays,
                  const std::function<bool(std::int64_t, std::int64_t)>& takes_part) {
    SoftmaxProblem forward = SoftmaxProblem::contiguous(rows, family_cols, DType::f32);
    forward.options = options;
    SoftmaxBackwardProblem backward = SoftmaxBackwardProblem::contiguous(rows, family_cols, DType::f32);
    backward.options = options;
    const void *const mask = arrays.mask, *const lengths = arrays.valid_cols;
    engine_.run(forward, {x_.values, y_.values, mask, lengths});
    engine_.run(backward, {dy_.values, y_.values, dx_.values, mask, lengths});
    forward.logarithm = backward.logarithm = true;
    engine_.run(forward, {x_.values, log_y_.values, mask, lengths});
    engine_.run(backward, {dy_.values, log_y_.values, log_dx_.values, mask, lengths});
    for (std::int64_t r = 0; r < rows; ++r) expect_row(r, options, takes_part);
  }

  void expect_row(std::int64_t r, const SoftmaxOptions& options,
                  const std::function<bool(std::int64_t, std::int64_t)>& takes_part) const {
    double sum = 0, dot = 0, sum_dy = 0;
    for (std::int64_t c = 0; c < family_cols; ++c)
      if (takes_part(r, c)) sum += std::exp(options.scale * x(r, c));
    const auto p = [&](std::int64_t c) { return std::exp(options.scale * x(r, c)) / sum; };
    for (std::int64_t c = 0; c < family_cols; ++c)
      if (takes_part(r, c)) {
        dot += dy_.values[r * family_cols + c] * p(c);
        sum_dy += dy_.values[r * family_cols + c];
      }
    for (std::int64_t c = 0; c < family_cols; ++c) {
      const std::int64_t i = r * family_cols + c;
      SCOPED_TRACE("row " + std::to_string(r) + ", column " + std::to_string(c));
      if (!takes_part(r, c)) {
        EXPECT_EQ(y_.values[i], 0);
        EXPECT_EQ(log_y_.values[i], sum == 0 ? 0 : -std::numeric_limits<float>::infinity());
        EXPECT_EQ(dx_.values[i], 0);
        EXPECT_EQ(log_dx_.values[i], 0);
        continue;
      }
      EXPECT_NEAR(y_.values[i], p(c), 1e-6);
      EXPECT_NEAR(log_y_.values[i], std::log(p(c)), 1e-5);
      EXPECT_NEAR(dx_.values[i], options.scale * p(c) * (dy_.values[i] - dot), 1e-5);
      EXPECT_NEAR(log_dx_.values[i], options.scale * (dy_.values[i] - p(c) * sum_dy), 1e-5);
    }
  }

  Engine engine_{test::host_engine_options()};
  Aligned<float> x_, dy_, y_, log_y_, dx_, log_dx_;
};

TEST_F(SoftmaxFamily, Plain) {
  expect_all(3, {}, {}, [](auto, auto) { return true; });
}

// Rows without columns are no work: nothing is compiled or launched.
TEST_F(SoftmaxFamily, RowsWithoutColumns) {
  SoftmaxProblem forward = SoftmaxProblem::contiguous(3, 0, DType::f32);
  SoftmaxBackwardProblem backward = SoftmaxBackwardProblem::contiguous(3, 0, DType::f32);
  for (const std::int64_t inner : {1, 4}) {
    forward.inner = backward.inner = inner;
    EXPECT_NO_THROW(engine_.run(forward, {nullptr, nullptr, nullptr, nullptr}));
    EXPECT_NO_THROW(engine_.run(backward, {nullptr, nullptr, nullptr, nullptr, nullptr}));
    EXPECT_EQ(engine_.prepare(forward).occupancy(), 0);
  }
}

TEST_F(SoftmaxFamily, Scale) {
  expect_all(2, {.scale = 0.25}, {}, [](auto, auto) { return true; });
}

TEST_F(SoftmaxFamily, CausalRepeatsEveryColsRows) {
  expect_all(14, {.causal = true}, {}, [](auto r, auto c) { return c <= r % family_cols; });
}

TEST_F(SoftmaxFamily, ValidColsAreClampedAndShared) {
  const std::int32_t valid_cols[4] = {5, 1, 100, 12};
  SoftmaxOptions options;
  options.valid_cols = true;
  expect_all(4, options, {.valid_cols = valid_cols}, [&](auto r, auto c) { return c < valid_cols[r]; });
  options.valid_cols_group = 3;
  expect_all(11, options, {.valid_cols = valid_cols}, [&](auto r, auto c) { return c < valid_cols[r / 3]; });
}

TEST_F(SoftmaxFamily, KeepMaskBroadcastsOverHeads) {
  // (batch, heads, queries, family_cols) = (2, 2, 3, family_cols); the mask is (batch, 1, queries, family_cols).
  Aligned<std::uint8_t> mask;
  for (std::int64_t i = 0; i < 6 * family_cols; ++i)
    mask.values[i] = static_cast<std::uint8_t>(i % 3 == 1 ? 0 : i % 255 + 1);
  SoftmaxOptions options;
  options.mask.kind = SoftmaxMask::Kind::keep;
  options.mask.inner = 3;
  options.mask.middle = 2;
  options.mask.outer_stride = 3 * family_cols;
  expect_all(12, options, {.mask = mask.values}, [&](auto r, auto c) {
    const std::int64_t batch = r / 6, query = r % 3;
    return mask.values[(batch * 3 + query) * family_cols + c] != 0;
  });
}

TEST_F(SoftmaxFamily, SafeRowsWithoutElementsAreZero) {
  const std::int32_t valid_cols[2] = {0, 12};
  SoftmaxOptions options;
  options.valid_cols = options.safe = true;
  expect_all(2, options, {.valid_cols = valid_cols}, [](auto r, auto) { return r == 1; });
  options.safe = false;
  SoftmaxProblem problem = SoftmaxProblem::contiguous(2, family_cols, DType::f32);
  problem.options = options;
  problem.logarithm = true;
  engine_.run(problem, {.x = x_.values, .y = log_y_.values, .valid_cols = valid_cols});
  EXPECT_TRUE(std::isnan(log_y_.values[0]));
  EXPECT_FALSE(std::isnan(log_y_.values[family_cols]));
}

TEST_F(SoftmaxFamily, AddMask) {
  Aligned<float> mask;
  for (std::int64_t c = 0; c < family_cols; ++c)
    mask.values[c] = c == 4 ? -std::numeric_limits<float>::infinity() : static_cast<float>(c) * 0.5f;
  SoftmaxProblem problem = SoftmaxProblem::contiguous(3, family_cols, DType::f32);
  problem.options.scale = 0.5;
  problem.options.mask.kind = SoftmaxMask::Kind::add;
  problem.options.mask.row_stride = 0;  // the same mask row for all rows
  engine_.run(problem, {.x = x_.values, .y = y_.values, .mask = mask.values});
  for (std::int64_t r = 0; r < 3; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < family_cols; ++c) sum += std::exp(0.5 * x(r, c) + static_cast<double>(mask.values[c]));
    for (std::int64_t c = 0; c < family_cols; ++c)
      EXPECT_NEAR(y_.values[r * family_cols + c], std::exp(0.5 * x(r, c) + static_cast<double>(mask.values[c])) / sum, 1e-6);
  }
}

TEST_F(SoftmaxFamily, InPlaceAndStrides) {
  SoftmaxBackwardProblem problem = SoftmaxBackwardProblem::contiguous(2, family_cols, DType::f32);
  engine_.softmax(x_.values, y_.values, SoftmaxProblem::contiguous(2, family_cols, DType::f32));
  engine_.run(problem, {.dy = dy_.values, .y = y_.values, .dx = dx_.values});
  Aligned<float> apart;
  problem.dx_row_stride = 2 * family_cols;
  engine_.run(problem, {.dy = dy_.values, .y = y_.values, .dx = apart.values});
  problem.dx_row_stride.reset();
  engine_.run(problem, {.dy = dy_.values, .y = y_.values, .dx = dy_.values});  // in place of dy
  for (std::int64_t i = 0; i < 2 * family_cols; ++i) {
    EXPECT_EQ(dy_.values[i], dx_.values[i]) << i;
    EXPECT_EQ(apart.values[i < family_cols ? i : i + family_cols], dx_.values[i]) << i;
  }
  EXPECT_EQ(apart.values[family_cols], 0);  // the gap
}

TEST_F(SoftmaxFamily, PlansTakeTheArraysInOrder) {
  Aligned<std::uint8_t> mask;
  for (std::int64_t c = 0; c < family_cols; ++c) mask.values[c] = c % 2 == 0;
  const std::int32_t valid_cols[1] = {7};
  SoftmaxBackwardProblem problem = SoftmaxBackwardProblem::contiguous(1, family_cols, DType::f32);
  problem.options.mask.kind = SoftmaxMask::Kind::keep;
  problem.options.valid_cols = true;
  std::fill_n(y_.values, family_cols, 0.125f);
  const Plan plan = engine_.prepare(problem);
  void* const arrays[] = {dy_.values, y_.values, dx_.values, mask.values, const_cast<std::int32_t*>(valid_cols)};
  plan.launch(arrays);
  double dot = 0;
  for (std::int64_t c = 0; c < 7; c += 2) dot += dy_.values[c] * 0.125;
  for (std::int64_t c = 0; c < family_cols; ++c)
    EXPECT_NEAR(dx_.values[c], c < 7 && c % 2 == 0 ? 0.125 * (dy_.values[c] - dot) : 0, 1e-6) << c;
}

}  // namespace
}  // namespace tunesmith
