// Replays of stored trials: shares and regrets of made-up records.

#include "tuner/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "templates/op.h"

namespace tunesmith {
namespace {

constexpr int widths = 20;

/// Microseconds of a configuration; `width` 1 is the default.
using Model = std::function<double(int width)>;

class ReplayTest : public testing::Test {
 protected:
  TuningRecord record(std::int64_t cols) const {
    TuningRecord record;
    record.key = {"softmax", "class", cols, 64, "device", "digest", "policy"};
    record.problem = find_op("softmax")
                         .normalize({"softmax", {{"rows", std::int64_t{64}}, {"cols", cols}, {"dtype", std::string("f32")}}})
                         .text();
    return record;
  }
  void store(std::int64_t cols, const Model& time_us) {
    std::vector<Trial> trials;
    for (int width = 1; width <= widths; ++width)
      trials.push_back({"variant=block,width=" + std::to_string(1 << width), "timed", time_us(width), 0.001, 20, ""});
    TuningRecord stored = record(cols);
    stored.config = trials.front().config;
    stored.default_median_us = time_us(1);
    cache.store_record(stored, trials);
  }
  Replay replayed(std::int64_t cols) {
    const auto found = cache.find_record(record(cols).key);
    const auto result = replay(*found, cache);
    EXPECT_TRUE(result);
    return result.value_or(Replay());
  }

  Cache cache{{.file = {}, .system_files = {}, .warn = {}, .remote = {}}};
};

double fastest_at_12(int width) { return 100 + 3 * std::abs(width - 12); }

TEST_F(ReplayTest, CountsTimingsAndRegret) {
  store(1024, fastest_at_12);
  store(1200, fastest_at_12);
  store(2048, fastest_at_12);
  // Here another candidate is the fastest, by 4%, and the neighbours cannot know it.
  store(1448, [](int width) { return width == 20 ? 96 : fastest_at_12(width); });
  const Replay lost = replayed(1448);
  EXPECT_EQ(lost.neighbours, 3);
  EXPECT_EQ(lost.candidates, widths);
  EXPECT_EQ(lost.timed, widths);
  EXPECT_EQ(lost.chosen_timed, 4);
  EXPECT_NEAR(lost.regret, 100.0 / 96 - 1, 1e-12);
  EXPECT_TRUE(lost.other_winner);
}

TEST_F(ReplayTest, NeighboursThatAgreeFindTheSameWinner) {
  for (const std::int64_t cols : {724, 1024, 1448}) store(cols, fastest_at_12);
  const Replay same = replayed(1024);
  EXPECT_EQ(same.chosen_timed, 4);
  EXPECT_EQ(same.regret, 0);
  EXPECT_FALSE(same.other_winner);
}

TEST_F(ReplayTest, WithoutAListEverythingIsTimed) {
  store(512, fastest_at_12);
  const Replay alone = replayed(512);
  EXPECT_EQ(alone.neighbours, 0);
  EXPECT_EQ(alone.chosen_timed, widths);
  EXPECT_EQ(alone.regret, 0);
  EXPECT_NE(alone.why_not, "");
}

TEST_F(ReplayTest, RecordsWithoutTrialsAreLeftOut) {
  TuningRecord shipped = record(512);
  EXPECT_FALSE(replay(shipped, cache));
  store(512, fastest_at_12);
  shipped.provenance["neighbours"] = "2";
  EXPECT_FALSE(replay(shipped, cache)) << "its own candidates were chosen by neighbours";
}

TEST_F(ReplayTest, SummaryCountsKeysWithAListSeparately) {
  std::vector<Replay> replays(40);
  for (std::size_t i = 0; i < replays.size(); ++i) {
    replays[i].timed = replays[i].chosen_timed = 10;
    if (i >= 20) continue;
    replays[i].neighbours = 2;
    replays[i].chosen_timed = 2;
    replays[i].regret = 0.001 * static_cast<double>(i + 1);
  }
  const ReplaySummary summary = summarize(replays);
  EXPECT_EQ(summary.keys, 40);
  EXPECT_EQ(summary.lists, 20);
  EXPECT_DOUBLE_EQ(summary.share_of_timings, 0.2);
  EXPECT_DOUBLE_EQ(summary.share_of_all, 0.6);
  EXPECT_DOUBLE_EQ(summary.median_regret, 0.010);
  EXPECT_DOUBLE_EQ(summary.p95_regret, 0.019);
  EXPECT_DOUBLE_EQ(summary.worst_regret, 0.020);
  EXPECT_EQ(summarize({}).lists, 0);
}

}  // namespace
}  // namespace tunesmith
