// cross_entropy through the typed API: tests the meaning of every option and array. Other tests cover the kernels' numerics.

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "tests/api/engine/cross_entropy_fixture.h"

namespace tunesmith {
namespace {

using test::CrossEntropyFamily;
using test::expect_near;
using test::LossReference;
using test::reference;
using test::with_logits;

/// Returns the mean loss of rows with one target.
double mean_of(const std::vector<float>& logits, std::size_t cols, std::size_t target) {
  double sum = 0;
  for (std::size_t row = 0; row < logits.size(); row += cols) {
    double exponentials = 0;
    for (std::size_t c = 0; c < cols; ++c) exponentials += std::exp(static_cast<double>(logits[row + c]));
    sum += std::log(exponentials) - static_cast<double>(logits[row + target]);
  }
  return sum / static_cast<double>(logits.size() / cols);
}

TEST_F(CrossEntropyFamily, Plain) {
  fill(5, 12);
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(5, 12, DType::f32);
  problem.reduction = Reduction::none;
  engine_.run_checked(problem, with_logits(arrays(), logits_.data()));
  const LossReference expected = reference(problem, logits_, targets_);
  expect_near(loss_, expected.loss, 1, "loss");
  expect_near(lse_, expected.lse, 1, "lse");
  EXPECT_EQ(loss_[2], 0);  // ignored
  EXPECT_EQ(dlogits_[0], -1);
}

// (batch, class, position): the results of the same logits as rows of adjacent classes.
TEST_F(CrossEntropyFamily, ClassesThatAreNotTheLastDimension) {
  constexpr std::int64_t batch = 2, classes = 12, positions = 3;
  fill(batch * positions, classes);
  CrossEntropyProblem problem = with_everything(batch * positions, classes);
  problem.reduction = Reduction::none;
  const LossReference expected = reference(problem, logits_, targets_, weights_);
  const auto permuted = [&](const std::vector<float>& rows, bool back) {
    std::vector<float> result(rows.size());
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t c = 0; c < classes; ++c)
        for (std::int64_t p = 0; p < positions; ++p) {
          const auto row = static_cast<std::size_t>((b * positions + p) * classes + c),
                     strided = static_cast<std::size_t>((b * classes + c) * positions + p);
          back ? result[row] = rows[strided] : result[strided] = rows[row];
        }
    return result;
  };
  const std::vector<float> logits = permuted(logits_, false);
  problem.rows = batch;
  problem.inner = positions;
  problem.mark_ignored = true;
  CrossEntropyArrays all = arrays();
  all.weight = weights_.data();
  all.z_loss = z_loss_.data();
  all.nll = nll_.data();
  all.argmax = argmax_.data();
  all.dlogits = dlogits_.data();
  engine_.run(problem, with_logits(all, logits.data()));
  expect_near(loss_, expected.loss, 1, "loss");
  expect_near(lse_, expected.lse, 1, "lse");
  expect_near(nll_, expected.nll, 1, "nll");
  expect_near(z_loss_, expected.z_loss, 1, "z_loss");
  expect_near(permuted(dlogits_, true), expected.gradient, 1, "dlogits");
  for (std::size_t r = 0; r < argmax_.size(); ++r)
    EXPECT_EQ(argmax_[r], targets_[r] == problem.ignore_index ? -1 : expected.argmax[r]) << r;

  CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(batch, classes, DType::f32);
  backward.inner = positions;
  backward.label_smoothing = problem.label_smoothing;
  backward.z_loss = problem.z_loss;
  backward.scale = problem.scale;
  backward.softcap = problem.softcap;
  backward.reduction = Reduction::none;
  const std::vector<float> dloss(targets_.size(), 2.0F);
  std::vector<float> in_place = logits;
  backward.in_place = true;
  CrossEntropyBackwardArrays later;
  later.logits = in_place.data();
  later.dlogits = in_place.data();
  later.targets = targets_.data();
  later.lse = lse_.data();
  later.dloss = dloss.data();
  later.nll = nll_.data();
  later.weight = weights_.data();
  engine_.run(backward, later);
  expect_near(permuted(in_place, true), expected.gradient, 2, "dlogits");
}

TEST_F(CrossEntropyFamily, AllOptionsAndOutputs) {
  fill(6, 37);
  const CrossEntropyProblem problem = with_everything(6, 37);
  const float dloss = 3;
  std::int64_t num_correct = -1, bad[2] = {-7, -7};
  targets_[4] = reference(problem, logits_, targets_).argmax[4];
  const LossReference expected = reference(problem, logits_, targets_, weights_);
  CrossEntropyArrays all = arrays();
  all.weight = weights_.data();
  all.dloss = &dloss;
  all.z_loss = z_loss_.data();
  all.nll = nll_.data();
  all.argmax = argmax_.data();
  all.num_correct = &num_correct;
  all.bad_targets = bad;
  all.dlogits = dlogits_.data();
  engine_.run_checked(problem, with_logits(all, logits_.data()));
  EXPECT_NEAR(loss_[0], expected.mean_loss(), 2e-6);
  EXPECT_NEAR(z_loss_[0], expected.mean_z_loss(), 1e-7);
  EXPECT_EQ(loss_[1], -1);  // a reduced loss is one number
  EXPECT_EQ(z_loss_[1], -1);
  expect_near(lse_, expected.lse, 1, "lse");
  expect_near(nll_, expected.nll, 1, "nll");
  expect_near(dlogits_, expected.gradient, 3 / expected.total_weight, "dlogits");
  EXPECT_EQ(argmax_, expected.argmax);
  std::int64_t hits = 0;
  for (std::size_t r = 0; r < 6; ++r) hits += targets_[r] == expected.argmax[r];
  EXPECT_GE(hits, 1);
  EXPECT_EQ(num_correct, hits);
  EXPECT_EQ(bad[0], 0);
  EXPECT_EQ(bad[1], -1);

  // In place of the logits, the result is bitwise the same.
  const std::vector<float> apart = dlogits_, logits = logits_;
  all.dlogits = logits_.data();
  engine_.run_checked(problem, with_logits(all, logits_.data()));
  EXPECT_EQ(logits_, apart);

  // From lse, with nll, it is the same up to rounding.
  CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(6, 37, DType::f32);
  backward.label_smoothing = problem.label_smoothing;
  backward.z_loss = problem.z_loss;
  backward.scale = problem.scale;
  backward.softcap = problem.softcap;
  logits_ = logits;
  dlogits_.assign(dlogits_.size(), -1);
  CrossEntropyBackwardArrays given{.targets = targets_.data(),
                                   .lse = lse_.data(),
                                   .dloss = &dloss,
                                   .nll = nll_.data(),
                                   .weight = weights_.data(),
                                   .dlogits = dlogits_.data()};
  engine_.run(backward, with_logits(given, logits_.data()));
  expect_near(dlogits_, apart, 1, "dlogits from lse");
  const std::vector<float> from_lse = dlogits_;
  given.dlogits = logits_.data();
  engine_.run(backward, with_logits(given, logits_.data()));
  EXPECT_EQ(logits_, from_lse);
}

// With all weights 0.5 the weighted mean of the first term is what it is without weights, and so is the mean of the z term.
TEST_F(CrossEntropyFamily, MeanOfTheZTermDoesNotDependOnWeights) {
  const std::vector<float> logits{1, 2, 0.5f, 0, -1, 3}, halves(3, 0.5f);
  const std::vector<std::int64_t> targets{0, 2};
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(2, 3, DType::f32);
  problem.z_loss = 0.1;
  std::vector<float> lse(2), dlogits(6), expected_dlogits(6);
  float loss = -1, z_loss = -1, expected_z_loss = -1;
  CrossEntropyArrays arrays;
  arrays.targets = targets.data();
  arrays.lse = lse.data();
  arrays.loss = &loss;
  arrays.z_loss = &expected_z_loss;
  arrays.dlogits = expected_dlogits.data();
  engine_.run_checked(problem, with_logits(arrays, logits.data()));
  EXPECT_NEAR(loss, 1.538764, 2e-6);
  arrays.weight = halves.data();
  arrays.z_loss = &z_loss;
  arrays.dlogits = dlogits.data();
  const float expected_loss = loss;
  engine_.run_checked(problem, with_logits(arrays, logits.data()));
  EXPECT_NEAR(loss, expected_loss, 1e-6);
  EXPECT_NEAR(z_loss, expected_z_loss, 1e-6);
  expect_near(dlogits, expected_dlogits, 1, "dlogits");

  // Weights so small that they would be lost in one number together with the z term.
  const std::vector<float> tiny(3, 1e-7f);
  arrays.weight = tiny.data();
  engine_.run_checked(problem, with_logits(arrays, logits.data()));
  EXPECT_NEAR(loss, expected_loss, 1e-6);
  expect_near(dlogits, expected_dlogits, 1, "dlogits");
}

TEST_F(CrossEntropyFamily, UnreducedLossTakesAnUpstreamGradientPerRow) {
  fill(4, 9);
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(4, 9, DType::f32);
  problem.reduction = Reduction::none;
  const std::vector<float> dloss{1, -2, 3, 0.5f};
  CrossEntropyArrays all = arrays();
  all.dloss = dloss.data();
  all.dlogits = dlogits_.data();
  engine_.run_checked(problem, with_logits(all, logits_.data()));
  const LossReference expected = reference(problem, logits_, targets_);
  const auto expect_rows = [&](std::initializer_list<double> factors) {
    for (std::size_t i = 0; i < dlogits_.size(); ++i)
      EXPECT_NEAR(dlogits_[i], factors.begin()[i / 9] * expected.gradient[i], 2e-6) << i;
  };
  expect_rows({1, -2, 3, 0.5});
  problem.dloss = Upstream::scalar;  // one for all rows
  const float half = 0.5f;
  all.dloss = &half;
  engine_.run_checked(problem, with_logits(all, logits_.data()));
  expect_rows({0.5, 0.5, 0.5, 0.5});

  // Only the backward operation, 32-bit targets, dlogits with a row stride.
  const std::vector<std::int32_t> narrow(targets_.begin(), targets_.end());
  CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(4, 9, DType::f32);
  backward.reduction = Reduction::none;
  backward.target_dtype = DType::i32;
  backward.dlogits_row_stride = 12;
  std::vector<float> gaps(48, -1);
  engine_.run(backward, {.logits = logits_.data(),
                         .targets = narrow.data(),
                         .lse = lse_.data(),
                         .dloss = dloss.data(),
                         .dlogits = gaps.data()});
  for (std::size_t r = 0; r < 4; ++r)
    for (std::size_t c = 0; c < 12; ++c)
      EXPECT_NEAR(gaps[r * 12 + c], c < 9 ? static_cast<double>(dloss[r]) * expected.gradient[r * 9 + c] : -1, 2e-6)
          << r << "," << c;
}

// The mean is reduced in the stream's workspace, which threads that share a stream must not use at once.
TEST_F(CrossEntropyFamily, ThreadsThatShareAPlanAndAStreamGetTheirOwnMeans) {
  constexpr std::int64_t rows = 64, cols = 96;
  const CrossEntropyProblem problem = CrossEntropyProblem::contiguous(rows, cols, DType::f32);
  const Plan plan = engine_.prepare(problem);
  const std::vector<std::int64_t> targets(rows, 5);
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        std::vector<float> logits(rows * cols), lse(rows);
        for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * (t + 3)) % 17) / 4;
        const auto launch = [&](float& loss) {
          plan.launch({{"logits", logits.data()}, {"targets", targets.data()}, {"loss", &loss}, {"lse", lse.data()}});
        };
        std::vector<float> losses(32);
        for (float& loss : losses) launch(loss);
        for (float loss : losses) {
          const double exact = mean_of(logits, cols, 5);
          if (std::abs(loss - exact) > 1e-5 * std::abs(exact)) ++wrong[t];
        }
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(wrong.size()));
}

TEST_F(CrossEntropyFamily, PlansTakeTheArraysInOrder) {
  fill(3, 12);
  targets_[2] = 1;
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(3, 12, DType::f32);
  problem.weight = problem.nll = problem.argmax = problem.num_correct = problem.check_targets = true;
  problem.gradient = Gradient::separate;
  problem.dloss = Upstream::scalar;
  problem.z_loss = 0.5;
  const Plan plan = engine_.prepare(problem);
  float dloss = 1;
  std::int64_t num_correct = -1, bad[2] = {-7, -7};
  void* const arrays[] = {logits_.data(), targets_.data(), weights_.data(), &dloss,       loss_.data(), lse_.data(),
                          z_loss_.data(), nll_.data(),     argmax_.data(),  &num_correct, bad,          dlogits_.data()};
  plan.launch(arrays);
  const LossReference expected = reference(problem, logits_, targets_, weights_);
  EXPECT_NEAR(loss_[0], expected.mean_loss(), 2e-5);
  expect_near(nll_, expected.nll, 1, "nll");
  expect_near(dlogits_, expected.gradient, 1 / expected.total_weight, "dlogits");
  EXPECT_EQ(argmax_, expected.argmax);
  EXPECT_EQ(bad[1], -1);
  EXPECT_GE(num_correct, 0);
}

}  // namespace
}  // namespace tunesmith
