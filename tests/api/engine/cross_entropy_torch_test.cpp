// What torch.nn.functional.cross_entropy documents, through the typed API.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/api/engine/cross_entropy_fixture.h"

namespace tunesmith {
namespace {

using test::CrossEntropyFamily;
using test::infinity;
using test::with_logits;

TEST_F(CrossEntropyFamily, ReductionsAgreeWithPyTorch) {
  const std::vector<float> logits{1, 2, 3, 0, 0, 0, 2, -1, 0}, weights{0.5f, 2, 4};
  const double lse0 = std::log(std::exp(1) + std::exp(2) + std::exp(3)), lse1 = std::log(3);
  const double nll0 = lse0 - 1, nll1 = lse1;
  CrossEntropyProblem problem;
  EXPECT_NEAR(loss_of(problem, logits, {0, 2, -100}), (nll0 + nll1) / 2, 1e-6);
  EXPECT_NEAR(loss_of(problem, logits, {0, 2, -100}, weights), (0.5 * nll0 + 4 * nll1) / (0.5 + 4), 1e-6);
  EXPECT_TRUE(std::isnan(loss_of(problem, logits, {-100, -100, -100})));  // 0 / 0
  problem.reduction = Reduction::sum;
  EXPECT_NEAR(loss_of(problem, logits, {0, 2, -100}, weights), 0.5 * nll0 + 4 * nll1, 1e-6);
  EXPECT_EQ(loss_of(problem, logits, {-100, -100, -100}), 0);
  problem.ignore_index = 2;  // a class
  EXPECT_NEAR(loss_of(problem, logits, {0, 2, 2}), nll0, 1e-6);
}

TEST_F(CrossEntropyFamily, LabelSmoothingAgreesWithPyTorch) {
  // (1 - s) * nll_loss(weights) + s / C * sum_c -w_c log p_c, both over the weights of the targets.
  const std::vector<float> logits{1, 2, 3, 0, 0, 0}, weights{0.5f, 2, 4};
  const double lse0 = std::log(std::exp(1) + std::exp(2) + std::exp(3)), lse1 = std::log(3);
  const double hard = 0.5 * (lse0 - 1) + 4 * lse1;
  const double smooth = 0.5 * (lse0 - 1) + 2 * (lse0 - 2) + 4 * (lse0 - 3) + (0.5 + 2 + 4) * lse1;
  CrossEntropyProblem problem;
  problem.label_smoothing = 0.3;
  EXPECT_NEAR(loss_of(problem, logits, {0, 2}, weights), (0.7 * hard + 0.3 / 3 * smooth) / 4.5, 1e-6);
  const double flat = 0.7 * (lse0 - 1 + lse1) + 0.3 / 3 * (3 * lse0 - 6 + 3 * lse1);
  EXPECT_NEAR(loss_of(problem, logits, {0, 2}), flat / 2, 1e-6);
}

TEST_F(CrossEntropyFamily, WithoutRowsTheSumIsZeroAndTheMeanNaN) {
  CrossEntropyProblem problem;
  EXPECT_TRUE(std::isnan(loss_of(problem, {}, {})));
  problem.reduction = Reduction::sum;
  EXPECT_EQ(loss_of(problem, {}, {}), 0);
}

TEST_F(CrossEntropyFamily, MaskedClassesAndRowsWithoutALoss) {
  CrossEntropyProblem problem;
  EXPECT_NEAR(loss_of(problem, {1, -infinity, 2}, {0}), std::log(1 + std::exp(1)), 1e-6);
  EXPECT_EQ(loss_of(problem, {1, -infinity, 2}, {1}), infinity);
  EXPECT_TRUE(std::isnan(loss_of(problem, {1, NAN, 2}, {0})));
  EXPECT_TRUE(std::isnan(loss_of(problem, {-infinity, -infinity, -infinity}, {0})));
  EXPECT_TRUE(std::isnan(loss_of(problem, {1, 2, 3}, {3})));  // no class
  EXPECT_NEAR(loss_of(problem, {NAN, NAN, NAN, 0, 0, 0}, {-100, 1}), std::log(3), 1e-6);
}

TEST_F(CrossEntropyFamily, SmallLossesArePrecise) {
  const std::vector<float> logits{30, 0, 0};
  const std::int64_t target = 0;
  float loss = -1, lse = -1;
  std::vector<float> dlogits(3);
  CrossEntropyArrays arrays;
  arrays.targets = &target;
  arrays.loss = &loss;
  arrays.lse = &lse;
  arrays.dlogits = dlogits.data();
  engine_.run_checked(CrossEntropyProblem::contiguous(1, 3, DType::f32), with_logits(arrays, logits.data()));
  const double others = 2 * std::exp(-30);
  EXPECT_NEAR(loss / std::log1p(others), 1, 1e-6);
  EXPECT_NEAR(dlogits[0] / (-others / (1 + others)), 1, 1e-6);
  EXPECT_NEAR(dlogits[1] / (others / 2 / (1 + others)), 1, 1e-6);
}

}  // namespace
}  // namespace tunesmith
