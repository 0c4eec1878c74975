// Engine with a scripted device and compiler.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

#include "api/engine/parts.h"
#include "api/engine/plan_state.h"
#include "tests/api/engine/fakes.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

using fakes::expect_error;
using fakes::FakeEngine;
using fakes::in_mode;

SoftmaxProblem rows_of(std::int64_t rows, std::int64_t cols) { return SoftmaxProblem::contiguous(rows, cols, DType::f32); }

TEST(Engine, ThreadsThatPrepareTheSameKeyShareACompilation) {
  FakeEngine fake(in_mode(Mode::off));
  fake.compiler->takes = std::chrono::milliseconds(30);
  std::vector<const Plan::State*> states(8);
  {
    std::vector<std::jthread> threads;
    for (auto& state : states) threads.emplace_back([&] { state = &fake.engine->prepare(rows_of(8, 100)).state(); });
  }
  EXPECT_EQ(fake.compiler->compilations, 1);
  for (const Plan::State* state : states) EXPECT_EQ(state, states.front());
  EXPECT_EQ(fake.logged("compiled softmax rows=8,cols=100"), 1);
}

TEST(Engine, ProblemsThatDifferInRowsShareABinary) {
  FakeEngine fake(in_mode(Mode::off));
  const Plan first = fake.engine->prepare(rows_of(8, 100)), second = fake.engine->prepare(rows_of(9, 100));
  EXPECT_EQ(fake.compiler->compilations, 1);
  EXPECT_EQ(fake.device->loads, 1);
  EXPECT_NE(&first.state(), &second.state());
  EXPECT_EQ(&first.source(), &second.source());
  EXPECT_TRUE(first.compiled());
  EXPECT_GT(first.compile_ms(), 0);
  EXPECT_FALSE(second.compiled());
  EXPECT_EQ(second.compile_ms(), 0);
}

TEST(Engine, PlanReportsItsProperties) {
  FakeEngine fake(in_mode(Mode::off));
  const Plan plan = fake.engine->prepare(rows_of(8, 100), {.specialize = Specialize::exact});
  EXPECT_EQ(plan.problem().fields.integer("x_row_stride"), 100);  // normalized
  EXPECT_EQ(plan.origin(), Origin::by_default);
  EXPECT_EQ(plan.nearest_n_cols(), 0);
  EXPECT_EQ(plan.occupancy(), 4);
  EXPECT_EQ(plan.resources().substr(0, 13), "registers=40,");
  EXPECT_EQ(plan.bytes(), 2 * 8 * 100 * 4);
  EXPECT_GT(plan.flops(), 8 * 100);
  EXPECT_EQ(plan.tune_s(), 0);
  EXPECT_NE(plan.source().find(".cols = 100"), std::string::npos);
  EXPECT_FALSE(plan.config().variant().empty());
}

TEST(Engine, ConfigurationAndModeArePartOfThePlanKey) {
  FakeEngine fake(in_mode(Mode::off));
  const Problem problem = to_problem(rows_of(8, 2000));
  const Plan by_default = fake.engine->prepare(problem);
  const Plan pinned = fake.engine->prepare(problem, {.config = {parse_fields("variant=two_pass,threads=64", "config")}});
  const Plan replayed = fake.engine->prepare(problem, {.mode = Mode::replay});
  EXPECT_EQ(pinned.origin(), Origin::pinned);
  EXPECT_EQ(pinned.config().variant(), "two_pass");
  EXPECT_EQ(pinned.config().fields.integer("threads"), 64);
  EXPECT_NE(&by_default.state(), &pinned.state());
  EXPECT_NE(&by_default.state(), &replayed.state());
  // A complete configuration gives the same plan in every mode; so does the same problem in its generic form.
  EXPECT_EQ(&pinned.state(), &fake.engine->prepare(problem, {.config = pinned.config(), .mode = Mode::tune}).state());
  EXPECT_EQ(&by_default.state(), &fake.engine->prepare({"softmax", {{"cols", 2000}, {"rows", 8}}}).state());
}

TEST(Engine, AnotherTunerIsAskedOnlyWhereTheEngineWouldTune) {
  FakeEngine fake(in_mode(Mode::tune));
  std::vector<std::string> tuned;
  bool works = true;
  const Config winner{parse_fields("variant=two_pass,threads=64", "config")};
  fake.engine->parts().tuner = [&](const ParsedProblem& problem) -> std::optional<Tuned> {
    tuned.push_back(problem.problem().short_text());
    if (!works) return std::nullopt;
    return Tuned{problem.complete_config(fake.engine->device(), winner), 1.5};
  };
  const Plan plan = fake.engine->prepare(rows_of(8, 2000));
  EXPECT_EQ(plan.origin(), Origin::tuned);
  EXPECT_EQ(plan.config().variant(), "two_pass");
  EXPECT_EQ(plan.tune_s(), 1.5);
  EXPECT_EQ(fake.device->measurements, 0);  // the engine itself does not tune
  EXPECT_EQ(tuned.size(), 1u);
  works = false;
  EXPECT_EQ(fake.engine->prepare(rows_of(8, 3000)).origin(), Origin::by_default);
  EXPECT_EQ(tuned.size(), 2u);
  (void)fake.engine->prepare(rows_of(8, 4000), {.mode = Mode::replay});
  (void)fake.engine->prepare(rows_of(8, 4000), {.config = winner});
  (void)fake.engine->prepare(rows_of(0, 4000));
  EXPECT_EQ(tuned.size(), 2u);
}

TEST(Engine, ReportsAFailedCompilationAndRetries) {
  FakeEngine fake(in_mode(Mode::off));
  fake.compiler->fails = true;
  try {
    (void)fake.engine->prepare(rows_of(8, 100));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_EQ(error.log(), "line 1: no");
    EXPECT_EQ(error.source_path(), "dumped.cu");
  }
  fake.compiler->fails = false;
  EXPECT_NO_THROW((void)fake.engine->prepare(rows_of(8, 100)));
  EXPECT_EQ(fake.compiler->compilations, 2);
}

TEST(Engine, RecompilesACachedBinaryThatTheDeviceRejects) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-engine-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  (void)FakeEngine(in_mode(Mode::off), DeviceInfo::Kind::cuda, folder / "cache.db").engine->prepare(rows_of(8, 100));
  FakeEngine fake(in_mode(Mode::off), DeviceInfo::Kind::cuda, folder / "cache.db");
  fake.device->rejects_images = true;  // once
  const Plan plan = fake.engine->prepare(rows_of(8, 100));
  EXPECT_TRUE(plan.compiled());
  EXPECT_EQ(fake.compiler->compilations, 1);
  EXPECT_EQ(fake.logged("warning: the cached binary"), 1);
  std::filesystem::remove_all(folder);
}

TEST(Engine, DuringACaptureOnlyExistingPlansAreUsed) {
  FakeEngine fake(in_mode(Mode::off));
  DeviceBuffer memory(*fake.engine, 2 * 3200);
  auto* device_x = static_cast<float*>(memory.data());
  float* device_y = device_x + 800;
  std::fill_n(device_x, 1600, 1.0f);
  fake.engine->softmax(device_x, device_y, rows_of(8, 100));
  fake.device->capturing = true;
  EXPECT_NO_THROW(fake.engine->softmax(device_x, device_y, rows_of(8, 100)));
  EXPECT_NO_THROW((void)fake.engine->prepare(rows_of(8, 100)));
  EXPECT_EQ(fake.device->launches, 2);
  const int before = fake.compiler->compilations;
  expect_error([&] { fake.engine->softmax(device_x, device_y, rows_of(4, 50)); }, ErrorCode::capturing,
               {"rows=4,cols=50", "Engine::prepare", "before"});
  expect_error([&] { (void)fake.engine->prepare(rows_of(4, 50)); }, ErrorCode::capturing, {"rows=4,cols=50"});
  EXPECT_EQ(fake.compiler->compilations, before);
  EXPECT_EQ(fake.device->loads, 1);
  fake.device->capturing = false;
  EXPECT_NO_THROW(fake.engine->softmax(device_x, device_y, rows_of(4, 50)));
}

TEST(Engine, ZeroRowsCompileAndLaunchNothing) {
  FakeEngine fake(in_mode(Mode::tune));
  const Plan plan = fake.engine->prepare(rows_of(0, 100));
  plan.launch(nullptr, nullptr);
  fake.engine->softmax(nullptr, nullptr, rows_of(0, 100));
  alignas(16) float memory[2] = {};
  fake.engine->softmax(memory + 1, memory, rows_of(0, 100));
  EXPECT_EQ(fake.compiler->compilations, 0);
  EXPECT_EQ(fake.device->launches, 0);
  EXPECT_EQ(fake.device->measurements, 0);
  EXPECT_NE(plan.source().find(".cols = 100"), std::string::npos);
  EXPECT_EQ(plan.resources(), "");
}

TEST(Engine, OneShotCallsAreCorrectForAllAlignments) {
  FakeEngine fake(in_mode(Mode::off));
  constexpr int rows = 3, cols = 10;
  DeviceBuffer memory(*fake.engine, 4096);
  auto* base = static_cast<float*>(memory.data());
  for (const int x_offset : {0, 1, 2, 4})
    for (const int y_offset : {0, 1, 2, 4}) {
      float* x = base + x_offset;
      float* y = base + 512 + y_offset;
      for (int i = 0; i < rows * cols; ++i) x[i] = static_cast<float>(i % 7);
      fake.engine->softmax(x, y, rows_of(rows, cols));
      for (int r = 0; r < rows; ++r) EXPECT_NEAR(std::accumulate(y + r * cols, y + (r + 1) * cols, 0.0), 1, 1e-6);
    }
  fake.engine->softmax(base, base, rows_of(rows, cols));  // in place
  EXPECT_NEAR(std::accumulate(base, base + cols, 0.0), 1, 1e-6);
  void* const arrays[] = {base, base + 512};
  fake.engine->run({"softmax", {{"rows", rows}, {"cols", cols}}}, arrays);
  EXPECT_NEAR(std::accumulate(base + 512, base + 512 + cols, 0.0), 1, 1e-6);
}

// Whatever the cache file is, plans are made, launch, and compute what they should, with one warning.
TEST(Engine, NoFaultOfTheCacheFileFailsALaunch) {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "tunesmith-faults-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data()), healthy = folder / "healthy.db";
  { FakeEngine(in_mode(Mode::off), DeviceInfo::Kind::cuda, healthy).engine->prepare(rows_of(8, 100)); }
  const auto write = [](const fs::path& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    fs::permissions(file, fs::perms(0600));
  };
  std::stringstream stored;
  stored << std::ifstream(healthy, std::ios::binary).rdbuf();
  const std::string bytes = stored.str();
  ASSERT_GT(bytes.size(), 4096u);
  const fs::path garbage = folder / "garbage.db", cut = folder / "cut.db", newer = folder / "newer.db",
                 directory = folder / "directory.db", under_file = garbage / "cache.db";
  write(garbage, "no database\n" + std::string(5000, 'x'));
  write(cut, bytes.substr(0, bytes.size() / 2));
  std::string later = bytes;
  later[63] = 99;  // PRAGMA user_version is at 60, most significant byte first
  write(newer, later);
  fs::create_directory(directory);
  for (const fs::path& file : {garbage, cut, newer, directory, under_file}) {
    SCOPED_TRACE(file.string());
    int warnings = 0;
    CacheOptions options;
    options.file = file;
    options.warn = [&](const std::string&) { ++warnings; };
    FakeEngine fake(in_mode(Mode::off));
    fake.engine->parts().cache = std::make_shared<Cache>(options);
    const Plan plan = fake.engine->prepare(rows_of(8, 100));
    std::vector<float> x(800, 1.0F), y(800);
    plan.launch(x.data(), y.data());
    EXPECT_NEAR(y[0], 0.01, 1e-6);
    EXPECT_NEAR(y.back(), 0.01, 1e-6);
    EXPECT_EQ(warnings, 1);
  }
  fs::remove_all(folder);
}

TEST(Engine, PlansOutliveTheirEngine) {
  auto fake = std::make_unique<FakeEngine>(in_mode(Mode::off));
  const Plan plan = fake->engine->prepare(rows_of(2, 4));
  DeviceBuffer memory(*fake->engine, 64);
  const std::weak_ptr<Device> device = fake->device;
  fake.reset();
  ASSERT_FALSE(device.expired());
  auto* x = static_cast<float*>(memory.data());
  std::fill_n(x, 8, 1.0f);
  plan.launch(x, x + 8);
  EXPECT_FLOAT_EQ(x[8], 0.25f);
  EXPECT_NE(plan.source().find(".cols = 8"), std::string::npos) << "the bucket of 4 columns";
}

TEST(Engine, MeasuresOnlyInModeTuneOnAGpu) {
  const auto measurements = [](Mode mode, DeviceInfo::Kind kind) {
    FakeEngine fake(in_mode(mode), kind);
    (void)fake.engine->prepare(rows_of(8, 100));
    EXPECT_NE(fake.engine->prepare(rows_of(8, 2000), {.mode = Mode::off}).origin(), Origin::tuned);
    return fake.device->measurements.load();
  };
  EXPECT_EQ(measurements(Mode::replay, DeviceInfo::Kind::cuda), 0);
  EXPECT_EQ(measurements(Mode::off, DeviceInfo::Kind::cuda), 0);
  EXPECT_EQ(measurements(Mode::tune, DeviceInfo::Kind::host), 0);
  EXPECT_GT(measurements(Mode::tune, DeviceInfo::Kind::cuda), 0);
}

class TunedCache : public testing::Test {
 protected:
  TunedCache() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-engine-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    FakeEngine fake(in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder_ / "cache.db");
    const Plan plan = fake.engine->prepare(rows_of(8, 100));
    EXPECT_EQ(plan.origin(), Origin::tuned);
    EXPECT_GT(plan.tune_s(), 0);
    EXPECT_TRUE(plan.compiled());
    EXPECT_EQ(fake.logged("info: tuned softmax rows=8,cols=100"), 1);
  }
  ~TunedCache() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(TunedCache, AnotherProcessNeitherCompilesNorMeasures) {
  FakeEngine fake(in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  const Plan plan = fake.engine->prepare(rows_of(8, 100));
  EXPECT_EQ(plan.origin(), Origin::exact);
  EXPECT_FALSE(plan.compiled());
  EXPECT_EQ(plan.tune_s(), 0);
  EXPECT_EQ(fake.compiler->compilations, 0);
  EXPECT_EQ(fake.device->measurements, 0);
  EXPECT_EQ(fake.logged("info:"), 0);
}

TEST_F(TunedCache, ReplayUsesTheNearestAndOffTheDefault) {
  FakeEngine fake(in_mode(Mode::replay), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  const Plan nearest = fake.engine->prepare(rows_of(8, 96), {.specialize = Specialize::exact});
  EXPECT_EQ(nearest.origin(), Origin::nearest);
  EXPECT_EQ(nearest.nearest_n_cols(), 100);
  const Plan off = fake.engine->prepare(rows_of(8, 100), {.mode = Mode::off, .specialize = Specialize::exact});
  EXPECT_EQ(off.origin(), Origin::by_default);
  EXPECT_EQ(fake.device->measurements, 0);
}

TEST_F(TunedCache, UsesAStaleRecordAndReportsItOnce) {
  FakeEngine fake(in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  fake.device->driver = "2";
  EXPECT_EQ(fake.engine->prepare(rows_of(8, 100)).origin(), Origin::exact);
  EXPECT_EQ(fake.engine->prepare(rows_of(7, 100)).origin(), Origin::exact);
  EXPECT_EQ(fake.logged("another driver"), 1);
  EXPECT_EQ(fake.device->measurements, 0);
}

class OlderTemplates : public TunedCache {
 protected:
  OlderTemplates() {
    CacheOptions options;
    options.file = folder_ / "cache.db";
    Cache cache(options);
    TuningRecord record = cache.list_records().at(0);
    record.key.template_digest = "of last year";
    EXPECT_GT(cache.clear({}), 0);
    cache.store_record(record, {});
    config_ = record.config;
  }

  std::string config_;
};

TEST_F(OlderTemplates, ReplayUsesTheirRecord) {
  FakeEngine fake(in_mode(Mode::replay), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  const Plan plan = fake.engine->prepare(rows_of(8, 100));
  EXPECT_EQ(plan.origin(), Origin::older);
  EXPECT_EQ(name(plan.origin()), "older");
  EXPECT_EQ(plan.config().text(), config_);
  EXPECT_EQ(plan.nearest_n_cols(), 0);
  EXPECT_EQ(fake.device->measurements, 0);
  EXPECT_EQ(fake.logged("info: the record for softmax rows=8,cols=100"), 1);
}

TEST_F(OlderTemplates, TuneMeasuresAgain) {
  FakeEngine fake(in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  EXPECT_EQ(fake.engine->prepare(rows_of(8, 100)).origin(), Origin::tuned);
  FakeEngine next(in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  EXPECT_EQ(next.engine->prepare(rows_of(8, 100)).origin(), Origin::exact);
}

TEST_F(TunedCache, TheSourceIsTheOneThatWasCompiled) {
  const auto source_in = [&](FakeEngine& fake) {
    const Plan plan = fake.engine->prepare(rows_of(8, 100));
    fake.engine.reset();
    return plan.source();
  };
  FakeEngine first(in_mode(Mode::replay), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  const std::string rendered = source_in(first);
  EXPECT_NE(rendered.find(".cols = 100"), std::string::npos);

  // As if an earlier version with other comments had compiled it.
  const std::string stored = "// another comment\n" + rendered;
  {
    CacheOptions options;
    options.file = folder_ / "cache.db";
    Cache cache(options);
    for (const BinaryInfo& info : cache.list_binaries()) {
      BinaryRecord binary = cache.find_binary(info.fingerprint).value();
      if (cache.find_source(binary.source_hash) != rendered) continue;
      binary.source_hash = "of the other text";
      cache.store_binary(binary, stored);
    }
  }
  FakeEngine second(in_mode(Mode::replay), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  EXPECT_EQ(source_in(second), stored);
  EXPECT_EQ(second.compiler->compilations, 0);
}

TEST_F(TunedCache, PhasesDistinguishAWarmStartFromACompilation) {
  FakeEngine fake(in_mode(Mode::replay), DeviceInfo::Kind::cuda, folder_ / "cache.db");
  const Phases warm = fake.engine->prepare(rows_of(8, 100)).state().phases;
  for (const double phase_ms : {warm.select_ms, warm.digest_ms, warm.lookup_ms, warm.load_ms, warm.bind_ms})
    EXPECT_GT(phase_ms, 0);
  for (const double phase_ms : {warm.tune_ms, warm.render_ms, warm.compile_ms, warm.store_ms}) EXPECT_EQ(phase_ms, 0);
  const Phases cold = fake.engine->prepare(rows_of(8, 2000), {.mode = Mode::off}).state().phases;
  for (const double phase_ms : {cold.render_ms, cold.compile_ms, cold.store_ms, cold.load_ms}) EXPECT_GT(phase_ms, 0);
}

TEST(DeviceBuffer, CopiesOnlyWithinItsBounds) {
  FakeEngine fake(in_mode(Mode::off));
  {
    DeviceBuffer buffer(*fake.engine, 16);
    const std::int32_t in[4] = {1, 2, 3, 4};
    std::int32_t out[2] = {};
    buffer.copy_from_host(in, 16);
    buffer.copy_to_host(out, 8, 8);
    EXPECT_EQ(out[0], 3);
    EXPECT_EQ(out[1], 4);
    expect_error([&] { buffer.copy_to_host(out, 8, 12); }, ErrorCode::invalid_argument, {"8 bytes at offset 12", "16"});
    expect_error([&] { buffer.copy_from_host(in, 1, 17); }, ErrorCode::invalid_argument, {"offset 17"});
    expect_error([&] { buffer.copy_from_host(in, 2, SIZE_MAX); }, ErrorCode::invalid_argument, {"2 bytes"});
    DeviceBuffer moved = std::move(buffer);
    EXPECT_EQ(moved.bytes(), 16u);
    EXPECT_EQ(DeviceBuffer(*fake.engine, 0).data(), nullptr);
    EXPECT_EQ(fake.device->allocations, 1);
  }
  EXPECT_EQ(fake.device->allocations, 0);
}

}  // namespace
}  // namespace tunesmith
