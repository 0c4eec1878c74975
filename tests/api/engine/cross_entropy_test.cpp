// The cross-entropy family through the typed API, with real kernels on the host executor: tests the meaning of every option
// and array. Other tests cover the kernels' numerics.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "api/dispatch/call_key.h"
#include "api/dispatch/plan_table.h"
#include "templates/op.h"
#include "tests/api/engine/fakes.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

template <typename Arrays>
Arrays with_logits(Arrays arrays, const void* logits) {
  arrays.logits = logits;
  return arrays;
}

using fakes::expect_error;

constexpr float infinity = std::numeric_limits<float>::infinity();

EngineOptions host() {
  EngineOptions options;
  options.device = "host";
  options.cache_file.clear();
  options.mode = Mode::off;
  return options;
}

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

/// Results computed with the formulas in double.
struct Reference {
  std::vector<double> loss, lse, z_loss, nll;  // per row, not reduced
  std::vector<double> gradient;                // of each row's loss; for a mean, to be divided by total_weight
  std::vector<std::int64_t> argmax;
  double total_weight = 0, counted = 0;

  // The z term is not weighted, so its mean divides by the number of rows.
  double mean_z_loss() const { return std::accumulate(z_loss.begin(), z_loss.end(), 0.0) / counted; }
  double mean_loss() const {
    const double with_z = std::accumulate(loss.begin(), loss.end(), 0.0);
    return (with_z - std::accumulate(z_loss.begin(), z_loss.end(), 0.0)) / total_weight + mean_z_loss();
  }
};

Reference reference(const CrossEntropyProblem& problem, const std::vector<float>& logits,
                    const std::vector<std::int64_t>& targets, const std::vector<float>& weights = {}) {
  Reference out;
  const auto classes = static_cast<std::size_t>(problem.cols);
  const double hard = 1 - problem.label_smoothing, smooth = problem.label_smoothing / static_cast<double>(problem.cols);
  const auto weight = [&](std::size_t c) { return weights.empty() ? 1.0 : static_cast<double>(weights[c]); };
  for (const std::int64_t target : targets) {
    if (target == problem.ignore_index) continue;
    out.total_weight += weight(static_cast<std::size_t>(target));
    out.counted += 1;
  }
  const double z_slope = 2 * problem.z_loss * (problem.reduction == Reduction::mean ? out.total_weight / out.counted : 1);
  for (std::size_t r = 0; r < targets.size(); ++r) {
    std::vector<double> x(classes), slope(classes);
    for (std::size_t c = 0; c < classes; ++c) {
      x[c] = problem.scale * static_cast<double>(logits[r * classes + c]);
      slope[c] = problem.scale;
      if (problem.softcap == 0) continue;
      const double bent = std::tanh(x[c] / problem.softcap);
      x[c] = problem.softcap * bent;
      slope[c] *= 1 - bent * bent;
    }
    double sum = 0, sum_weights = 0, smoothed = 0;
    const double largest = *std::max_element(x.begin(), x.end());
    for (const double value : x) sum += std::exp(value - largest);
    const double lse = largest + std::log(sum);
    out.lse.push_back(lse);
    out.argmax.push_back(std::max_element(x.begin(), x.end()) - x.begin());
    const bool ignored = targets[r] == problem.ignore_index;
    const auto t = static_cast<std::size_t>(ignored ? 0 : targets[r]);
    for (std::size_t c = 0; c < classes; ++c) {
      sum_weights += weight(c);
      smoothed += weight(c) * (lse - x[c]);
    }
    const double z = problem.z_loss * lse * lse;
    out.nll.push_back(ignored ? 0 : lse - x[t]);
    out.z_loss.push_back(ignored ? 0 : z);
    out.loss.push_back(ignored ? 0 : hard * weight(t) * (lse - x[t]) + smooth * smoothed + z);
    for (std::size_t c = 0; c < classes; ++c) {
      const double p = std::exp(x[c] - lse);
      const double d =
          hard * weight(t) * (p - (c == t ? 1 : 0)) + smooth * (sum_weights * p - weight(c)) + z_slope * lse * p;
      out.gradient.push_back(ignored ? 0 : d * slope[c]);
    }
  }
  return out;
}

template <typename Found, typename Expected>
void expect_near(const std::vector<Found>& found, const std::vector<Expected>& expected, double factor, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], factor * expected[i], 4e-6 * (1 + std::fabs(factor * expected[i]))) << what << "[" << i << "]";
}

class CrossEntropyFamily : public testing::Test {
 protected:
  /// Fills logits and targets with ordinary values; one row is ignored.
  void fill(std::size_t rows, std::size_t cols, std::int64_t ignore_index = -100) {
    logits_.resize(rows * cols);
    for (std::size_t i = 0; i < logits_.size(); ++i)
      logits_[i] = static_cast<float>(std::sin(static_cast<double>(7 * i + 1)) * 4);
    targets_.resize(rows);
    for (std::size_t r = 0; r < rows; ++r) targets_[r] = static_cast<std::int64_t>((r * 5 + 2) % cols);
    if (rows > 2) targets_[2] = ignore_index;
    weights_.resize(cols);
    for (std::size_t c = 0; c < cols; ++c) weights_[c] = 0.25f + 0.125f * static_cast<float>(c % 7);
    loss_.assign(rows, -1);
    lse_.assign(rows, -1);
    z_loss_.assign(rows, -1);
    nll_.assign(rows, -1);
    argmax_.assign(rows, -1);
    dlogits_.assign(logits_.size(), -1);
  }

  CrossEntropyArrays arrays() {
    CrossEntropyArrays arrays;
    arrays.targets = targets_.data();
    arrays.loss = loss_.data();
    arrays.lse = lse_.data();
    return arrays;
  }

  static CrossEntropyProblem with_everything(std::int64_t rows, std::int64_t cols) {
    CrossEntropyProblem problem = CrossEntropyProblem::contiguous(rows, cols, DType::f32);
    problem.label_smoothing = 0.125;
    problem.z_loss = 0.01;
    problem.scale = 0.5;
    problem.softcap = 3;
    return problem;
  }

  /// Returns the reduced loss of a few rows.
  float loss_of(CrossEntropyProblem problem, std::vector<float> logits, std::vector<std::int64_t> targets,
                const std::vector<float>& weights = {}) {
    problem.rows = static_cast<std::int64_t>(targets.size());
    problem.cols = 3;
    std::vector<float> lse(targets.size());
    float loss = -1;
    CrossEntropyArrays arrays;
    arrays.targets = targets.data();
    arrays.loss = &loss;
    arrays.lse = lse.data();
    if (!weights.empty()) arrays.weight = weights.data();
    engine_.run_checked(problem, with_logits(arrays, logits.data()));
    return loss;
  }

  Engine engine_{host()};
  std::vector<float> logits_, weights_, loss_, lse_, z_loss_, nll_, dlogits_;
  std::vector<std::int64_t> targets_, argmax_;
};

TEST_F(CrossEntropyFamily, Plain) {
  fill(5, 12);
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(5, 12, DType::f32);
  problem.reduction = Reduction::none;
  engine_.run_checked(problem, with_logits(arrays(), logits_.data()));
  const Reference expected = reference(problem, logits_, targets_);
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
  const Reference expected = reference(problem, logits_, targets_, weights_);
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
  const Reference expected = reference(problem, logits_, targets_, weights_);
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
  const Reference expected = reference(problem, logits_, targets_);
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

// ---- What torch.nn.functional.cross_entropy documents
// -----------------------------------------------------------------------

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

// ---- A vocabulary that is spread over devices
// -------------------------------------------------------------------------------

struct Split {
  std::vector<std::int64_t> cols;  // of each shard
};

class CrossEntropyShards : public CrossEntropyFamily, public testing::WithParamInterface<Split> {};

TEST_P(CrossEntropyShards, CombineToTheWhole) {
  constexpr std::int64_t rows = 7, classes = 61;
  fill(rows, classes);
  CrossEntropyProblem whole = with_everything(rows, classes);
  const float dloss = 2;
  std::int64_t num_correct = -1;
  CrossEntropyArrays all = arrays();
  all.z_loss = z_loss_.data();
  all.nll = nll_.data();
  all.argmax = argmax_.data();
  all.num_correct = &num_correct;
  all.dloss = &dloss;
  all.dlogits = dlogits_.data();
  logits_[3 * classes + 5] = logits_[3 * classes + 50] = 9;  // the first of two largest is predicted
  engine_.run_checked(whole, with_logits(all, logits_.data()));

  const auto& shards = GetParam().cols;
  const auto count = static_cast<std::int64_t>(shards.size());
  std::vector<float> parts(static_cast<std::size_t>(count * rows * 8));
  std::int64_t start = 0;
  for (std::int64_t s = 0; s < count; ++s) {
    CrossEntropyShardProblem shard =
        CrossEntropyShardProblem::contiguous(rows, shards[static_cast<std::size_t>(s)], DType::f32);
    shard.logits_row_stride = classes;
    shard.vocab_start = start;
    shard.vocab_size = classes;
    shard.label_smoothing = whole.label_smoothing;
    shard.scale = whole.scale;
    shard.softcap = whole.softcap;
    shard.argmax = true;
    engine_.run(shard, {&logits_[static_cast<std::size_t>(start)], targets_.data(), nullptr,
                        &parts[static_cast<std::size_t>(s * rows * 8)]});
    start += shard.cols;
  }
  ASSERT_EQ(start, classes);
  CrossEntropyCombineProblem combine = CrossEntropyCombineProblem::contiguous(rows, count, classes);
  combine.label_smoothing = whole.label_smoothing;
  combine.z_loss = whole.z_loss;
  std::vector<float> lse(rows, -1), nll(rows, -1), loss(1, -1), z_loss(1, -1);
  std::vector<std::int64_t> argmax(rows, -1);
  std::int64_t hits = -1;
  engine_.run_checked(combine, {.partials = parts.data(),
                                .targets = targets_.data(),
                                .loss = loss.data(),
                                .lse = lse.data(),
                                .z_loss = z_loss.data(),
                                .nll = nll.data(),
                                .argmax = argmax.data(),
                                .num_correct = &hits});
  EXPECT_NEAR(loss[0], loss_[0], 2e-6 * loss_[0]);
  EXPECT_NEAR(z_loss[0], z_loss_[0], 2e-6 * z_loss_[0]);
  expect_near(lse, lse_, 1, "lse");
  expect_near(nll, nll_, 1, "nll");
  EXPECT_EQ(argmax, argmax_);
  EXPECT_EQ(argmax[3], 5);
  EXPECT_EQ(hits, num_correct);

  start = 0;
  std::vector<float> dlogits(dlogits_.size(), -1);
  for (const std::int64_t cols : shards) {
    CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(rows, cols, DType::f32);
    backward.logits_row_stride = backward.dlogits_row_stride = classes;
    backward.vocab_start = start;
    backward.vocab_size = classes;
    backward.label_smoothing = whole.label_smoothing;
    backward.z_loss = whole.z_loss;
    backward.scale = whole.scale;
    backward.softcap = whole.softcap;
    const auto offset = static_cast<std::size_t>(start);
    engine_.run(backward, {.logits = &logits_[offset],
                           .targets = targets_.data(),
                           .lse = lse.data(),
                           .dloss = &dloss,
                           .nll = nll.data(),
                           .dlogits = &dlogits[offset]});
    start += cols;
  }
  for (std::size_t i = 0; i < dlogits.size(); ++i) EXPECT_NEAR(dlogits[i], dlogits_[i], 2e-7) << i;
}

INSTANTIATE_TEST_SUITE_P(Splits, CrossEntropyShards,
                         testing::Values(Split{{61}}, Split{{40, 21}}, Split{{5, 32, 24}},
                                         Split{{1, 2, 3, 5, 8, 13, 21, 8}}),
                         [](const auto& split) { return std::to_string(split.param.cols.size()); });

// ---- Targets, errors, keys
// --------------------------------------------------------------------------------------------------

TEST_F(CrossEntropyFamily, ChecksTargetsOnRequest) {
  fill(5, 12);
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(5, 12, DType::f32);
  problem.check_targets = true;
  engine_.run_checked(problem, with_logits(arrays(), logits_.data()));  // all targets are valid
  targets_[1] = 12;
  targets_[4] = -3;
  expect_error([&] { engine_.run_checked(problem, with_logits(arrays(), logits_.data())); }, ErrorCode::invalid_argument,
               {"targets[1] is 12; allowed: 0 to 11, or ignore_index -100 (2 rows in all)"});
  EXPECT_TRUE(std::isnan(loss_[0]));
  std::vector<std::int32_t> narrow{0, 1, 2, -3, 4};
  CrossEntropyArrays other = arrays();
  other.targets = narrow.data();
  problem.target_dtype = DType::i32;
  expect_error([&] { engine_.run_checked(problem, with_logits(other, logits_.data())); }, ErrorCode::invalid_argument,
               {"targets[3] is -3; allowed: 0 to 11", "(1 row in all)"});

  // Without waiting, through the caller's array.
  std::int64_t bad[2] = {};
  other.bad_targets = bad;
  problem.check_targets = false;
  engine_.run_checked(problem, with_logits(other, logits_.data()));
  EXPECT_EQ(bad[0], 1);
  EXPECT_EQ(bad[1], 3);

  // Also when shards are combined.
  std::vector<float> parts(5 * 8);
  engine_.run(CrossEntropyShardProblem::contiguous(5, 12, DType::f32),
              {logits_.data(), targets_.data(), nullptr, parts.data()});
  CrossEntropyCombineProblem combine = CrossEntropyCombineProblem::contiguous(5, 1, 12);
  combine.check_targets = true;
  expect_error(
      [&] {
        engine_.run_checked(
            combine, {.partials = parts.data(), .targets = targets_.data(), .loss = loss_.data(), .lse = lse_.data()});
      },
      ErrorCode::invalid_argument, {"targets[1] is 12; allowed: 0 to 11, or ignore_index -100 (2 rows in all)"});
}

class CrossEntropyCalls : public testing::Test {
 protected:
  CrossEntropyArrays arrays() { return {.targets = targets_.data(), .loss = floats_.data(), .lse = floats_.data() + 8}; }
  template <typename Call>
  void rejects(const Call& call, std::initializer_list<std::string_view> words) {
    expect_error(call, ErrorCode::invalid_argument, words);
    EXPECT_EQ(fake_.compiler->compilations, 0);  // before any work
  }

  fakes::FakeEngine fake_{fakes::in_mode(Mode::off)};
  Engine& engine_ = *fake_.engine;
  std::vector<float> logits_ = std::vector<float>(64), other_ = std::vector<float>(64), floats_ = std::vector<float>(64);
  std::vector<std::int64_t> targets_ = std::vector<std::int64_t>(4);
  CrossEntropyProblem problem_ = CrossEntropyProblem::contiguous(4, 8, DType::f32);
};

TEST_F(CrossEntropyCalls, ErrorsNameMissingArrays) {
  const auto without = [&](auto member, const char* name) {
    CrossEntropyArrays given = arrays();
    given.*member = nullptr;
    rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); }, {name, "is a null pointer"});
  };
  without(&CrossEntropyArrays::targets, "targets");
  without(&CrossEntropyArrays::loss, "loss");
  without(&CrossEntropyArrays::lse, "lse");
  rejects([&] { engine_.run_checked(problem_, with_logits(arrays(), nullptr)); }, {"logits is a null pointer"});

  const auto asked = [&](const auto& ask, std::initializer_list<std::string_view> words) {
    CrossEntropyProblem problem = problem_;
    ask(problem);
    rejects([&] { engine_.run_checked(problem, with_logits(arrays(), logits_.data())); }, words);
  };
  asked([](auto& p) { p.weight = true; }, {"weight is a null pointer"});
  asked([](auto& p) { p.nll = true; }, {"nll is a null pointer"});
  asked([](auto& p) { p.argmax = true; }, {"argmax is a null pointer"});
  asked([](auto& p) { p.num_correct = true; }, {"num_correct is a null pointer"});
  asked([](auto& p) { p.dloss = Upstream::scalar; }, {"dloss is a null pointer"});
  asked([](auto& p) { p.gradient = Gradient::separate; }, {"dlogits is a null pointer"});
  asked([](auto& p) { p.z_loss = 0.5; }, {"z_loss is a null pointer"});

  const CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(4, 8, DType::f32);
  rejects([&] { engine_.run(backward, {logits_.data(), targets_.data(), floats_.data()}); }, {"dloss is a null pointer"});
  rejects(
      [&] {
        engine_.run(backward, {logits_.data(), targets_.data(), floats_.data(), floats_.data() + 8});
      },
      {"dlogits is a null pointer"});
  rejects(
      [&] {
        engine_.run(CrossEntropyShardProblem::contiguous(4, 8, DType::f32), {logits_.data(), targets_.data()});
      },
      {"partials is a null pointer"});
}

TEST_F(CrossEntropyCalls, ErrorsNameInvalidFields) {
  CrossEntropyArrays given = arrays();
  given.z_loss = floats_.data() + 16;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); },
          {"z_loss is given", "the problem does not have it"});
  given = arrays();
  given.dloss = floats_.data() + 16;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); },
          {"dloss is scalar", "gradient is none"});
  given = arrays();
  given.targets = reinterpret_cast<const std::byte*>(targets_.data()) + 4;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); }, {"targets is at", "i64", "8 bytes"});
  problem_.target_dtype = DType::f32;
  rejects([&] { engine_.run_checked(problem_, with_logits(arrays(), logits_.data())); },
          {"target_dtype is 'f32'", "i32, i64"});
  problem_.target_dtype = DType::i64;
  problem_.label_smoothing = 2;
  rejects([&] { engine_.run_checked(problem_, with_logits(arrays(), logits_.data())); }, {"label_smoothing is 2", "0 to 1"});
  problem_.label_smoothing = 0;
  given = arrays();
  given.dlogits = logits_.data();
  problem_.out_dtype = DType::bf16;
  rejects([&] { engine_.run_checked(problem_, with_logits(given, logits_.data())); }, {"in place", "f32", "bf16", "agree"});
}

TEST_F(CrossEntropyCalls, OnlyEqualCallsShareAPlan) {
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));
  engine_.run_checked(problem_, with_logits(arrays(), other_.data()));
  problem_.logits_row_stride = 8;    // as if it were absent
  problem_.out_dtype = DType::bf16;  // of dlogits, which are not computed: another entry of the table, the same plan
  problem_.logits_alignment = 4;     // the address determines it
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));
  EXPECT_EQ(fake_.compiler->compilations, 1);
  EXPECT_EQ(engine_.parts().plans->calls.size(), 2u);

  CrossEntropyArrays given = arrays();
  std::vector<std::int64_t> argmax(4);
  given.argmax = argmax.data();
  engine_.run_checked(problem_, with_logits(given, logits_.data()));
  EXPECT_EQ(fake_.compiler->compilations, 2);
  problem_.out_dtype = DType::f32;
  given.dlogits = other_.data();
  engine_.run_checked(problem_, with_logits(given, logits_.data()));
  given.dlogits = logits_.data();
  engine_.run_checked(problem_, with_logits(given, logits_.data()));
  EXPECT_EQ(engine_.parts().plans->calls.size(), 5u);
}

TEST_F(CrossEntropyCalls, DoesNotWaitDuringACapture) {
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));
  fake_.device->capturing = true;
  engine_.run_checked(problem_, with_logits(arrays(), logits_.data()));  // the plan exists, so it only launches
  problem_.check_targets = true;
  expect_error([&] { engine_.run_checked(problem_, with_logits(arrays(), logits_.data())); }, ErrorCode::capturing,
               {"check_targets", "capturing", "bad_targets"});
}

template <typename Problem>
CallKey key_of(const Problem& problem) {
  const typename Problem::Arrays none{};
  CallReader<key_words<Problem>()> call(problem.op());
  describe(problem, none, call);
  return CallKey({call.words(), call.hash()});
}

/// Checks that every change of a field gives a different key. Addresses replace alignments: dispatch_test.cpp.
template <typename Problem>
void expect_all_in_key(const Problem& plain, std::initializer_list<void (*)(Problem&)> changes) {
  std::vector<CallKey> keys{key_of(plain)};
  for (const auto& change : changes) {
    Problem problem = plain;
    change(problem);
    const CallKey key = key_of(problem);
    for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_FALSE(key == keys[i]) << "changes " << keys.size() << ", " << i;
    keys.push_back(key);
  }
}

TEST(CrossEntropyKeys, DependOnEveryField) {
  expect_all_in_key<CrossEntropyProblem>(CrossEntropyProblem::contiguous(8, 16, DType::f32),
                                         {[](auto& p) { p.rows = 9; },
                                          [](auto& p) { p.cols = 17; },
                                          [](auto& p) { p.dtype = DType::f16; },
                                          [](auto& p) { p.dtype = DType::bf16; },
                                          [](auto& p) { p.target_dtype = DType::i32; },
                                          [](auto& p) { p.out_dtype = DType::f16; },
                                          [](auto& p) { p.logits_row_stride = 20; },
                                          [](auto& p) { p.dlogits_row_stride = 20; },
                                          [](auto& p) { p.gradient = Gradient::separate; },
                                          [](auto& p) { p.gradient = Gradient::in_place; },
                                          [](auto& p) { p.ignore_index = 0; },
                                          [](auto& p) { p.label_smoothing = 0.5; },
                                          [](auto& p) { p.z_loss = 0.5; },
                                          [](auto& p) { p.scale = 0.5; },
                                          [](auto& p) { p.softcap = 0.5; },
                                          [](auto& p) { p.reduction = Reduction::sum; },
                                          [](auto& p) { p.reduction = Reduction::none; },
                                          [](auto& p) { p.dloss = Upstream::scalar; },
                                          [](auto& p) { p.dloss = Upstream::row; },
                                          [](auto& p) { p.weight = true; },
                                          [](auto& p) { p.nll = true; },
                                          [](auto& p) { p.argmax = true; },
                                          [](auto& p) { p.num_correct = true; },
                                          [](auto& p) { p.check_targets = true; }});
  expect_all_in_key<CrossEntropyBackwardProblem>(
      CrossEntropyBackwardProblem::contiguous(8, 16, DType::f32),
      {[](auto& p) { p.rows = 9; }, [](auto& p) { p.cols = 17; }, [](auto& p) { p.dtype = DType::f16; },
       [](auto& p) { p.target_dtype = DType::i32; }, [](auto& p) { p.out_dtype = DType::f16; },
       [](auto& p) { p.logits_row_stride = 20; }, [](auto& p) { p.dlogits_row_stride = 20; },
       [](auto& p) { p.in_place = true; }, [](auto& p) { p.vocab_start = 4; }, [](auto& p) { p.vocab_size = 99; },
       [](auto& p) { p.ignore_index = 0; }, [](auto& p) { p.label_smoothing = 0.5; }, [](auto& p) { p.z_loss = 0.5; },
       [](auto& p) { p.scale = 0.5; }, [](auto& p) { p.softcap = 0.5; }, [](auto& p) { p.reduction = Reduction::sum; },
       [](auto& p) { p.dloss = Upstream::row; }, [](auto& p) { p.weight = true; }, [](auto& p) { p.nll = true; }});
  expect_all_in_key<CrossEntropyShardProblem>(
      CrossEntropyShardProblem::contiguous(8, 16, DType::f32),
      {[](auto& p) { p.rows = 9; }, [](auto& p) { p.cols = 17; }, [](auto& p) { p.dtype = DType::f16; },
       [](auto& p) { p.target_dtype = DType::i32; }, [](auto& p) { p.logits_row_stride = 20; },
       [](auto& p) { p.vocab_start = 4; }, [](auto& p) { p.vocab_size = 99; }, [](auto& p) { p.ignore_index = 0; },
       [](auto& p) { p.label_smoothing = 0.5; }, [](auto& p) { p.scale = 0.5; }, [](auto& p) { p.softcap = 0.5; },
       [](auto& p) { p.weight = true; }, [](auto& p) { p.argmax = true; }});
  expect_all_in_key<CrossEntropyCombineProblem>(
      CrossEntropyCombineProblem::contiguous(8, 2, 16),
      {[](auto& p) { p.rows = 9; }, [](auto& p) { p.shards = 3; }, [](auto& p) { p.vocab_size = 17; },
       [](auto& p) { p.target_dtype = DType::i32; }, [](auto& p) { p.ignore_index = 0; },
       [](auto& p) { p.label_smoothing = 0.5; }, [](auto& p) { p.z_loss = 0.5; },
       [](auto& p) { p.reduction = Reduction::sum; }, [](auto& p) { p.weight = true; }, [](auto& p) { p.nll = true; },
       [](auto& p) { p.argmax = true; }, [](auto& p) { p.num_correct = true; }, [](auto& p) { p.check_targets = true; }});
  // The same fields of another operation.
  EXPECT_FALSE(key_of(CrossEntropyProblem::contiguous(8, 16, DType::f32)) ==
               key_of(CrossEntropyBackwardProblem::contiguous(8, 16, DType::f32)));
}

TEST(CrossEntropyProblems, GenericFormHasTheFieldsOfTheTypedOne) {
  CrossEntropyProblem problem = CrossEntropyProblem::contiguous(8, 16, DType::bf16);
  const Op& op = find_op("cross_entropy");
  const Problem plain{"cross_entropy", {{"rows", 8}, {"cols", 16}, {"dtype", "bf16"}}};
  EXPECT_EQ(op.normalize(to_problem(problem)).text(), op.normalize(plain).text());
  problem.gradient = Gradient::in_place;
  problem.target_dtype = DType::i32;
  problem.reduction = Reduction::none;
  problem.dloss = Upstream::row;
  problem.label_smoothing = 0.1;
  problem.z_loss = 0.25;
  problem.scale = 2;
  problem.softcap = 30;
  problem.ignore_index = 3;
  problem.weight = problem.nll = problem.argmax = problem.num_correct = problem.check_targets = true;
  EXPECT_EQ(op.normalize(to_problem(problem)).text(),
            "cross_entropy rows=8,cols=16,dtype=bf16,target_dtype=i32,out_dtype=bf16,logits_row_stride=16,"
            "dlogits_row_stride=16,logits_alignment=16,dlogits_alignment=16,gradient=in_place,ignore_index=3,"
            "label_smoothing=0.1,z_loss=0.25,scale=2,softcap=30,reduction=none,weight=1,dloss=row,nll=1,argmax=1,"
            "num_correct=1,check_targets=1");
  const auto text = [](const auto& typed) {
    const Problem general = to_problem(typed);
    return find_op(general.op).normalize(general).text();
  };
  CrossEntropyBackwardProblem backward = CrossEntropyBackwardProblem::contiguous(8, 16, DType::f16);
  backward.vocab_start = 32;
  backward.vocab_size = 64;
  backward.in_place = backward.nll = true;
  backward.reduction = Reduction::sum;
  EXPECT_EQ(text(backward),
            "cross_entropy_backward rows=8,cols=16,dtype=f16,target_dtype=i64,out_dtype=f16,logits_row_stride=16,"
            "dlogits_row_stride=16,logits_alignment=16,dlogits_alignment=16,in_place=1,vocab_start=32,vocab_size=64,"
            "reduction=sum,nll=1");
  CrossEntropyShardProblem shard = CrossEntropyShardProblem::contiguous(8, 16, DType::f16);
  shard.vocab_size = 64;
  shard.argmax = shard.weight = true;
  EXPECT_EQ(text(shard),
            "cross_entropy_shard rows=8,cols=16,dtype=f16,target_dtype=i64,logits_row_stride=16,logits_alignment=16,"
            "vocab_size=64,weight=1,argmax=1");
  CrossEntropyCombineProblem combine = CrossEntropyCombineProblem::contiguous(8, 4, 64);
  combine.reduction = Reduction::sum;
  combine.num_correct = combine.weight = true;
  EXPECT_EQ(text(combine),
            "cross_entropy_combine rows=8,shards=4,target_dtype=i64,vocab_size=64,reduction=sum,weight=1,num_correct=1");
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
  const Reference expected = reference(problem, logits_, targets_, weights_);
  EXPECT_NEAR(loss_[0], expected.mean_loss(), 2e-5);
  expect_near(nll_, expected.nll, 1, "nll");
  expect_near(dlogits_, expected.gradient, 1 / expected.total_weight, "dlogits");
  EXPECT_EQ(argmax_, expected.argmax);
  EXPECT_EQ(bad[1], -1);
  EXPECT_GE(num_correct, 0);
}

}  // namespace
}  // namespace tunesmith
