// Processes that share a cache file and ask for the same new key: one of them compiles and tunes.

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <new>

#include "jit/cuda/measuring_lock.h"
#include "tests/api/engine/fakes.h"
#include "tuner/select.h"

namespace tunesmith {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// What the processes of a test share.
struct Shared {
  std::atomic<int> ready{0}, tuned{0}, compiled{0}, by_default{0}, warnings{0};
  std::atomic<bool> go{false}, stop{false};
  std::atomic<double> cpu_s{0};  ///< of all processes
};

class SharedWork : public testing::Test {
 protected:
  SharedWork() {
    shared_ = new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Shared;
    std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-shared-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~SharedWork() override {
    munmap(shared_, sizeof(Shared));
    std::filesystem::remove_all(folder_);
  }

  /// Runs `body` in a forked process that starts when all are ready.
  template <typename Body>
  pid_t start(const Body& body) {
    const pid_t process = fork();
    if (process != 0) return process;
    ++shared_->ready;
    while (!shared_->go) std::this_thread::sleep_for(1ms);
    try {
      body();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](timeval time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    shared_->cpu_s.fetch_add(seconds(used.ru_utime) + seconds(used.ru_stime));
    _exit(HasFailure() ? 1 : 0);
  }
  static bool finished_well(pid_t process) {
    int status = 0;
    return waitpid(process, &status, 0) == process && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  double run_all(const std::vector<pid_t>& processes) {
    while (shared_->ready < static_cast<int>(processes.size())) std::this_thread::sleep_for(1ms);
    const Clock::time_point start = Clock::now();
    shared_->go = true;
    for (const pid_t process : processes) EXPECT_TRUE(finished_well(process));
    return seconds_since(start);
  }

  /// An engine whose tuner takes `tuning_s`, and stores its result as the real one does. Its compiler takes 0.2 s.
  void make_engine(fakes::FakeEngine& fake, double tuning_s) {
    fake.compiler->takes = 200ms;
    Engine::Parts& parts = fake.engine->parts();
    parts.tuner_start_s = 1;
    parts.tuner = [this, &parts, tuning_s](const ParsedProblem& problem) -> std::optional<Tuned> {
      ++shared_->tuned;
      const Clock::time_point start = Clock::now();
      while (seconds_since(start) < tuning_s && !shared_->stop) std::this_thread::sleep_for(5ms);
      TuningRecord record;
      record.key = tuning_key(problem, parts.device->info(), parts.templates);
      record.config = problem.default_config(parts.device->info()).text();
      record.effort = "quick";
      parts.cache->store_record(record, {});
      return Tuned{problem.default_config(parts.device->info()), tuning_s, 0};
    };
  }
  void prepare(Mode mode, double tuning_s, const std::filesystem::path& file) {
    EngineOptions options = fakes::in_mode(mode);
    options.specialize = Specialize::exact;
    options.tune_budget_s = 1;
    fakes::FakeEngine fake(options, DeviceInfo::Kind::cuda, file);
    make_engine(fake, tuning_s);
    const Plan plan = fake.engine->prepare(SoftmaxProblem::contiguous(64, 1000, DType::f32));
    shared_->compiled += fake.compiler->compilations;
    if (plan.origin() == Origin::by_default) ++shared_->by_default;
    shared_->warnings += fake.logged("warning: ");
  }
  std::filesystem::path file() const { return folder_ / "cache.db"; }

  Shared* shared_ = nullptr;
  std::filesystem::path folder_;
};

TEST_F(SharedWork, EightProcessesTuneAndCompileOnce) {
  constexpr int processes = 8;
  constexpr double tuning_s = 1;
  // On a busy machine one round may be disturbed.
  double ratio = 0, slack_s = 0;
  for (int round = 0; round < 3; ++round) {
    const auto wall_s = [&](int count, const char* name) {
      new (shared_) Shared;
      std::vector<pid_t> started;
      for (int i = 0; i < count; ++i)
        started.push_back(start([&] { prepare(Mode::tune, tuning_s, folder_ / (std::to_string(round) + name)); }));
      const double wall = run_all(started);
      EXPECT_EQ(shared_->tuned, 1);
      EXPECT_EQ(shared_->compiled, 1);
      EXPECT_EQ(shared_->by_default, 0);
      EXPECT_EQ(shared_->warnings, 0);
      return wall;
    };
    const double alone_s = wall_s(1, "alone.db");
    const double together_s = wall_s(processes, "together.db");
    // All processes may share one core, and each looks for the two results every 25 ms.
    slack_s = shared_->cpu_s + 2 * 0.025;
    ratio = (together_s - slack_s) / alone_s;
    if (ratio <= 1.2) break;
  }
  EXPECT_LE(ratio, 1.2) << "beyond a slack of " << slack_s << " s";
}

TEST_F(SharedWork, SixtyFourThreadsOfEachOfEightProcessesTuneAndCompileOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no new threads after a fork";
#endif
  constexpr int processes = 8, threads = 64;
  double ratio = 0, slack_s = 0;
  for (int round = 0; round < 3; ++round) {
    const auto wall_s = [&](int count, int threads_each, const char* name) {
      new (shared_) Shared;
      std::vector<pid_t> started;
      for (int i = 0; i < count; ++i)
        started.push_back(start([&] {
          EngineOptions options = fakes::in_mode(Mode::tune);
          options.specialize = Specialize::exact;
          options.tune_budget_s = 1;
          fakes::FakeEngine fake(options, DeviceInfo::Kind::cuda, folder_ / (std::to_string(round) + name));
          make_engine(fake, 1);
          {
            std::vector<std::jthread> all;
            for (int thread = 0; thread < threads_each; ++thread)
              all.emplace_back([&] {
                const Plan plan = fake.engine->prepare(SoftmaxProblem::contiguous(64, 1000, DType::f32));
                if (plan.origin() == Origin::by_default) ++shared_->by_default;
              });
          }
          shared_->compiled += fake.compiler->compilations;
          shared_->warnings += fake.logged("warning: ");
        }));
      const double wall = run_all(started);
      EXPECT_EQ(shared_->tuned, 1);
      EXPECT_EQ(shared_->compiled, 1);
      EXPECT_EQ(shared_->by_default, 0);
      EXPECT_EQ(shared_->warnings, 0);
      return wall;
    };
    const double alone_s = wall_s(1, 1, "alone.db"), together_s = wall_s(processes, threads, "together.db");
    slack_s = shared_->cpu_s + 2 * 0.025;
    ratio = (together_s - slack_s) / alone_s;
    std::printf("  one process %.2f s, 8 processes with 64 threads each %.2f s, of which %.2f s of processor time\n",
                alone_s, together_s, slack_s);
    if (ratio <= 1.2) break;
  }
  EXPECT_LE(ratio, 1.2) << "beyond a slack of " << slack_s << " s";
}

TEST_F(SharedWork, AKilledOwnerIsReplaced) {
  const pid_t owner = start([&] { prepare(Mode::tune, 1000, file()); });
  shared_->go = true;
  while (shared_->tuned == 0) std::this_thread::sleep_for(1ms);
  const Clock::time_point before = Clock::now();
  const pid_t next = start([&] { prepare(Mode::tune, 0.01, file()); });
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(shared_->tuned, 1) << "it waits";
  kill(owner, SIGKILL);
  EXPECT_TRUE(finished_well(next));
  EXPECT_FALSE(finished_well(owner));
  EXPECT_EQ(shared_->tuned, 2);
  EXPECT_EQ(shared_->by_default, 0);
  EXPECT_LT(seconds_since(before), 10);
}

TEST_F(SharedWork, AnOwnerThatTakesTooLongIsNotWaitedFor) {
  const pid_t owner = start([&] { prepare(Mode::tune, 1000, file()); });
  shared_->go = true;
  while (shared_->tuned == 0) std::this_thread::sleep_for(1ms);
  const Clock::time_point before = Clock::now();
  const pid_t next = start([&] { prepare(Mode::tune, 0.01, file()); });
  EXPECT_TRUE(finished_well(next));
  EXPECT_GE(seconds_since(before), 3) << "1 s to start and twice the budget of 1 s";
  EXPECT_EQ(shared_->tuned, 1);
  EXPECT_EQ(shared_->by_default, 1);
  EXPECT_EQ(shared_->warnings, 1);
  shared_->stop = true;
  EXPECT_TRUE(finished_well(owner));
}

TEST_F(SharedWork, ModeLaterDoesNotWait) {
  const pid_t owner = start([&] { prepare(Mode::tune, 1000, file()); });
  shared_->go = true;
  while (shared_->tuned == 0) std::this_thread::sleep_for(1ms);
  EngineOptions options = fakes::in_mode(Mode::later);
  options.specialize = Specialize::exact;
  fakes::FakeEngine fake(options, DeviceInfo::Kind::cuda, file());
  make_engine(fake, 0.01);
  Engine& engine = *fake.engine;
  const SoftmaxProblem problem = SoftmaxProblem::contiguous(64, 1000, DType::f32);
  EXPECT_EQ(engine.prepare(problem).origin(), Origin::by_default);
  EXPECT_EQ(engine.tune_pending(100), 0u) << "another process tunes it";
  EXPECT_EQ(engine.tuning().pending_keys, 1);
  shared_->stop = true;
  EXPECT_TRUE(finished_well(owner));
  EXPECT_EQ(engine.tune_pending(100), 0u) << "it is done";
  EXPECT_EQ(engine.tuning().pending_keys, 0);
  EXPECT_EQ(engine.prepare(problem).origin(), Origin::exact);
  EXPECT_EQ(shared_->tuned, 1);
}

// While another process tunes a key, mode `later` takes the record of near columns.
TEST_F(SharedWork, ModeLaterTakesTheNearestRecordAtOnce) {
  EngineOptions options = fakes::in_mode(Mode::tune);
  options.specialize = Specialize::exact;
  {
    fakes::FakeEngine near(options, DeviceInfo::Kind::cuda, file());
    make_engine(near, 0.01);
    EXPECT_EQ(near.engine->prepare(SoftmaxProblem::contiguous(64, 1024, DType::f32)).origin(), Origin::tuned);
  }
  new (shared_) Shared;
  const pid_t owner = start([&] { prepare(Mode::tune, 1000, file()); });
  shared_->go = true;
  while (shared_->tuned == 0) std::this_thread::sleep_for(1ms);
  options.mode = Mode::later;
  fakes::FakeEngine fake(options, DeviceInfo::Kind::cuda, file());
  make_engine(fake, 0.01);
  const Clock::time_point before = Clock::now();
  EXPECT_EQ(fake.engine->prepare(SoftmaxProblem::contiguous(64, 1000, DType::f32)).origin(), Origin::nearest);
  EXPECT_LT(seconds_since(before), 3) << "compiled here, not waited for";
  shared_->stop = true;
  EXPECT_TRUE(finished_well(owner));
}

/// A GPU whose measurements wait for the measuring lock, but not long.
class LockedDevice : public fakes::ScriptedDevice {
 public:
  explicit LockedDevice(std::filesystem::path lock_folder) : lock_folder_(std::move(lock_folder)) {}
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2) override {
    const MeasuringLock lock(lock_folder_, "GPU-1", 50ms);
    return ScriptedDevice::time_us(works, flush_l2);
  }

 private:
  std::filesystem::path lock_folder_;
};

/// An engine that tunes on `device`, and the warnings of the engine and its cache.
struct TuningEngine {
  TuningEngine(std::shared_ptr<fakes::ScriptedDevice> device, const std::filesystem::path& cache_file) {
    auto parts = std::make_unique<Engine::Parts>();
    parts->options = fakes::in_mode(Mode::tune);
    parts->options.specialize = Specialize::exact;
    parts->options.tune_budget_s = 0.2;
    parts->options.log = [this](EngineOptions::Level level, const std::string& line) {
      if (level == EngineOptions::Level::warning) warnings.push_back(line);
    };
    parts->device = std::move(device);
    parts->compiler = std::make_shared<fakes::ScriptedCompiler>();
    CacheOptions cache;
    cache.file = cache_file;
    cache.warn = [this](const std::string& line) { warnings.push_back(line); };
    parts->cache = std::make_shared<Cache>(cache);
    engine = std::make_unique<Engine>(std::move(parts));
  }
  /// Runs a softmax of zeros and checks its result.
  void run(std::int64_t rows, std::int64_t cols) const {
    std::vector<float> x(static_cast<std::size_t>(rows * cols), 0.0f), y(x.size(), -1.0f);
    engine->softmax(x.data(), y.data(), SoftmaxProblem::contiguous(rows, cols, DType::f32));
    for (const float value : y) ASSERT_FLOAT_EQ(value, 1.0f / static_cast<float>(cols));
  }
  Origin origin(std::int64_t rows, std::int64_t cols) const {
    return engine->prepare(SoftmaxProblem::contiguous(rows, cols, DType::f32)).origin();
  }

  std::vector<std::string> warnings;
  std::unique_ptr<Engine> engine;
};

TEST_F(SharedWork, AHeldMeasuringLockLeavesTheDefault) {
  const pid_t holder = start([&] {
    const MeasuringLock lock(folder_, "GPU-1");
    ASSERT_TRUE(lock.across_processes());
    shared_->tuned = 1;
    while (!shared_->stop) std::this_thread::sleep_for(1ms);
  });
  shared_->go = true;
  while (shared_->tuned == 0) std::this_thread::sleep_for(1ms);

  const auto device = std::make_shared<LockedDevice>(folder_);
  const TuningEngine tuning(device, {});
  const Clock::time_point before = Clock::now();
  for (const std::int64_t cols : {1000, 2000}) tuning.run(1, cols);
  EXPECT_LT(seconds_since(before), 10);
  EXPECT_EQ(device->measurements, 0);
  EXPECT_EQ(tuning.engine->tuning().failed_keys, 2);
  ASSERT_EQ(tuning.warnings.size(), 1u);
  EXPECT_NE(tuning.warnings[0].find("another process has held the measuring lock"), std::string::npos) << tuning.warnings[0];

  shared_->stop = true;
  EXPECT_TRUE(finished_well(holder));
  EXPECT_EQ(tuning.origin(1, 3000), Origin::tuned);
}

TEST_F(SharedWork, AFullDiskLeavesTuningAndLaunchesAsTheyAre) {
  const std::filesystem::path disk = folder_ / "disk";
  std::filesystem::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0) GTEST_SKIP() << "no permission to mount a file system";
  std::ofstream(disk / "filler") << std::string(100'000, 'x');
  {
    const auto device = std::make_shared<fakes::ScriptedDevice>();
    const TuningEngine tuning(device, disk / "cache.db");
    EXPECT_EQ(tuning.origin(8, 1000), Origin::tuned);
    EXPECT_GT(device->measurements, 0);
    tuning.run(8, 1000);
    EXPECT_EQ(tuning.origin(7, 1000), Origin::exact) << "the result lasts for the process";
    EXPECT_EQ(tuning.engine->tuning().failed_keys, 0);
    ASSERT_EQ(tuning.warnings.size(), 1u);
    EXPECT_NE(tuning.warnings[0].find("full"), std::string::npos) << tuning.warnings[0];
  }
  EXPECT_EQ(umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace tunesmith
