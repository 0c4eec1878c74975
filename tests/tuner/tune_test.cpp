// Complete tuning runs with a scripted device.

#include <set>

#include "tests/tuner/tune_fixture.h"
#include "tunesmith/version.h"

namespace tunesmith {
namespace {

using fakes::add_one;
using fakes::AddOneParams;

TEST_F(Tune, FindsTheWinnerDespiteNoise) {
  for (int width = 1; width <= 12; ++width) scripts[width] = {.time_us = 100.0 + width, .noise = 0.05};
  scripts[8].time_us = 90;
  add_widths(12);
  const TuneResult result = tune_now();
  EXPECT_EQ(winner(result), 8);
  EXPECT_NEAR(result.record.median_us, 90 * 1.034, 4);
  EXPECT_NEAR(result.record.default_median_us, 101 * 1.034, 4);
  EXPECT_GT(result.record.mad_us, 0);
  EXPECT_EQ(result.candidates, static_cast<int>(op.widths.size()));
  EXPECT_EQ(result.compiled, result.candidates);
  EXPECT_EQ(result.verified, result.candidates);
  EXPECT_EQ(result.timed, result.candidates);
  EXPECT_TRUE(device.flushed_always);
  EXPECT_FALSE(device.timed_on_nan);
  EXPECT_GE(trial(result, 8).samples, 20);
}

TEST_F(Tune, RecordDescribesItsMeasurement) {
  scripts[4].time_us = 5;
  const TuneResult result = tune_now();
  const auto stored = cache.find_record(tuning_key(*op.parse(problem), device.info(), templates));
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->config, "variant=plain,width=4");
  EXPECT_EQ(stored->median_us, 5);
  EXPECT_EQ(stored->default_median_us, 10);
  EXPECT_EQ(stored->problem, problem.text());
  EXPECT_EQ(stored->bytes, 2 * 64 * 100 * 4);
  EXPECT_EQ(stored->effort, "full");
  EXPECT_EQ(stored->provenance.at("driver"), "1");
  EXPECT_EQ(stored->provenance.at("compiler"), "scripted 1");
  EXPECT_EQ(stored->provenance.at("tunesmith"), TUNESMITH_VERSION);
  EXPECT_EQ(stored->provenance.at("samples"), std::to_string(trial(result, 4).samples));
  EXPECT_FALSE(stored->provenance.contains("drift"));
  EXPECT_FALSE(stored->provenance.contains("repeats"));
  EXPECT_GT(stored->created_unix_s, 1'600'000'000);
  EXPECT_EQ(cache.find_trials(stored->key).size(), 4u);
  EXPECT_EQ(result.record.config, stored->config);
}

TEST_F(Tune, NeverTimesAWrongCandidate) {
  scripts[4] = {.time_us = 1, .kernel = [](const AddOneParams& p, int) {
                  add_one(p);
                  p.y[p.row_stride] = 0;
                }};
  const TuneResult result = tune_now();
  EXPECT_EQ(status(result, 4), "wrong");
  EXPECT_EQ(trial(result, 4).reason, "y[1,0] is wrong");
  EXPECT_EQ(device.times_timed(4), 0);
  EXPECT_EQ(winner(result), 1);
  EXPECT_EQ(result.verified, 3);
}

TEST_F(Tune, TrialsRecordWhyACandidateFailed) {
  add_widths(9);
  scripts[2].compile_fails = true;
  scripts[4].launch_fails = true;
  scripts[8].occupancy = 0;
  scripts[9].timed_launch_fails = true;
  const TuneResult result = tune_now();
  EXPECT_EQ(status(result, 2), "compile_failed");
  EXPECT_EQ(trial(result, 2).reason, "add_one.cu does not compile");
  EXPECT_EQ(status(result, 4), "launch_failed");
  EXPECT_EQ(trial(result, 4).reason, "launch of width 4 failed");
  EXPECT_EQ(status(result, 8), "rejected");
  EXPECT_EQ(status(result, 9), "launch_failed") << "it failed while timing; the others continue";
  EXPECT_EQ(status(result, 1), "timed");
  EXPECT_EQ(result.timed, 1);
  EXPECT_EQ(winner(result), 1);
}

constexpr const char* serialized_log =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
    "ptxas info    : Compiling entry function 'add_one' for 'sm_90a'\n";

TEST_F(Tune, DoesNotTimeACandidateWithSerializedWgmma) {
  scripts[4] = {.time_us = 1, .log = serialized_log};
  scripts[8] = {.time_us = 2, .log = "ptxas info    : (C7600) something else, (C75) and C7510\n"};
  const TuneResult result = tune_now();
  EXPECT_EQ(status(result, 4), "rejected");
  EXPECT_EQ(trial(result, 4).reason,
            "the compiler breaks the pipeline: (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
            "serialized");
  EXPECT_EQ(device.times_timed(4), 0);
  EXPECT_EQ(winner(result), 8) << "other messages are ignored";
  EXPECT_EQ(result.verified, 3);
  for (const Trial& kept : cache.find_trials(result.record.key)) {
    if (kept.config == fakes::AddOneOp::config(4).text()) {
      EXPECT_EQ(kept.reason, trial(result, 4).reason);
    }
  }
}

TEST_F(Tune, DoesNotTimeACandidateThatSpillsTooMuch) {
  scripts[2] = {.time_us = 2, .spill_bytes = 100};
  scripts[4] = {.time_us = 1, .spill_bytes = 104};
  EXPECT_EQ(winner(tune_now()), 4) << "without a bound the time decides";
  op.spill_bound = 100;
  options.force = true;
  const TuneResult result = tune_now();
  EXPECT_EQ(winner(result), 2);
  EXPECT_EQ(status(result, 4), "rejected");
  EXPECT_EQ(trial(result, 4).reason, "kernel add_one spills 104 bytes; at most 100 are allowed");
  op.spill_bound = 7;
  EXPECT_EQ(trial(tune_now(), 8).reason, "kernel add_one spills 8 bytes; at most 7 are allowed")
      << "spill loads count as well";
}

TEST_F(Tune, TimesADefaultWithSerializedWgmmaAndRecordsIt) {
  scripts[1] = {.time_us = 5, .log = serialized_log};
  const TuneResult result = tune_now();
  EXPECT_EQ(winner(result), 1);
  EXPECT_EQ(status(result, 1), "timed");
  EXPECT_TRUE(trial(result, 1).reason.starts_with("the compiler breaks the pipeline: (C7510)"));
}

TEST_F(Tune, ChecksTheStoredLogOfACachedBinary) {
  scripts[4] = {.time_us = 1, .log = serialized_log};
  build_binary({*op.parse(problem), fakes::AddOneOp::config(4), templates}, device.info().arch, compiler, cache);
  const TuneResult result = tune_now();
  EXPECT_EQ(result.compiled, 3);
  EXPECT_EQ(status(result, 4), "rejected");
}

TEST_F(Tune, FailsIfTheDefaultFails) {
  scripts[1].compile_fails = true;
  fakes::expect_error([&] { tune_now(); }, ErrorCode::compile_failed, "does not compile");
  scripts[1] = {.kernel = [](const AddOneParams&, int) {}};
  fakes::expect_error([&] { tune_now(); }, ErrorCode::verification_failed, "y[0,0] is not written");
  scripts[1] = {.launch_fails = true};
  fakes::expect_error([&] { tune_now(); }, ErrorCode::device_failed, "launch of width 1");
  scripts[1] = {.timed_launch_fails = true};
  fakes::expect_error([&] { tune_now(); }, ErrorCode::device_failed, "launch of width 1");
  EXPECT_EQ(cache.info().records, 0);
}

TEST_F(Tune, FailsIfACandidateMakesTheDeviceUnusable) {
  scripts[4].kills_device = true;
  options.jobs = 1;
  fakes::expect_error([&] { tune_now(); }, ErrorCode::device_failed, "variant=plain,width=4 made the device unusable");
  EXPECT_EQ(cache.info().records, 0);
}

TEST_F(Tune, RespectsTheBudget) {
  add_widths(100);
  compiler.takes = std::chrono::milliseconds(30);  // 3 s in total
  options.jobs = 1;
  options.budget_s = 0.8;
  const TuneResult result = tune_now();
  EXPECT_LT(result.wall_s, 2.5);
  EXPECT_LT(result.compiled, 40);
  EXPECT_GT(result.timed, 1);
  EXPECT_EQ(status(result, 100), "none") << "candidates that were not reached have no trial";
  EXPECT_EQ(status(result, 1), "timed");

  options.budget_s = 60;
  compiler.takes = {};
  op.widths.erase(op.widths.begin() + 20, op.widths.end() - 1);
  const TuneResult rest = tune_now();
  EXPECT_EQ(status(rest, 100), "timed");
  EXPECT_GE(rest.trials.size(), op.widths.size());
}

// Each run of a kernel takes a second, and each round of timing two.
TEST_F(Tune, DividesTheBudgetOnAScriptedClock) {
  double now_s = 1000;
  options.now_s = [&] { return now_s; };
  options.jobs = 1;
  options.force = true;
  device.on_timing = [&] { now_s += 2; };
  add_widths(50);
  for (const int width : op.widths)
    scripts[width].kernel = [&](const fakes::AddOneParams& p, int) {
      now_s += 1;
      fakes::add_one(p);
    };

  options.budget_s = 20;
  TuneResult result = tune_now();
  EXPECT_EQ(result.verified, 6) << "the first candidates that take more than half of the budget, in two runs each";
  // A warm-up and two rounds begin within 70% of the 8 s that are left. The default is timed five times whatever the budget.
  EXPECT_EQ(device.rounds.size(), 1u + 2u + 5u);
  EXPECT_EQ(result.wall_s, now_s - 1000);
  EXPECT_LE(result.wall_s, tuning_limit_s(options.budget_s, 0));

  now_s = 1000;
  device.rounds.clear();
  options.budget_s = 400;
  result = tune_now();
  EXPECT_EQ(result.verified, static_cast<int>(op.widths.size()));
  EXPECT_NEAR(result.wall_s, options.budget_s, 2) << "a final that is cut off by the budget";
}

TEST_F(Tune, QuickEffortLeavesMoreTimeForCompiling) {
  add_widths(200);
  compiler.takes = std::chrono::milliseconds(50);
  options.jobs = 1;
  options.budget_s = 4;
  options.force = true;
  const auto compiled = [&](Effort effort) {
    options.effort = effort;
    return tune_now().compiled;
  };
  EXPECT_GT(compiled(Effort::quick), compiled(Effort::full));  // 2.5 s and 2 s
}

TEST_F(Tune, MeasuresTheDefaultRegardlessOfTheBudget) {
  compiler.takes = std::chrono::milliseconds(20);
  for (const double budget_s : {0.0, 1e-6}) {
    options.budget_s = budget_s;
    options.force = true;
    const TuneResult result = tune_now();
    EXPECT_EQ(winner(result), 1);
    EXPECT_EQ(result.record.median_us, 10);
    EXPECT_GE(trial(result, 1).samples, 5);
  }
}

TEST_F(Tune, QuickEffortTimesSlowKernelsLessOften) {
  options.effort = Effort::quick;
  device.on_timing = [] { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  const TuneResult result = tune_now();
  EXPECT_LT(device.rounds.size(), 14u) << "64 without a limit";
  EXPECT_GE(trial(result, 1).samples, 5);
  EXPECT_EQ(result.record.effort, "quick");
  EXPECT_EQ(status(result, 8), "none") << "not in the quick search space";
}

TEST_F(Tune, CancellationStoresNothing) {
  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  device.on_timing = [&] { cancel = true; };
  fakes::expect_error([&] { tune_now(); }, ErrorCode::cancelled, "cancelled");
  EXPECT_EQ(device.rounds.size(), 1u);
  EXPECT_EQ(cache.info().records, 0);

  device.on_timing = nullptr;
  cancel = false;
  add_widths(100);
  compiler.takes = std::chrono::milliseconds(5);
  options.progress = [&](int done, int, const std::string&) { cancel = done >= 3; };
  const int compiled_before = compiler.compilations;
  fakes::expect_error([&] { tune_now(); }, ErrorCode::cancelled, "cancelled");
  EXPECT_LT(compiler.compilations - compiled_before, 20) << "while compiling";
}

TEST_F(Tune, MemoryCapReducesTheMeasuredRows) {
  problem = fakes::add_one_problem(4096, 100);
  options.memory_cap_bytes = 1'000'000;
  const TuneResult result = tune_now();
  EXPECT_EQ(device.timed_params.rows, 1'000'000 / 800);
  EXPECT_EQ(result.record.problem, fakes::add_one_problem(1250, 100).text());
  EXPECT_EQ(result.record.bytes, 1250 * 800);
  EXPECT_EQ(result.record.key.rows_bucket, 4096) << "the key is that of the requested problem";
}

TEST_F(Tune, DoesNotStoreAnUpperBoundOfWork) {
  struct Overcounting final : fakes::AddOneOp {
    Cost cost(const Problem& problem) const override {
      Cost most = AddOneOp::cost(problem);
      most.overcounted = "elements that may be left out";
      return most;
    }
  };
  const Overcounting overcounting;
  EXPECT_EQ(tune(*overcounting.parse(problem), bench(), options).record.bytes, 0);
}

TEST_F(Tune, TunesARelatedProblemIfInputsCannotBeGenerated) {
  struct OutOfPlace final : fakes::AddOneOp {
    Problem tuned_as(const Problem& problem) const override {
      Problem other = problem;
      other.fields.set("in_place", std::int64_t{0});
      return other;
    }
  };
  problem = fakes::add_one_problem(64, 100, {{"in_place", std::int64_t{1}}});
  const TuneResult result = tune(*OutOfPlace().parse(problem), bench(), options);
  EXPECT_NE(device.timed_params.x, device.timed_params.y);
  EXPECT_EQ(result.record.problem, fakes::add_one_problem(64, 100).text());
}

TEST_F(Tune, TimesInPlaceProblemsInPlace) {
  problem = fakes::add_one_problem(64, 100, {{"in_place", std::int64_t{1}}});
  tune_now();
  EXPECT_EQ(device.timed_params.x, device.timed_params.y);
}

TEST_F(Tune, ProgressIsMonotonicAndFromTheTuningThread) {
  const auto tuning_thread = std::this_thread::get_id();
  int last = -1, total = 0, calls = 0;
  options.progress = [&](int done, int of, const std::string& what) {
    EXPECT_EQ(std::this_thread::get_id(), tuning_thread);
    EXPECT_GE(done, last);
    EXPECT_LE(done, of);
    EXPECT_FALSE(what.empty());
    EXPECT_TRUE(calls == 0 || of == total);
    ++calls;
    last = done;
    total = of;
  };
  add_widths(12);
  tune_now();
  EXPECT_GT(calls, 20);
  EXPECT_EQ(last, total);
}

TEST_F(Tune, CompilesCandidatesInParallel) {
  add_widths(16);
  compiler.takes = std::chrono::milliseconds(5);
  options.jobs = 4;
  const TuneResult result = tune_now();
  EXPECT_GT(compiler.max_at_once, 1);
  EXPECT_LE(compiler.max_at_once, 4);
  EXPECT_GE(result.compile_s, 0.005 * result.compiled);
}

TEST_F(Tune, CompilesWhileItWaitsForTheDevice) {
  add_widths(8);
  int waited = 0, compiled = 0;
  options.budget_s = 0.4;
  options.before_device = [&] {
    ++waited;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_GT(compiler.compilations, 0);
    EXPECT_EQ(device.allocated_bytes, 0) << "the device was used";
    EXPECT_EQ(compiled, 0);
  };
  options.compiled = [&] {
    ++compiled;
    EXPECT_TRUE(device.timed.empty());
  };
  const TuneResult result = tune_now();
  EXPECT_EQ(waited, 1);
  EXPECT_EQ(compiled, 1);
  EXPECT_GT(result.timed, 1) << "waiting does not use the budget up";

  options.compiled = options.before_device = [] { ADD_FAILURE() << "there is nothing to measure"; };
  EXPECT_EQ(tune_now().compiled, 0);
}

TEST_F(Tune, ARecordThatIsMadeWhileItWaitsForTheDeviceIsUsed) {
  TuningRecord made;
  options.before_device = [&] {
    TuneOptions other = options;
    other.before_device = {};
    made = tune(*op.parse(problem), bench(), other).record;
  };
  const TuneResult result = tune_now();
  EXPECT_EQ(result.timed, 0) << "another process has tuned the key";
  EXPECT_EQ(result.record.median_us, made.median_us);
}

TEST_F(Tune, ARunThatIsCancelledWhileItWaitsForTheDeviceEnds) {
  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  options.before_device = [&] { cancel = true; };
  fakes::expect_error([&] { tune_now(); }, ErrorCode::cancelled, "nothing was stored");
  EXPECT_TRUE(device.timed.empty());
}

TEST_F(Tune, UsesCachedBinariesWithoutACompiler) {
  options.effort = Effort::quick;
  scripts[4].time_us = 5;
  tune_now();
  compiler.is_absent = compiler.has_no_identity = true;
  options.effort = Effort::full;
  options.force = true;
  const TuneResult result = tune_now();
  EXPECT_EQ(result.timed, 2) << "the default and the winner, whose binaries were stored";
  EXPECT_EQ(status(result, 8), "none") << "it was not tried";
  EXPECT_EQ(result.record.provenance.at("compiler"), "none");
}

TEST_F(Tune, RejectsADeviceWithoutAClock) {
  device.cannot_time = true;
  fakes::expect_error([&] { tune_now(); }, ErrorCode::unsupported, "no clock");
  device.facts().kind = DeviceInfo::Kind::host;
  const int compiled_before = compiler.compilations;
  fakes::expect_error([&] { tune_now(); }, ErrorCode::unsupported, "needs a GPU");
  EXPECT_EQ(compiler.compilations, compiled_before) << "before any work";
}

TEST_F(Tune, RejectsAProblemWithoutWork) {
  problem = fakes::add_one_problem(0, 100);
  fakes::expect_error([&] { tune_now(); }, ErrorCode::invalid_argument, "nothing to tune");
}

}  // namespace
}  // namespace tunesmith
