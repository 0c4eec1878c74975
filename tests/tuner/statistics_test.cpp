// Median, deviation, and the choice between finalists.

#include <gtest/gtest.h>

#include "tuner/array_layout.h"
#include "tuner/decide.h"

namespace tunesmith {
namespace {

TEST(Statistics, MedianAndDeviation) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
  EXPECT_EQ(median_absolute_deviation({}), 0);
  EXPECT_EQ(median_absolute_deviation({1, 2, 3, 4, 100}), 1) << "an outlier changes neither";
  const Timing timing = summarize({1, 2, 3, 4, 100});
  EXPECT_EQ(timing.median_us, 3);
  EXPECT_EQ(timing.samples, 5);
  EXPECT_EQ(noise_us({}), 0);
  EXPECT_NEAR(noise_us({10, 2, 9}), 3.716, 0.001);
}

Timing exact(double us) { return {us, 0, 20}; }

TEST(Decide, FastestWinsIfItIsClearlyFaster) {
  EXPECT_EQ(choose_winner(std::vector{exact(10), exact(9), exact(8)}), 2u);
  EXPECT_EQ(choose_winner(std::vector{exact(10)}), 0u);
}

TEST(Decide, RequiresAGainOfOnePercent) {
  EXPECT_EQ(choose_winner(std::vector{exact(100), exact(99.1)}), 0u);
  EXPECT_EQ(choose_winner(std::vector{exact(100), exact(98.9)}), 1u);
}

TEST(Decide, IgnoresAGainWithinTheNoise) {
  EXPECT_EQ(choose_winner(std::vector{Timing{100, 5, 20}, Timing{96, 5, 20}}), 0u);
  EXPECT_EQ(choose_winner(std::vector{Timing{100, 5, 2000}, Timing{96, 5, 2000}}), 1u) << "more samples decide";
}

TEST(Decide, EarlierWinsAmongNearlyEqualOnes) {
  EXPECT_EQ(choose_winner(std::vector{exact(100), exact(90.3), exact(90)}), 1u);
  EXPECT_EQ(choose_winner(std::vector{exact(100), exact(91), exact(90)}), 2u);
  EXPECT_EQ(choose_winner(std::vector{exact(100), exact(99.2), exact(98.8)}), 2u)
      << "the nearly equal one does not beat the default";
}

ArrayInfo strided(std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  ArrayInfo array;
  array.name = "y";
  array.output = true;
  array.shape = std::move(shape);
  array.strides = std::move(strides);
  return array;
}

TEST(ArrayLayout, MergesContiguousRows) {
  const auto count = [](const ArrayInfo& array) { return element_runs(array).size(); };
  EXPECT_EQ(count(strided({4, 5}, {5, 1})), 1u);
  EXPECT_EQ(element_runs(strided({4, 5}, {5, 1}))[0].count, 20);
  const std::vector<ElementRun> runs = element_runs(strided({4, 5}, {7, 1}));
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[3].begin, 21);
  EXPECT_EQ(runs[3].count, 5);
  EXPECT_EQ(count(strided({0, 5}, {7, 1})), 0u);
  // Dimensions that are not in memory order: (batch, heads, sequence, head) stored as (batch, sequence, heads, head).
  EXPECT_EQ(count(strided({2, 3, 4, 8}, {96, 8, 24, 1})), 1u);
  EXPECT_EQ(count(strided({2, 3, 4, 8}, {100, 8, 24, 1})), 2u);
}

TEST(ArrayLayout, FollowsStridesBetweenInnermostElements) {
  EXPECT_EQ(element_runs(strided({4, 5}, {1, 4})).size(), 1U);  // transposed
  const std::vector<ElementRun> gaps = element_runs(strided({3, 2, 4}, {1, 30, 6}));
  ASSERT_EQ(gaps.size(), 8U);
  EXPECT_EQ(gaps[1].begin, 6);
  EXPECT_EQ(gaps[1].count, 3);
  EXPECT_EQ(element_runs(strided({4, 5}, {0, 2})).size(), 5U);
  EXPECT_EQ(element_runs(strided({4, 5}, {1, 0})).at(0).count, 4);
  EXPECT_EQ(element_name(strided({3, 2, 4}, {1, 30, 6}), 30 + 2 * 6 + 1), "y[1,1,2]");
  EXPECT_EQ(element_name(strided({3, 2, 4}, {1, 30, 6}), 4), "y+4") << "in a gap";
}

TEST(ArrayLayout, NamesElements) {
  const ArrayInfo rows = strided({4, 5}, {7, 1});
  EXPECT_EQ(element_name(rows, 7 * 3 + 4), "y[3,4]");
  EXPECT_EQ(element_name(rows, 6), "y+6") << "in a gap";
  EXPECT_EQ(element_name(strided({2, 3, 4, 8}, {96, 8, 24, 1}), 96 + 2 * 8 + 3 * 24 + 5), "y[1,2,3,5]");
}

TEST(ArrayLayout, InPlaceOutputUsesTheInputThatItNames) {
  ArrayInfo other = strided({4, 5}, {7, 1});
  other.name = "other";
  ArrayInfo input = other;
  input.name = "x";
  ArrayInfo output = strided({4, 5}, {7, 1});
  EXPECT_EQ(storage_owners({other, input, output}), (std::vector<std::size_t>{0, 1, 2}));
  output.in_place_of = "x";
  EXPECT_EQ(storage_owners({other, input, output}), (std::vector<std::size_t>{0, 1, 1}));
}

}  // namespace
}  // namespace tunesmith
