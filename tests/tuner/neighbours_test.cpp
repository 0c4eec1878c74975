// Short lists of candidates: which trials of near records choose them, and when the whole search space is tried instead.

#include "tuner/neighbours.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/tuner/fakes.h"
#include "tuner/select.h"

namespace tunesmith {
namespace {

Config config(int width, const std::string& variant = "plain") {
  return {{{"variant", variant}, {"width", std::int64_t{width}}}};
}

std::vector<Config> space_of(int widths) {
  std::vector<Config> space;
  for (int width = 1; width <= widths; ++width) space.push_back(config(width));
  return space;
}

/// The fastest width is 3 log2(n_cols); each width away from it costs 1%. `noise` is a relative standard deviation.
double model_us(int width, std::int64_t n_cols, double noise, std::mt19937& random) {
  const double away = std::fabs(width - 3 * std::log2(static_cast<double>(n_cols)));
  return static_cast<double>(n_cols) * (1 + 0.01 * away) * (1 + noise * std::normal_distribution<double>()(random));
}

std::vector<Trial> model_trials(int widths, std::int64_t n_cols, double noise = 0) {
  std::mt19937 random(static_cast<unsigned>(n_cols));
  std::vector<Trial> trials;
  for (int width = 1; width <= widths; ++width)
    trials.push_back({config(width).text(), "timed", model_us(width, n_cols, noise, random), 0.01, 20, ""});
  return trials;
}

Neighbour model_neighbour(int widths, std::int64_t n_cols, double noise = 0) {
  TuningKey key;
  key.n_cols = n_cols;
  key.rows_bucket = 64;
  return make_neighbour(key, model_trials(widths, n_cols, noise));
}

bool has(const Shortlist& list, int width) { return std::ranges::find(list.configs, config(width)) != list.configs.end(); }

TEST(Shortlist, IsAFifthWithTheDefaultFirst) {
  const std::vector<Neighbour> neighbours{model_neighbour(40, 724), model_neighbour(40, 1448)};
  const Shortlist list = shortlist(1024, 64, space_of(40), neighbours);
  ASSERT_EQ(list.configs.size(), 8u) << list.why_not;
  EXPECT_EQ(list.configs.front(), config(1));
  EXPECT_EQ(list.neighbours, 2);
  EXPECT_EQ(list.why_not, "");
  EXPECT_TRUE(has(list, 30)) << "the fastest width for 1024 columns";
}

TEST(Shortlist, WeighsNearNeighboursMore) {
  // The fastest width is 27 at 512 columns and 30 at 1024; seven widths are chosen.
  const std::vector<Neighbour> neighbours{model_neighbour(40, 1024), model_neighbour(40, 512)};
  const Shortlist wide = shortlist(1024, 64, space_of(40), neighbours);
  EXPECT_TRUE(has(wide, 32));
  EXPECT_FALSE(has(wide, 25));
  const Shortlist narrow = shortlist(512, 64, space_of(40), neighbours);
  EXPECT_FALSE(has(narrow, 32));
  EXPECT_TRUE(has(narrow, 25));
}

TEST(Shortlist, EstimatesConfigurationsThatNoNeighbourTried) {
  // Neighbours tried odd widths only.
  std::vector<Neighbour> neighbours{model_neighbour(60, 512), model_neighbour(60, 1024)};
  for (Neighbour& neighbour : neighbours)
    std::erase_if(neighbour.trials,
                  [](const Neighbour::Measured& trial) { return trial.config.fields.integer("width") % 2 == 0; });
  const Shortlist list = shortlist(724, 64, space_of(60), neighbours);
  ASSERT_EQ(list.configs.size(), 12u) << list.why_not;
  EXPECT_TRUE(has(list, 28));
  EXPECT_TRUE(has(list, 29));
}

TEST(Shortlist, FailedCandidatesComeLast) {
  std::vector<Trial> trials = model_trials(20, 1024);
  trials[19] = {config(20).text(), "compile_failed", 0, 0, 0, "why"};
  trials[18].status = "dropped";
  TuningKey key;
  key.n_cols = 1024;
  const Neighbour neighbour = make_neighbour(key, trials);
  ASSERT_EQ(neighbour.trials.size(), 20u);
  EXPECT_EQ(neighbour.trials[19].slowdown, most_slowdown);
  EXPECT_EQ(neighbour.trials[18].slowdown, 0) << "the fastest that was timed";
  EXPECT_EQ(make_neighbour(key, {trials[19]}).trials.size(), 0u) << "nothing was timed";
}

TEST(Shortlist, NeedsTwoNeighboursWithEnoughTrials) {
  std::vector<Neighbour> neighbours{model_neighbour(40, 1024)};
  EXPECT_EQ(shortlist(1024, 64, space_of(40), neighbours).why_not, "1 near records have trials; expected at least 2");
  neighbours.push_back(model_neighbour(19, 1024));
  EXPECT_EQ(shortlist(1024, 64, space_of(40), neighbours).why_not, "1 near records have trials; expected at least 2");
  neighbours.push_back(model_neighbour(40, 512));
  EXPECT_EQ(shortlist(1024, 64, space_of(40), neighbours).neighbours, 2);
}

TEST(Shortlist, NeedsEveryVariantTried) {
  std::vector<Neighbour> neighbours{model_neighbour(40, 1024), model_neighbour(40, 512)};
  std::vector<Config> space = space_of(40);
  space.push_back(config(7, "cluster"));
  EXPECT_EQ(shortlist(1024, 64, space, neighbours).why_not, "no near record tried the variant of variant=cluster,width=7");
  neighbours[1].trials.push_back({config(9, "cluster"), 0.5});
  EXPECT_EQ(shortlist(1024, 64, space, neighbours).why_not, "");
}

TEST(Shortlist, NeedsNeighboursThatAgree) {
  std::vector<Neighbour> neighbours{model_neighbour(40, 512), model_neighbour(40, 1024)};
  ASSERT_EQ(shortlist(724, 64, space_of(40), neighbours).why_not, "");
  // In one of them, the order is the opposite.
  for (Neighbour::Measured& trial : neighbours[1].trials) trial.slowdown = 0.5 - trial.slowdown;
  EXPECT_EQ(shortlist(724, 64, space_of(40), neighbours).why_not, "the trials of 2 near records disagree");
}

TEST(Shortlist, SmallSpacesAreTriedInFull) {
  const std::vector<Neighbour> neighbours{model_neighbour(40, 512), model_neighbour(40, 1024)};
  EXPECT_EQ(shortlist(724, 64, space_of(9), neighbours).why_not, "the search space has 9 candidates only");
  EXPECT_EQ(shortlist(724, 64, space_of(10), neighbours).configs.size(), 2u);
}

// Timings of a search that tries everything have noise, too: the fastest of many noisy times looks faster than it is, and no
// list can know it. With a deviation of 0.3%, the regret stays within the target.
TEST(Shortlist, RegretIsSmallOnNoisyTrials) {
  constexpr int widths = 60;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 256; size <= 65536; size += size / 2) sizes.push_back(size);
  std::vector<double> regrets;
  int lists = 0;
  for (const std::int64_t size : sizes) {
    std::vector<Neighbour> neighbours;
    for (const std::int64_t other : sizes)
      if (other != size) neighbours.push_back(model_neighbour(widths, other, 0.003));
    std::ranges::stable_sort(neighbours, {}, [&](const Neighbour& n) { return shape_distance(size, 64, n); });
    const Shortlist list = shortlist(size, 64, space_of(widths), neighbours);
    if (list.configs.empty()) continue;
    ++lists;
    const Neighbour truth = model_neighbour(widths, size, 0.003);
    double best = 1;
    for (const Neighbour::Measured& trial : truth.trials)
      if (std::ranges::find(list.configs, trial.config) != list.configs.end()) best = std::min(best, trial.slowdown);
    regrets.push_back(std::expm1(best));
  }
  EXPECT_GE(lists, static_cast<int>(sizes.size()) - 2);
  std::ranges::sort(regrets);
  EXPECT_LE(regrets.back(), 0.015);
}

class NeighboursFirst : public fakes::TunerTest {
 protected:
  NeighboursFirst() {
    op.widths.clear();
    for (int width = 1; width <= 20; ++width) op.widths.push_back(width);
    for (const int width : op.widths) scripts[width].time_us = 100 + std::abs(width - 14);
    options.budget_s = 60;
    options.jobs = 2;
  }
  TuneResult tune_at(std::int64_t cols, bool neighbours_first) {
    options.neighbours_first = neighbours_first;
    return tune(*op.parse(fakes::add_one_problem(64, cols)), bench(), options);
  }
  TuneOptions options;
};

TEST_F(NeighboursFirst, TimesAFifthAndFindsTheWinner) {
  EXPECT_EQ(tune_at(100, true).why_all_tried, "0 near records have trials; expected at least 2");
  EXPECT_EQ(tune_at(150, true).timed, 20);
  const TuneResult result = tune_at(120, true);
  EXPECT_EQ(result.why_all_tried, "");
  EXPECT_EQ(result.neighbours, 2);
  EXPECT_EQ(result.timed, 4);
  EXPECT_EQ(result.verified, 4);
  EXPECT_EQ(result.candidates, 20);
  EXPECT_EQ(winner(result), 14);
  EXPECT_EQ(result.record.provenance.at("neighbours"), "2");
  EXPECT_EQ(result.record.provenance.at("candidates"), "4 of 20");
  EXPECT_EQ(result.record.default_median_us, 113) << "the default competes";
}

TEST_F(NeighboursFirst, IsOffByDefault) {
  EXPECT_FALSE(TuneOptions().neighbours_first);
  for (const std::int64_t cols : {100, 150, 120}) {
    const TuneResult result = tune_at(cols, false);
    EXPECT_EQ(result.timed, 20);
    EXPECT_EQ(result.why_all_tried, "");
    EXPECT_FALSE(result.record.provenance.contains("neighbours"));
  }
}

TEST_F(NeighboursFirst, ALaterRunMeasuresWhatWasLeftOut) {
  tune_at(100, false);
  tune_at(150, false);
  ASSERT_EQ(tune_at(120, true).timed, 4);
  const TuneResult again = tune_at(120, true);
  EXPECT_EQ(again.timed, 0) << "there is nothing left to do";
  EXPECT_EQ(again.trials.size(), 4u);
  scripts[20].time_us = 50;
  const TuneResult whole = tune_at(120, false);
  EXPECT_EQ(whole.timed, 18) << "16 that were left out, the default and the recorded winner";
  EXPECT_EQ(winner(whole), 20);
  EXPECT_EQ(whole.trials.size(), 20u);
  EXPECT_FALSE(whole.record.provenance.contains("neighbours"));
}

TEST_F(NeighboursFirst, FullEffortIsNotDoneWithTheListOfQuickEffort) {
  tune_at(100, false);
  tune_at(150, false);
  options.effort = Effort::quick;
  ASSERT_EQ(tune_at(120, true).timed, 3);
  options.effort = Effort::full;
  EXPECT_GT(tune_at(120, true).timed, 0);
}

TEST_F(NeighboursFirst, RecordsWhoseCandidatesWereChosenDoNotChoose) {
  tune_at(100, false);
  tune_at(150, false);
  tune_at(120, true);
  const TuneResult result = tune_at(130, true);
  EXPECT_EQ(result.neighbours, 2) << "not that of 120";
}

TEST_F(NeighboursFirst, FarRecordsDoNotCount) {
  tune_at(100, false);
  tune_at(150, false);
  const TuneResult result = tune_at(1000, true);
  EXPECT_EQ(result.timed, 20);
  EXPECT_EQ(result.why_all_tried, "0 near records have trials; expected at least 2");
}

TEST_F(NeighboursFirst, RecordsOfAnotherDriverDoNotCount) {
  tune_at(100, false);
  tune_at(150, false);
  device.facts_now["driver"] = "2";
  EXPECT_EQ(tune_at(120, true).timed, 20);
}

TEST_F(NeighboursFirst, DisagreementFallsBackToTheSearch) {
  tune_at(100, false);
  for (const int width : op.widths) scripts[width].time_us = 200 - scripts[width].time_us;
  tune_at(150, false);
  const TuneResult result = tune_at(120, true);
  EXPECT_EQ(result.timed, 20);
  EXPECT_EQ(result.why_all_tried, "the trials of 2 near records disagree");
}

TEST_F(NeighboursFirst, ForceUsesOtherRecordsOnly) {
  tune_at(100, false);
  tune_at(150, false);
  tune_at(120, false);
  options.force = true;
  const TuneResult result = tune_at(120, true);
  EXPECT_EQ(result.neighbours, 2);
  EXPECT_EQ(result.timed, 4);
}

// As row programs of a cost class do: each program has a problem class, and the trials of its own keys.
TEST_F(NeighboursFirst, ProblemsOfTheSameCostClassAreNeighbours) {
  struct Programs final : fakes::AddOneOp {
    KeyParts key(const Problem& of) const override {
      KeyParts parts = fakes::AddOneOp::key(of);
      parts.problem_class = "program " + std::to_string(of.fields.integer("in_place"));
      return parts;
    }
  };
  Programs programs;
  programs.widths = op.widths;
  programs.related_class = "costs alike";
  const auto tune_program = [&](std::int64_t program, std::int64_t cols) {
    return tune(*programs.parse(fakes::add_one_problem(64, cols, {{"in_place", program}})), bench(), options);
  };
  tune_program(0, 100);
  tune_program(0, 150);
  options.neighbours_first = true;
  const TuneResult result = tune_program(1, 100);
  EXPECT_EQ(result.neighbours, 2) << result.why_all_tried;
  EXPECT_EQ(winner(result), 14);
  EXPECT_LE(result.timed, 5) << "a fifth, and the winner of the class";
  programs.related_class = "costs otherwise";
  EXPECT_EQ(tune_program(1, 120).timed, 20);
}

}  // namespace
}  // namespace tunesmith
