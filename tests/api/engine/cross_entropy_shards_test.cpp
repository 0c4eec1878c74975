// A vocabulary that is spread over devices, through the typed API.

#include <gtest/gtest.h>

#include <vector>

#include "tests/api/engine/cross_entropy_fixture.h"

namespace tunesmith {
namespace {

using test::CrossEntropyFamily;
using test::expect_near;
using test::with_logits;

using Split = std::vector<std::int64_t>;  // columns of each shard

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

  const auto& shards = GetParam();
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
                         testing::Values(Split{61}, Split{40, 21}, Split{5, 32, 24}, Split{1, 2, 3, 5, 8, 13, 21, 8}),
                         [](const auto& split) { return std::to_string(split.param.size()); });

}  // namespace
}  // namespace tunesmith
