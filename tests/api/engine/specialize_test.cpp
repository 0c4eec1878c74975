// Kernels for buckets of n_cols: which kernel the engine chooses, and that it needs few of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>

#include "api/dispatch/plan_table.h"
#include "api/engine/compile_ahead.h"
#include "api/engine/config_choices.h"
#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

using fakes::expect_error;
using fakes::FakeEngine;

EngineOptions options_of(Specialize specialize, Mode mode = Mode::replay, std::uint32_t exact_after = 1000) {
  EngineOptions options = fakes::in_mode(mode);
  options.specialize = specialize;
  options.exact_after = exact_after;
  options.compile_ahead_jobs = 0;
  return options;
}

/// Returns options of mode tune whose share allows no tuning on first use.
EngineOptions tuning_later(Specialize specialize) {
  EngineOptions options = options_of(specialize, Mode::tune);
  options.tune_share = 0;
  options.tune_allowance_s = 0;
  return options;
}

SoftmaxProblem softmax_for(std::int64_t cols, std::int64_t rows = 4) {
  return SoftmaxProblem::contiguous(rows, cols, DType::f32);
}

/// Runs a softmax of four rows in one call and checks the sums of the rows.
void run_and_check(Engine& engine, std::int64_t cols) {
  std::vector<float> x(static_cast<std::size_t>(4 * cols)), y(x.size(), -1.0f);
  std::iota(x.begin(), x.end(), -static_cast<float>(x.size()));
  engine.softmax(x.data(), y.data(), softmax_for(cols));
  for (std::int64_t row = 0; row < 4; ++row)
    ASSERT_NEAR(std::accumulate(y.begin() + row * cols, y.begin() + (row + 1) * cols, 0.0), 1, 1e-5) << cols;
}

TEST(Specialize, CapacityServesABucketWithOneKernel) {
  FakeEngine fake(options_of(Specialize::capacity));
  for (std::int64_t cols = 1028; cols <= 1536; cols += 4) {
    const Plan plan = fake.engine->prepare(softmax_for(cols));
    EXPECT_EQ(plan.origin(), Origin::capacity);
    EXPECT_EQ(plan.capacity(), 1536);
    EXPECT_EQ(plan.problem().fields.integer("cols"), cols);
  }
  EXPECT_EQ(fake.compiler->compilations, 1);
  EXPECT_EQ(fake.device->loads, 1);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1024)).capacity(), 1024);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1540)).capacity(), 2048);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1029)).capacity(), 1505);
  EXPECT_EQ(fake.compiler->compilations, 4) << "1029 columns are another alignment class";
}

TEST(Specialize, ExactHasAKernelForEachWidth) {
  FakeEngine fake(options_of(Specialize::exact));
  for (const std::int64_t cols : {1028, 1032, 1536}) {
    const Plan plan = fake.engine->prepare(softmax_for(cols));
    EXPECT_EQ(plan.origin(), Origin::by_default);
    EXPECT_EQ(plan.capacity(), 0);
  }
  EXPECT_EQ(fake.compiler->compilations, 3);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1028), {.specialize = Specialize::capacity}).capacity(), 1536);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1028)).capacity(), 0);
}

// Whatever was prepared before, a width gets the same kernel.
TEST(Specialize, ExactAndCapacityDoNotDependOnWhatWasAskedBefore) {
  for (const Specialize specialize : {Specialize::exact, Specialize::capacity}) {
    FakeEngine first(options_of(specialize, Mode::replay, 2)), second(options_of(specialize, Mode::replay, 2));
    for (int i = 0; i < 5; ++i)
      for (const std::int64_t cols : {1029, 1536, 1100}) run_and_check(*second.engine, cols);
    for (const std::int64_t cols : {1032, 1100, 1536}) {
      const Plan a = first.engine->prepare(softmax_for(cols)), b = second.engine->prepare(softmax_for(cols));
      EXPECT_EQ(a.config(), b.config());
      EXPECT_EQ(a.source(), b.source());
    }
  }
}

/// Returns the bits of a softmax of four random rows on the host executor.
std::vector<float> softmax_on_host(Engine& engine, std::int64_t cols) {
  std::mt19937 random(7);
  std::normal_distribution<float> number(0, 3);
  std::vector<float> x(static_cast<std::size_t>(4 * cols)), y(x.size(), -1.0f);
  std::ranges::generate(x, [&] { return number(random); });
  engine.softmax(x.data(), y.data(), softmax_for(cols));
  return y;
}

// The kernels themselves, on the host executor: a new engine, and one that has run other widths, kernels of the other kind
// and the width itself often.
TEST(Specialize, ExactAndCapacityGiveTheSameBitsWhateverWasAskedBefore) {
  constexpr std::int64_t cols = 258;  // 16 lanes share a row in its own kernel, 32 in its bucket's
  std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-bits-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  std::array<std::vector<float>, 2> of_kinds;
  for (const Mode mode : {Mode::off, Mode::tune})
    for (const Specialize specialize : {Specialize::exact, Specialize::capacity}) {
      EngineOptions options = options_of(specialize, mode, 2);
      options.device = "host";
      options.cache_file = folder / "cache.db";  // binaries only: compiled once for all engines
      options.shipped_cache.clear();
      options.system_caches.clear();
      Engine first(options), second(options);
      for (int i = 0; i < 3; ++i) {
        softmax_on_host(second, 270);
        second.prepare(softmax_for(cols), {.specialize = Specialize::automatic});
        second.prepare(softmax_for(cols),
                       {.specialize = specialize == Specialize::exact ? Specialize::capacity : Specialize::exact});
      }
      const std::vector<float> a = softmax_on_host(first, cols), b = softmax_on_host(second, cols);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << name(mode);
      std::vector<float>& of_kind = of_kinds[specialize == Specialize::exact ? 0 : 1];
      if (of_kind.empty()) of_kind = a;
      EXPECT_EQ(std::memcmp(a.data(), of_kind.data(), a.size() * sizeof(float)), 0) << "in every mode without records";
    }
  EXPECT_NE(std::memcmp(of_kinds[0].data(), of_kinds[1].data(), of_kinds[0].size() * sizeof(float)), 0)
      << "the kernels of both kinds round alike here, so this test could not see which one ran";
  std::filesystem::remove_all(folder);
}

// As documented: `exact` names the kind of kernel. Which configuration it has follows from the records, of other widths,
// too.
TEST(Specialize, ExactFollowsRecordsAndCapacityDoesNot) {
  FakeEngine fake(tuning_later(Specialize::exact));
  Engine& engine = *fake.engine;
  engine.parts().tuner = [](const ParsedProblem&) -> std::optional<Tuned> {
    return Tuned{
        {parse_fields("variant=two_pass,threads=96,unroll=2,blocks_per_sm=0,load=plain,load_again=plain,store=plain",
                      "config")},
        1,
        0};
  };
  const auto threads_of = [&](std::int64_t cols, Mode mode) {
    return engine.prepare(softmax_for(cols), {.mode = mode}).config().fields.integer("threads");
  };
  const Config of_bucket = engine.prepare(softmax_for(1100), {.specialize = Specialize::capacity}).config();
  const std::int64_t by_default = threads_of(1100, Mode::tune);
  EXPECT_EQ(engine.tune_pending(10), 1u);
  EXPECT_EQ(threads_of(1100, Mode::tune), 96);
  EXPECT_EQ(threads_of(1100, Mode::off), by_default) << "mode off reads no records";
  EXPECT_NE(by_default, 96);
  EXPECT_EQ(engine.prepare(softmax_for(1100), {.specialize = Specialize::capacity}).config(), of_bucket);

  // A width without a record takes the record of the nearest width.
  FakeEngine near(options_of(Specialize::exact, Mode::replay));
  const auto origin = [&](std::int64_t cols) { return near.engine->prepare(softmax_for(cols)).origin(); };
  EXPECT_EQ(origin(2000), Origin::by_default);
  TuningRecord record;
  const ParsedProblemPtr neighbour = find_op("softmax").parse(to_problem(softmax_for(1100)));
  record.key = tuning_key(*neighbour, near.device->info(), near.engine->parts().templates);
  record.config = neighbour->default_config(near.device->info()).text();
  near.engine->parts().cache->store_record(record, {});
  EXPECT_EQ(origin(1104), Origin::nearest);
  EXPECT_EQ(near.engine->prepare(softmax_for(1104), {.specialize = Specialize::capacity}).origin(), Origin::capacity);
}

TEST(Specialize, AutoGivesAWidthItsKernelWhenItIsUsedOften) {
  FakeEngine fake(options_of(Specialize::automatic, Mode::replay, 3));
  Engine& engine = *fake.engine;
  const Plan kept = engine.prepare(softmax_for(1100));
  EXPECT_EQ(kept.origin(), Origin::capacity);
  EXPECT_EQ(engine.prepare(softmax_for(1100)).origin(), Origin::capacity);
  EXPECT_EQ(engine.prepare(softmax_for(1104)).origin(), Origin::capacity);
  const Plan own = engine.prepare(softmax_for(1100));
  EXPECT_EQ(own.origin(), Origin::by_default);
  EXPECT_EQ(own.capacity(), 0);
  EXPECT_EQ(kept.origin(), Origin::capacity) << "a plan that the caller holds does not change";
  EXPECT_EQ(kept.capacity(), 1536);
  EXPECT_EQ(engine.prepare(softmax_for(1104)).origin(), Origin::capacity);
  EXPECT_EQ(engine.prepare(softmax_for(1104)).origin(), Origin::by_default);
}

TEST(Specialize, AutoCountsOneShotCallsButNotDuringACapture) {
  FakeEngine fake(options_of(Specialize::automatic, Mode::off, 4));
  Engine& engine = *fake.engine;
  for (int i = 0; i < 3; ++i) run_and_check(engine, 1100);
  EXPECT_EQ(fake.compiler->compilations, 1);
  fake.device->capturing = true;
  for (int i = 0; i < 10; ++i) run_and_check(engine, 1100);
  fake.device->capturing = false;
  EXPECT_EQ(fake.compiler->compilations, 1);
  for (int i = 0; i < 3; ++i) run_and_check(engine, 1100);
  EXPECT_EQ(fake.compiler->compilations, 2);
  EXPECT_EQ(engine.prepare(softmax_for(1100)).capacity(), 0);
  EXPECT_EQ(engine.prepare(softmax_for(1096)).capacity(), 1536);

  FakeEngine never(options_of(Specialize::automatic, Mode::off, 0));
  for (int i = 0; i < 5000; ++i) run_and_check(*never.engine, 100);
  EXPECT_EQ(never.compiler->compilations, 1);
}

// Also when the engine has dropped what it knew about the width, because it has seen more others than it keeps.
TEST(Specialize, AutoCountsAWidthAmongManyOthers) {
  EngineOptions options = options_of(Specialize::automatic, Mode::off, 20);
  options.plan_capacity = 8;
  FakeEngine fake(options);
  for (std::int64_t i = 1; i <= 19; ++i) {
    run_and_check(*fake.engine, 1100);
    run_and_check(*fake.engine, 4 * i);
  }
  EXPECT_EQ(fake.engine->prepare(softmax_for(1104)).capacity(), 1536);
  run_and_check(*fake.engine, 1100);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1100)).capacity(), 0);
}

TEST(Specialize, AutoIsExactForWidthsWithRecords) {
  FakeEngine fake(options_of(Specialize::automatic, Mode::replay));
  Engine::Parts& parts = fake.engine->parts();
  const ParsedProblemPtr problem = find_op("softmax").parse(to_problem(softmax_for(1100)));
  TuningRecord record;
  record.key = tuning_key(*problem, parts.device->info(), parts.templates);
  record.config = "variant=two_pass,threads=96,unroll=2,blocks_per_sm=0,load=plain,load_again=plain,store=plain";
  parts.cache->store_record(record, {});
  const Plan plan = fake.engine->prepare(softmax_for(1100));
  EXPECT_EQ(plan.origin(), Origin::exact);
  EXPECT_EQ(plan.config().fields.integer("threads"), 96);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1104)).origin(), Origin::capacity) << "the record is not taken as the nearest";
  EXPECT_EQ(fake.engine->prepare(softmax_for(1100), {.specialize = Specialize::capacity}).origin(), Origin::capacity);
}

// In mode tune, widths are tuned while the share allows it; the others run at once and are tuned on request.
TEST(Specialize, AutoTunesWithinTheShare) {
  FakeEngine fake(tuning_later(Specialize::automatic));
  Engine& engine = *fake.engine;
  engine.parts().tuner = [&](const ParsedProblem& problem) -> std::optional<Tuned> {
    return Tuned{problem.default_config(fake.device->info()), 1, 0};
  };
  EXPECT_EQ(engine.prepare(softmax_for(1100)).origin(), Origin::capacity);
  EXPECT_EQ(engine.tuning().pending_keys, 1);
  EXPECT_EQ(engine.tune_pending(1), 1u);
  EXPECT_EQ(engine.prepare(softmax_for(1100)).origin(), Origin::exact);
  EXPECT_EQ(engine.tuning().pending_keys, 0);
}

TEST(Specialize, WithoutACompilerTheBinaryOfTheWidthIsUsed) {
  FakeEngine fake(options_of(Specialize::automatic, Mode::off));
  Engine& engine = *fake.engine;
  engine.prepare(softmax_for(1100), {.specialize = Specialize::exact});
  struct NoCompiler : fakes::ScriptedCompiler {
    Binary compile(const CompileRequest&) const override { throw Error(ErrorCode::no_compiler, "no compiler here"); }
  };
  engine.parts().compiler = std::make_shared<NoCompiler>();
  EXPECT_EQ(engine.prepare(softmax_for(1100)).capacity(), 0);
  expect_error([&] { engine.prepare(softmax_for(1104)); }, ErrorCode::no_compiler, {"no compiler here"});
}

TEST(Specialize, OtherOperationsAndPinnedConfigurationsStayAsTheyAre) {
  FakeEngine fake(options_of(Specialize::capacity));
  const CrossEntropyBackwardProblem gradient = CrossEntropyBackwardProblem::contiguous(4, 1100, DType::f32);
  EXPECT_EQ(fake.engine->prepare(gradient).origin(), Origin::by_default);
  const Config pinned{parse_fields("variant=two_pass,threads=256", "config")};
  const Plan plan = fake.engine->prepare(softmax_for(1100), {.config = pinned});
  EXPECT_EQ(plan.origin(), Origin::pinned);
  EXPECT_EQ(plan.capacity(), 1536);
  EXPECT_EQ(fake.engine->prepare(softmax_for(1100), {.config = pinned, .specialize = Specialize::exact}).capacity(), 0);
  expect_error([&] { fake.engine->prepare(softmax_for(1100), {.config = {parse_fields("capacity=2048", "config")}}); },
               ErrorCode::invalid_argument, {"capacity is 2048; rows of 1100 columns have 1536"});
}

TEST(Specialize, AnyMixOfWidthsNeedsFewKernels) {
  EngineOptions options = options_of(Specialize::automatic, Mode::replay);
  options.compile_ahead_jobs = 8;
  FakeEngine fake(options);
  std::mt19937_64 random(5);
  std::uniform_int_distribution<std::int64_t> width(1, 131072 / 4);
  for (int i = 0; i < 3000; ++i)
    fake.engine->prepare(softmax_for(4 * std::max<std::int64_t>(1, width(random) >> (i % 16)), 256));
  fake.engine->parts().compile_ahead->wait();
  EXPECT_LE(fake.compiler->compilations, 40);
  EXPECT_LE(fake.device->loads, 40);
  EXPECT_GT(fake.compiler->compilations, 20);
}

TEST(Specialize, RowProgramsRunInKernelsOfBuckets) {
  FakeEngine fake(options_of(Specialize::automatic, Mode::replay));
  const auto layer_norm_of = [](std::int64_t cols) {
    return find_op("layer_norm").normalize({"layer_norm", {{"rows", std::int64_t{256}}, {"cols", cols}}});
  };
  const Plan first = fake.engine->prepare(layer_norm_of(1100));
  EXPECT_EQ(first.origin(), Origin::capacity);
  for (std::int64_t cols = 1104; cols <= 1536; cols += 4) fake.engine->prepare(layer_norm_of(cols));
  EXPECT_EQ(fake.compiler->compilations, 1);
  EXPECT_EQ(fake.engine->prepare(layer_norm_of(1540)).origin(), Origin::capacity);
  EXPECT_EQ(fake.compiler->compilations, 2);
}

TEST(Specialize, ANewWidthOfAKnownCapacityNeedsNeitherCacheNorCompilerNorLoader) {
  FakeEngine fake(options_of(Specialize::automatic, Mode::replay));
  const auto prepare_ms = [&](std::int64_t cols) {
    const Phases& phases = fake.engine->prepare(softmax_for(cols)).state().phases;
    return phases.select_ms + phases.tune_ms + phases.digest_ms + phases.lookup_ms + phases.load_ms;
  };
  EXPECT_GT(prepare_ms(1600), 0);
  for (std::int64_t cols = 1604; cols <= 2048; cols += 4) EXPECT_EQ(prepare_ms(cols), 0) << cols;
  EXPECT_EQ(fake.device->loads, 1);
  EXPECT_EQ(fake.engine->parts().plans->modules.size(), 1u);
}

}  // namespace
}  // namespace tunesmith
