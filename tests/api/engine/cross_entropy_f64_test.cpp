// cross_entropy of f64 logits through the typed API: the arrays are of double, and so are the results.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/api/engine/cross_entropy_fixture.h"
#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

/// log(sum of exp(logits)) of a row.
double lse_of(const double* logits, std::size_t cols) {
  long double sum = 0;
  for (std::size_t c = 0; c < cols; ++c) sum += std::exp(static_cast<long double>(logits[c]));
  return static_cast<double>(std::log(sum));
}

class CrossEntropyF64 : public testing::Test {
 protected:
  static constexpr std::size_t rows = 3, cols = 10;
  /// Of gradients, whose terms are at most p / 2. Rounding lse < 8 changes p by up to 2^-51 of it, and so does rounding
  /// x - lse where p is not tiny, once here and once in the kernel: 2^-50 of a gradient. The other roundings have as much.
  /// lse and the loss are up to 8 times as large.
  static constexpr double allowed = 0x1p-49;

  CrossEntropyF64() {
    for (std::size_t i = 0; i < logits_.size(); ++i) logits_[i] = std::sin(7.0 * static_cast<double>(i) + 1) * 4;
  }

  Engine engine_{test::host_engine_options()};
  std::vector<double> logits_ = std::vector<double>(rows * cols), lse_ = std::vector<double>(rows, -1),
                      dlogits_ = std::vector<double>(rows * cols, -1), weights_ = std::vector<double>(cols, 1.0 / 3);
  std::vector<std::int64_t> targets_{4, -100, 7};
  double loss_ = -1;
};

TEST_F(CrossEntropyF64, LossAndGradientInOneCall) {
  engine_.run(CrossEntropyProblem::contiguous(rows, cols, DType::f64), {.logits = logits_.data(),
                                                                        .targets = targets_.data(),
                                                                        .weight = weights_.data(),
                                                                        .loss = &loss_,
                                                                        .lse = lse_.data(),
                                                                        .dlogits = dlogits_.data()});
  double nll = 0;
  for (const std::size_t row : {0, 2}) {
    const double lse = lse_of(&logits_[row * cols], cols);
    EXPECT_NEAR(lse_[row], lse, 8 * allowed);
    nll += lse - logits_[row * cols + static_cast<std::size_t>(targets_[row])];
    for (std::size_t c = 0; c < cols; ++c) {
      const double p = std::exp(logits_[row * cols + c] - lse);
      EXPECT_NEAR(dlogits_[row * cols + c], (p - (static_cast<std::int64_t>(c) == targets_[row] ? 1 : 0)) / 2, allowed);
    }
  }
  EXPECT_NEAR(loss_, nll / 2, 8 * allowed);
  for (std::size_t c = 0; c < cols; ++c) EXPECT_EQ(dlogits_[cols + c], 0) << "the row is ignored";
}

TEST_F(CrossEntropyF64, GradientFromLse) {
  const std::vector<double> dloss{0.1, 5, -0.3}, dlse{1.0 / 7, 0, 0.25};
  CrossEntropyBackwardProblem problem = CrossEntropyBackwardProblem::contiguous(rows, cols, DType::f64);
  problem.reduction = Reduction::none;
  problem.dlse = true;
  for (std::size_t row = 0; row < rows; ++row) lse_[row] = lse_of(&logits_[row * cols], cols);
  const Plan plan = engine_.prepare(problem);
  plan.launch({{"logits", logits_.data()},
               {"targets", targets_.data()},
               {"lse", lse_.data()},
               {"dloss", dloss.data()},
               {"dlse", dlse.data()},
               {"dlogits", dlogits_.data()}});
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t c = 0; c < cols; ++c) {
      const double p = std::exp(logits_[row * cols + c] - lse_[row]);
      const double of_loss = p - (static_cast<std::int64_t>(c) == targets_[row] ? 1 : 0);
      EXPECT_NEAR(dlogits_[row * cols + c], (targets_[row] < 0 ? 0 : dloss[row] * of_loss) + dlse[row] * p, allowed);
    }
}

// Combinations without f64 name what is allowed.
TEST_F(CrossEntropyF64, IsRejectedElsewhere) {
  using fakes::expect_error;
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(rows, cols, DType::f64);
  problem.gradient = Gradient::separate;
  problem.out_dtype = DType::f32;
  expect_error([&] { engine_.prepare(problem); }, ErrorCode::invalid_argument,
               {"out_dtype is f32, but dtype is f64; allowed: f64"});
  problem.out_dtype = {};
  expect_error([&] { engine_.prepare(problem, {.config = {parse_fields("variant=pipeline", "config")}}); },
               ErrorCode::invalid_argument, {"pipeline"});
  expect_error([&] { engine_.prepare(CrossEntropyCombineProblem::contiguous(rows, 2, cols, DType::f16)); },
               ErrorCode::invalid_argument, {"dtype is 'f16'; allowed: f32, f64"});
}

// The losses of two shards, with label smoothing and weights, equal the losses of the whole logits.
TEST_F(CrossEntropyF64, ShardsCombineToTheWhole) {
  std::int64_t num_correct = -1, hits = -1;
  std::vector<std::int64_t> argmax(rows, -1), argmax_of_parts(rows, -1);
  for (std::size_t c = 0; c < cols; ++c) weights_[c] = 1 / (3.0 + static_cast<double>(c));
  CrossEntropyProblem whole = CrossEntropyProblem::contiguous(rows, cols, DType::f64);
  whole.label_smoothing = 0.1;
  logits_[2] = logits_[8] = 9;  // the first of two largest is predicted
  engine_.run(whole, {.logits = logits_.data(),
                      .targets = targets_.data(),
                      .weight = weights_.data(),
                      .loss = &loss_,
                      .lse = lse_.data(),
                      .argmax = argmax.data(),
                      .num_correct = &num_correct});
  constexpr std::size_t split = 6;
  std::vector<double> parts(2 * rows * 8, -1);
  for (const std::size_t start : {std::size_t{0}, split}) {
    CrossEntropyShardProblem shard =
        CrossEntropyShardProblem::contiguous(rows, static_cast<std::int64_t>(start == 0 ? split : cols - split), DType::f64);
    shard.logits_row_stride = cols;
    shard.logits_alignment = 8;
    shard.vocab_start = static_cast<std::int64_t>(start);
    shard.vocab_size = cols;
    shard.label_smoothing = 0.1;
    shard.argmax = true;
    engine_.run(shard, {&logits_[start], targets_.data(), &weights_[start], &parts[start == 0 ? 0 : rows * 8]});
  }
  CrossEntropyCombineProblem combine = CrossEntropyCombineProblem::contiguous(rows, 2, cols, DType::f64);
  combine.label_smoothing = 0.1;
  combine.weight = true;
  std::vector<double> lse(rows, -1);
  double loss = -1;
  engine_.run(combine, {.partials = parts.data(),
                        .targets = targets_.data(),
                        .loss = &loss,
                        .lse = lse.data(),
                        .argmax = argmax_of_parts.data(),
                        .num_correct = &hits});
  EXPECT_NEAR(loss, loss_, 8 * allowed);
  for (std::size_t row = 0; row < rows; ++row) EXPECT_NEAR(lse[row], lse_[row], 8 * allowed);
  EXPECT_EQ(argmax_of_parts, argmax);
  EXPECT_EQ(argmax[0], 2);
  EXPECT_EQ(hits, num_correct);
}

}  // namespace
}  // namespace tunesmith
