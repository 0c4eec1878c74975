// Contests within complete tuning runs: rounds, dropped candidates, repeated finals, and what disturbed them.

#include <algorithm>
#include <set>

#include "tests/tuner/tune_fixture.h"
#include "tuner/disturbance.h"

namespace tunesmith {
namespace {

TEST_F(Tune, DefaultWinsWithinTheNoise) {
  for (const int width : op.widths) scripts[width] = {.time_us = 100, .noise = 0.05};
  for (options.seed = 1; options.seed <= 10; ++options.seed) {
    options.force = true;
    EXPECT_EQ(winner(tune_now()), 1) << "seed " << options.seed;
  }
  scripts[4] = {.time_us = 99.5};
  scripts[1] = {.time_us = 100};
  EXPECT_EQ(winner(tune_now()), 1) << "half a percent is not enough";
}

TEST_F(Tune, EveryRoundTimesEachCandidateOnceInRandomOrder) {
  options.effort = Effort::full;
  tune_now();
  const std::vector<int> all{1, 2, 4, 8};
  EXPECT_EQ(device.rounds.front(), all) << "the warm-up follows the order of the search space";
  std::set<std::vector<int>> orders;
  for (std::vector<int> round : device.rounds) {
    orders.insert(round);
    std::ranges::sort(round);
    ASSERT_EQ(round, all);
  }
  EXPECT_GT(orders.size(), 8u);
  EXPECT_EQ(device.rounds.size(), 1u + 3u + 100u) << "a few candidates go directly to the final";

  fakes::ScriptedDevice again(scripts);
  options.force = true;
  tune(*op.parse(problem), {again, compiler, cache, templates}, options);
  EXPECT_EQ(again.timed, device.timed) << "the seed determines the order";
}

TEST_F(Tune, CandidatesThatKeepLinesAreTimedInCallsOfTheirOwn) {
  op.keeping = {2, 8};
  const TuneResult result = tune_now();
  EXPECT_EQ(result.timed, 4);
  const std::vector<std::vector<int>> warm_up(device.rounds.begin(), device.rounds.begin() + 4);
  EXPECT_EQ(warm_up, (std::vector<std::vector<int>>{{1}, {2}, {4}, {8}}))
      << "the warm-up follows the order of the search space";
  for (std::size_t i = 4; i < device.rounds.size(); ++i) {
    std::vector<int> round = device.rounds[i];
    std::ranges::sort(round);
    EXPECT_EQ(round, i % 2 == 0 ? (std::vector{1, 4}) : (std::vector{2, 8}));
  }
}

TEST_F(Tune, IgnoresTheFirstSample) {
  scripts[8].time_us = 5;
  bool is_first = true;
  device.on_timing = [&] {
    scripts[8].time_us = is_first ? 1000 : 5;
    is_first = false;
  };
  const TuneResult result = tune_now();
  EXPECT_EQ(winner(result), 8);
  EXPECT_EQ(trial(result, 8).mad_us, 0);
}

TEST_F(Tune, DropsSlowCandidatesEarly) {
  add_widths(20);
  for (const int width : op.widths) scripts[width] = {.time_us = 10.0 + 0.01 * width};
  scripts[9].time_us = 25;
  scripts[10].time_us = 15;
  scripts[11].time_us = 11;
  const TuneResult result = tune_now();
  EXPECT_EQ(status(result, 9), "dropped");
  EXPECT_EQ(device.times_timed(9), 1 + 3);
  EXPECT_EQ(device.times_timed(10), 1 + 5);
  EXPECT_EQ(device.times_timed(11), 1 + 8);
  EXPECT_EQ(status(result, 11), "dropped");
  EXPECT_EQ(trial(result, 9).median_us, 25);
  EXPECT_EQ(trial(result, 9).samples, 3);
  EXPECT_EQ(status(result, 12), "timed");
  EXPECT_EQ(device.times_timed(20), 1 + 30) << "too slow for the final, too fast to be dropped";
}

TEST_F(Tune, MeasuresASlowDefaultToTheEnd) {
  scripts[1].time_us = 100;
  const TuneResult result = tune_now();
  EXPECT_EQ(winner(result), 2) << "the first of equal ones";
  EXPECT_EQ(result.record.default_median_us, 100);
  EXPECT_EQ(trial(result, 1).samples, 100);
}

TEST_F(Tune, RecordsDrift) {
  device.slowdown_per_call = 1.01;
  const TuneResult result = tune_now();
  ASSERT_TRUE(result.record.provenance.contains("drift"));
  EXPECT_EQ(result.record.provenance.at("drift").front(), '+');
  device.slowdown_per_call = 0.99;
  options.force = true;
  EXPECT_EQ(tune_now().record.provenance.at("drift").front(), '-');
}

// Another process takes half of the GPU during the second half of the final.
TEST_F(Tune, RepeatsAFinalDuringWhichTimesChanged) {
  options.effort = Effort::full;
  constexpr std::size_t first = 60, last = 104;
  device.on_timing = [&] {
    const std::size_t call = device.rounds.size();
    device.slowdown_per_call = call == first ? 2 : call == last ? 0.5 : 1;
  };
  const TuneResult result = tune_now();
  EXPECT_EQ(result.record.provenance.at("repeats"), "1");
  EXPECT_EQ(device.rounds.size(), 1u + 3u + 100u + 100u);
  for (const int width : op.widths)
    EXPECT_DOUBLE_EQ(trial(result, width).median_us, scripts[width].time_us) << "of the repetition";
}

TEST_F(Tune, RepeatsAtMostTwice) {
  options.effort = Effort::full;
  device.on_timing = [&] { device.slowdown_per_call = 1.002; };
  EXPECT_EQ(tune_now().record.provenance.at("repeats"), "2");
  EXPECT_EQ(device.rounds.size(), 1u + 3u + 300u);
}

// The power limit throttles the second half of the final, and its repetition; then nothing changes any more.
TEST_F(Tune, RecordsWhyClocksFell) {
  options.effort = Effort::full;
  device.conditions_now = {1980, {}, {}};
  device.on_timing = [&] {
    const bool is_slowed = device.rounds.size() == 60;
    device.slowdown_per_call = is_slowed ? 1980.0 / 1620 : 1;
    if (is_slowed) device.conditions_now = {1620, {"power cap"}, {}};
  };
  const TuningRecord record = tune_now().record;
  EXPECT_EQ(record.provenance.at("repeats"), "1");
  EXPECT_EQ(record.provenance.at("disturbed"), "clocks fell from 1980 to 1620 MHz: power cap");
}

// Its kernels run in every round, in between: the times tell nothing.
TEST_F(Tune, RepeatsAFinalDuringWhichAnotherProcessCame) {
  options.effort = Effort::full;
  device.on_timing = [&] {
    if (device.rounds.size() == 60) device.conditions_now.other_processes = {1234};
  };
  const TuningRecord record = tune_now().record;
  EXPECT_EQ(record.provenance.at("repeats"), "1");
  EXPECT_EQ(record.provenance.at("disturbed"), "another process uses the GPU: pid 1234");
  EXPECT_EQ(device.rounds.size(), 1u + 3u + 100u + 100u);
}

// As a notebook that holds a context and does nothing.
TEST_F(Tune, RecordsAProcessThatStaysAndRepeatsNothing) {
  device.conditions_now.other_processes = {7, 1234};
  const TuningRecord record = tune_now().record;
  EXPECT_FALSE(record.provenance.contains("repeats"));
  EXPECT_EQ(record.provenance.at("disturbed"), "other processes use the GPU: pids 7, 1234");
}

TEST_F(Tune, ClocksThatStayAreNoDisturbance) {
  device.conditions_now = {1980, {"power cap"}, {}};
  device.on_timing = [&] { device.conditions_now.sm_clock_mhz = device.rounds.size() % 2 == 0 ? 1980 : 1900; };
  EXPECT_FALSE(tune_now().record.provenance.contains("disturbed"));
}

TEST(Disturbance, ClocksThatRiseNameWhatHeldThem) {
  Disturbance disturbance;
  EXPECT_FALSE(disturbance.observe({1200, {"temperature", "power brake"}, {}}));
  EXPECT_FALSE(disturbance.observe({1980, {}, {}}));
  EXPECT_EQ(disturbance.text(), "clocks rose from 1200 to 1980 MHz after: temperature, power brake");
}

TEST(Disturbance, UnknownClocksSayNothing) {
  Disturbance disturbance;
  for (const int mhz : {1980, 0, 1980}) EXPECT_FALSE(disturbance.observe({mhz, {"power cap"}, {}}));
  EXPECT_EQ(disturbance.text(), "");
}

}  // namespace
}  // namespace tunesmith
