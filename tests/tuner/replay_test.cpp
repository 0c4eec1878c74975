// Replays of stored trials: shares and regrets of made-up records.

#include "tuner/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "templates/op.h"
#include "tests/support/source_folder.h"

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
    stored.config = std::ranges::min_element(trials, {}, &Trial::median_us)->config;
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
  EXPECT_EQ(lost.chosen_timed, 3);
  EXPECT_NEAR(lost.regret, 100.0 / 96 - 1, 1e-12);
  EXPECT_TRUE(lost.other_winner);
}

TEST_F(ReplayTest, NeighboursThatAgreeFindTheSameWinner) {
  for (const std::int64_t cols : {724, 1024, 1448}) store(cols, fastest_at_12);
  const Replay same = replayed(1024);
  EXPECT_EQ(same.chosen_timed, 3);
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
  EXPECT_EQ(summarize(std::vector<Replay>{}).lists, 0);
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
  return cells;
}

/// Stores the records and trials that data/extract_trials.py wrote.
void load(const std::string& file, Cache& cache) {
  std::ifstream stream(source_folder() / "tests/tuner/data" / file);
  ASSERT_TRUE(stream) << file;
  TuningRecord record;
  std::vector<Trial> trials;
  const auto store = [&] {
    if (!trials.empty()) cache.store_record(record, trials);
    trials.clear();
  };
  for (std::string line; std::getline(stream, line);) {
    const std::vector<std::string> cells = split(line);
    if (cells.at(0) == "record") {
      store();
      record = {};
      record.key = {cells.at(1), cells.at(2), std::stoll(cells.at(3)), std::stoll(cells.at(4)), "device",
                    "digest",    "policy"};
      record.default_median_us = std::stod(cells.at(5));
      record.problem = cells.at(6);
      record.config = cells.size() > 7 ? cells[7] : "unknown=1";  // which the first extract does not have
    } else {
      trials.push_back(
          {cells.at(1), cells.at(2), std::stod(cells.at(3)), std::stod(cells.at(4)), std::stoi(cells.at(5)), ""});
    }
  }
  store();
}

std::vector<Replay> replay_file(const std::string& file) {
  Cache cache({.file = {}, .system_files = {}, .warn = {}, .remote = {}});
  load(file, cache);
  std::vector<Replay> all;
  for (const TuningRecord& record : cache.list_records()) {
    const auto result = replay(record, cache);
    EXPECT_TRUE(result) << record.key.op << " " << record.key.n_cols;
    if (result) all.push_back(*result);
  }
  return all;
}

// Trials of H200s: the caches of `tunesmith prewarm --effort quick --budget 3s` with `--spec bench/neighbours.json`
// (2026-11-23) and `--spec bench/neighbours_dense.json` (2026-11-24). The bounds are the targets; fewer lists would be a
// worse ranking.
TEST(StoredTrials, AFifthOfTheTimingsWithinThePromisedRegret) {
  std::vector<Replay> all = replay_file("quick_trials.tsv");
  const std::vector<Replay> dense = replay_file("dense_trials.tsv");
  EXPECT_LE(summarize(all).p95_regret, 0.015);
  EXPECT_GE(summarize(all).lists, 35);
  EXPECT_LE(summarize(dense).p95_regret, 0.015);
  EXPECT_GE(summarize(dense).lists, 28);
  all.insert(all.end(), dense.begin(), dense.end());
  const ReplaySummary summary = summarize(all);
  EXPECT_EQ(summary.keys, 103);
  EXPECT_LE(summary.share_of_timings, 0.2);
  EXPECT_LE(summary.p95_regret, 0.015);
  EXPECT_LE(summary.worst_regret, 0.02);
  for (const Replay& each : all)
    if (each.neighbours > 0) {
      EXPECT_LE(each.chosen_timed, std::max(3, (each.candidates + 2) / 4)) << each.key.op << " " << each.key.n_cols;
    }
}

// As in a cache with fewer records: what is far away is not trusted.
TEST(StoredTrials, SparseRecordsGiveNoLists) {
  Cache cache({.file = {}, .system_files = {}, .warn = {}, .remote = {}});
  load("quick_trials.tsv", cache);
  for (const TuningRecord& record : cache.list_records()) {
    const auto result = replay(record, cache, 0.52);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->neighbours, 0) << record.key.op << " " << record.key.n_cols;
    EXPECT_EQ(result->chosen_timed, result->timed);
  }
}

}  // namespace
}  // namespace tunesmith
