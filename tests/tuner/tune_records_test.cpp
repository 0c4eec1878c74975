// Tuning runs that find records, of the same problem or of others.

#include "tests/tuner/tune_fixture.h"
#include "tuner/select.h"

namespace tunesmith {
namespace {

using fakes::width_in;

TEST_F(Tune, SecondRunReusesTheRecord) {
  scripts[4].time_us = 5;
  const TuneResult first = tune_now();
  const std::size_t timed = device.timed.size();
  const TuneResult second = tune_now();
  EXPECT_EQ(device.timed.size(), timed);
  EXPECT_EQ(second.record.config, first.record.config);
  EXPECT_EQ(second.trials.size(), 4u);
  EXPECT_EQ(second.compiled + second.verified + second.timed, 0);

  options.force = true;
  const TuneResult forced = tune_now();
  EXPECT_GT(device.timed.size(), timed);
  EXPECT_EQ(forced.compiled, 2) << "the binaries of the winner and of the default were stored";
  EXPECT_EQ(forced.timed, 4);
}

TEST_F(Tune, NewCandidateDoesNotRequireMeasuringTheOthers) {
  scripts[4].time_us = 5;
  tune_now();
  device.timed.clear();
  op.widths.push_back(16);
  scripts[16].time_us = 4;
  const TuneResult result = tune_now();
  EXPECT_EQ(winner(result), 16);
  EXPECT_EQ(std::set<int>(device.timed.begin(), device.timed.end()), (std::set{1, 4, 16}));
  EXPECT_EQ(result.trials.size(), 5u);
  EXPECT_EQ(status(result, 8), "timed") << "from the first run";
  EXPECT_EQ(result.candidates, 5);
  EXPECT_EQ(result.timed, 3);
  EXPECT_EQ(cache.find_trials(result.record.key).size(), 5u);
}

TEST_F(Tune, FullRunExtendsAQuickOne) {
  options.effort = Effort::quick;
  scripts[2].time_us = 5;
  EXPECT_EQ(tune_now().record.effort, "quick");
  device.timed.clear();
  options.effort = Effort::full;
  EXPECT_EQ(tune_now().record.effort, "full");
  EXPECT_EQ(std::set<int>(device.timed.begin(), device.timed.end()), (std::set{1, 2, 8}));
  device.timed.clear();
  options.effort = Effort::quick;
  EXPECT_EQ(tune_now().record.effort, "full");
  EXPECT_TRUE(device.timed.empty());
}

TEST_F(Tune, QuickRunIncludesTheShippedWinner) {
  scripts[8].time_us = 5;  // not in the quick space
  TuningRecord shipped;
  shipped.key = tuning_key(*op.parse(problem), device.info(), templates);
  shipped.config = fakes::AddOneOp::config(8).text();
  shipped.effort = "full";
  shipped.problem = problem.text();
  shipped.provenance = device.provenance();
  cache.store_record(shipped, {});
  options.effort = Effort::quick;
  const TuneResult quick = tune_now();
  EXPECT_EQ(winner(quick), 8);
  EXPECT_EQ(quick.timed, 4);
  EXPECT_EQ(quick.record.effort, "quick");
  op.widths.push_back(16);
  options.effort = Effort::full;
  EXPECT_EQ(tune_now().record.effort, "full");
}

TEST_F(Tune, IncludesTheWinnerOfOlderTemplates) {
  scripts[8].time_us = 5;  // not in the quick space
  EXPECT_EQ(winner(tune_now()), 8);
  templates = write_templates("two");
  options.effort = Effort::quick;
  const TuneResult again = tune_now();
  EXPECT_EQ(winner(again), 8);
  EXPECT_EQ(again.timed, 4) << "everything is measured again";
  EXPECT_EQ(again.trials.size(), 4u) << "none of the older trials counts";
  options.force = true;
  EXPECT_EQ(winner(tune_now()), 1);
}

TEST_F(Tune, ReportsWhetherItCompiledTheWinner) {
  compiler.takes = std::chrono::milliseconds(5);
  scripts[4].time_us = 5;
  const TuneResult first = tune_now();
  EXPECT_TRUE(first.winner_compiled);
  EXPECT_GE(first.winner_compile_ms, 5);
  options.force = true;
  const TuneResult second = tune_now();
  EXPECT_EQ(second.compiled, 2) << "only the default's and the winner's binaries were kept";
  EXPECT_FALSE(second.winner_compiled);
  EXPECT_EQ(second.winner_compile_ms, 0);
}

TEST_F(Tune, MeasuresInvalidAndForcedStaleRecordsAgain) {
  const TuneResult first = tune_now();
  TuningRecord broken = first.record;
  broken.config = "nonsense";
  cache.store_record(broken, {});
  device.timed.clear();
  EXPECT_EQ(winner(tune_now()), 1);
  EXPECT_EQ(std::set<int>(device.timed.begin(), device.timed.end()), (std::set{1, 2, 4, 8}));

  device.timed.clear();
  device.facts_now["driver"] = "2";
  tune_now();
  EXPECT_TRUE(device.timed.empty()) << "a stale record is used as long as it is complete";
  op.widths.push_back(16);
  tune_now();
  EXPECT_EQ(std::set<int>(device.timed.begin(), device.timed.end()), (std::set{1, 2, 4, 8, 16}));
}

// Versions that chose some candidates by records with near shapes stored the number of these records.
TEST_F(Tune, MeasuresWhatAnOlderVersionLeftOut) {
  TuningRecord chosen;
  chosen.key = tuning_key(*op.parse(problem), device.info(), templates);
  chosen.config = fakes::AddOneOp::config(1).text();
  chosen.median_us = 10;
  chosen.effort = "full";
  chosen.problem = problem.text();
  chosen.provenance = device.provenance();
  chosen.provenance["neighbours"] = "2";
  chosen.provenance["candidates"] = "2 of 4";
  cache.store_record(chosen, {{fakes::AddOneOp::config(1).text(), "timed", 10, 0.1, 20, ""},
                              {fakes::AddOneOp::config(2).text(), "timed", 11, 0.1, 20, ""}});
  EXPECT_EQ(select(*op.parse(problem), device.info(), templates, cache, Mode::replay, {}).origin, Origin::exact);
  scripts[8].time_us = 5;
  const TuneResult later = tune_now();
  EXPECT_EQ(winner(later), 8);
  EXPECT_EQ(later.timed, 3) << "the two that were left out, and the recorded winner, which is the default";
  EXPECT_EQ(later.trials.size(), 4u);
  EXPECT_FALSE(later.record.provenance.contains("neighbours"));
}

// As row programs of a cost class do.
TEST_F(Tune, ARelatedProblemStartsFromTheWinner) {
  op.related_class = "costs alike";
  scripts[4].time_us = 5;
  EXPECT_EQ(winner(tune_now()), 4);
  op.problem_class = "another";
  const auto chosen = [&] { return select(*op.parse(problem), device.info(), templates, cache, Mode::replay, {}); };
  EXPECT_EQ(chosen().origin, Origin::nearest);
  EXPECT_EQ(width_in(chosen().config.text()), 4);
  device.rounds.clear();
  tune_now();
  EXPECT_EQ(device.rounds.front().at(1), 4) << "tried right after the default";
  EXPECT_EQ(chosen().origin, Origin::exact);
  op.problem_class = "a third";
  op.related_class = "costs otherwise";
  EXPECT_EQ(chosen().origin, Origin::by_default);
}

}  // namespace
}  // namespace tunesmith
