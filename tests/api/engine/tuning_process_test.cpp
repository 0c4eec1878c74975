// Tuning in a child process: what a child that answers, fails, crashes or hangs means for the caller. The child is this test
// program, which behaves as a variable says.

#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "api/engine/child_process.h"
#include "api/engine/tune_apart.h"
#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr const char* behavior_variable = "TUNESMITH_TEST_TUNING_PROCESS";
constexpr const char* answer_variable = "TUNESMITH_TEST_ANSWER";

std::string own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::ranges::replace(text, '\0', ' ');
  return text;
}

/// In the child: never gets as far as its tests.
[[maybe_unused]] const bool is_child = [] {
  const char* const behavior = std::getenv(behavior_variable);
  if (behavior == nullptr) return false;
  const std::string_view text = behavior;
  if (text == "crashes") {
    std::signal(SIGSEGV, SIG_DFL);  // sanitizers report it and exit instead
    raise(SIGSEGV);
  }
  if (text == "is terminated") raise(SIGTERM);  // as by whoever watches over processes
  if (text == "hangs") {
    std::signal(SIGTERM, SIG_IGN);
    if (const std::string file = std::getenv(answer_variable); !file.empty()) std::ofstream(file) << "ready";
    for (;;) pause();
  }
  if (text == "says nothing") _exit(3);
  if (text == "reports and waits") {
    std::puts(progress_text(1, 17, "verified").c_str());
    std::fflush(stdout);
    for (;;) pause();
  }
  if (text == "answers") {
    // Says nothing if it does not get the problem and the engine's options.
    const std::string arguments = own_arguments();
    for (const char* expected :
         {"tune attention --here --brief ", "--option seq_q=1 ", "--option score_mod=__device__ float ", "--device cuda:0 ",
          "--effort quick ", "--budget 0.1s "})
      if (arguments.find(expected) == std::string::npos) _exit(4);
    for (const auto& [variable, value] : {std::pair("TUNESMITH_CACHE", ""), {"TUNESMITH_SYSTEM_CACHE", "/a.db:/b.db"}})
      if (std::getenv(variable) == nullptr || std::getenv(variable) != std::string_view(value)) _exit(5);
    std::puts("something that a library prints");
    std::puts(progress_text(3, 17, "4 candidates in the running").c_str());
    std::puts(std::getenv(answer_variable));
  }
  std::fflush(stdout);
  _exit(0);
}();

/// This program with a behavior, for as long as the object lives.
class Behavior {
 public:
  explicit Behavior(const char* behavior, const std::string& answer = "") {
    setenv(behavior_variable, behavior, 1);
    setenv(answer_variable, answer.c_str(), 1);
  }
  ~Behavior() { unsetenv(behavior_variable); }
  Behavior(const Behavior&) = delete;
  Behavior& operator=(const Behavior&) = delete;
};

AttentionProblem with_user_function(std::int64_t seq_kv = 64) {
  AttentionProblem problem;
  problem.seq_q = 1;
  problem.seq_kv = seq_kv;
  problem.head_dim = 64;
  problem.dtype = DType::f32;
  problem.score_mod =
      "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) { return score; }\n";
  return problem;
}

class TuningProcess : public testing::Test {
 protected:
  static EngineOptions options() {
    EngineOptions options = fakes::in_mode(Mode::tune);
    options.tuner_program = "/proc/self/exe";
    options.tune_budget_s = 0.1;
    options.tune_share = 1;
    options.system_caches = {"/a.db"};
    options.shipped_cache = "/b.db";
    return options;
  }
  explicit TuningProcess(const EngineOptions& options = TuningProcess::options()) : fake(options) {
    fake.engine->parts().tuner_start_s = 0.3;
  }
  /// Prepares twice; expects the default configuration, one warning with this text, and one child.
  void expect_default_and_warning(std::string_view text) {
    EXPECT_EQ(fake.engine->prepare(with_user_function()).origin(), Origin::by_default);
    EXPECT_EQ(fake.logged("warning: "), 1);
    EXPECT_EQ(fake.logged(text), 1) << fake.log.back();
    EXPECT_EQ(fake.engine->tuning().failed_keys, 1);
    EXPECT_EQ(fake.engine->prepare(with_user_function(63)).origin(), Origin::by_default);
    EXPECT_EQ(fake.engine->tuning().failed_keys, 1) << "a failed key is not tried again";
    EXPECT_EQ(fake.device->measurements, 0) << "nothing is measured in this process";
  }
  std::string default_config() {
    return find_op("attention").parse(to_problem(with_user_function()))->default_config(fake.device->info()).text();
  }

  fakes::FakeEngine fake;
};

TEST_F(TuningProcess, ItsAnswerIsUsed) {
  const Config config{parse_fields(default_config(), "config")};
  const Behavior behavior("answers", answer_text(Tuned{config, 0.5, 20}));
  const Plan plan = fake.engine->prepare(with_user_function());
  EXPECT_EQ(plan.origin(), Origin::tuned);
  EXPECT_EQ(plan.config(), config);
  EXPECT_EQ(plan.tune_s(), 0.5);
  EXPECT_EQ(fake.engine->prepare(with_user_function(63)).origin(), Origin::exact);
  EXPECT_EQ(fake.logged("warning: "), 0);
}

TEST_F(TuningProcess, WhatDisturbedItIsLogged) {
  const std::string cause = "clocks fell from 1980 to 1620 MHz: power cap; other processes use the GPU: pids 7, 1234";
  const Behavior behavior("answers", answer_text(Tuned{{parse_fields(default_config(), "config")}, 0.5, 20, cause}));
  fake.engine->prepare(with_user_function());
  EXPECT_EQ(fake.logged("disturbed: " + cause), 1);
}

TEST_F(TuningProcess, ItsProgressIsReported) {
  const Behavior behavior("answers", answer_text(Tuned{{parse_fields(default_config(), "config")}, 0.5, 20}));
  std::vector<std::string> steps;
  fake.engine->parts().options.progress = [&](const TuningProgress& at) {
    steps.push_back(std::to_string(at.done) + "/" + std::to_string(at.total) + " " + at.what);
  };
  EXPECT_EQ(fake.engine->prepare(with_user_function()).origin(), Origin::tuned);
  EXPECT_EQ(steps, (std::vector<std::string>{"3/17 4 candidates in the running", "17/17 done"}));
}

TEST_F(TuningProcess, AnExceptionFromTheCallbackStopsIt) {
  const Behavior behavior("reports and waits");
  fake.engine->parts().tuner_start_s = 60;
  fake.engine->parts().options.progress = [](const TuningProgress&) { throw std::logic_error("enough"); };
  const Clock::time_point start = Clock::now();
  EXPECT_THROW((void)fake.engine->prepare(with_user_function()), std::logic_error);
  EXPECT_LT(Clock::now() - start, 30s);
  EXPECT_EQ(fake.engine->tuning().pending_keys, 1);
  EXPECT_EQ(fake.logged("warning: "), 0);
}

TEST_F(TuningProcess, ItsErrorIsReported) {
  const Behavior behavior("answers", answer_text(Error(ErrorCode::out_of_memory, "no room, not even for 1 byte")));
  expect_default_and_warning("no room, not even for 1 byte");
}

TEST_F(TuningProcess, AWrongDefaultIsAnError) {
  const Behavior behavior("answers", answer_text(Error(ErrorCode::verification_failed, "the default is wrong")));
  fakes::expect_error([&] { fake.engine->prepare(with_user_function()); }, ErrorCode::verification_failed,
                      {"the default is wrong"});
}

TEST_F(TuningProcess, ACrashLeavesTheDefault) {
  const Behavior behavior("crashes");
  expect_default_and_warning("a candidate crashed");
}

TEST_F(TuningProcess, ATerminatedProcessLeavesTheDefault) {
  const Behavior behavior("is terminated");
  expect_default_and_warning("ended with signal Terminated");
}

// As when another process holds the measuring lock, or the child got a SIGINT of the terminal.
TEST_F(TuningProcess, ACancelledProcessLeavesTheDefault) {
  const Behavior behavior("answers", answer_text(Error(ErrorCode::cancelled, "tuning was cancelled after 0.1 s")));
  expect_default_and_warning("tuning was cancelled after 0.1 s");
  EXPECT_EQ(fake.engine->tuning().pending_keys, 0);
}

TEST_F(TuningProcess, AHangIsKilledInTime) {
  const Behavior behavior("hangs");
  const Clock::time_point start = Clock::now();
  expect_default_and_warning("never ended: the tuning process was killed after 0.5 s");
  EXPECT_GE(Clock::now() - start, 500ms);
  EXPECT_LT(Clock::now() - start, 30s);
}

TEST_F(TuningProcess, SilenceAndGarbageLeaveTheDefault) {
  {
    const Behavior behavior("says nothing");
    expect_default_and_warning("exit code 3");
  }
  for (const char* answer : {"no fields at all", "config=variant%3Dunknown,wall_s=1,compile_ms=1", "wall_s=1"}) {
    fakes::FakeEngine other(options());
    const Behavior behavior("answers", answer);
    EXPECT_EQ(other.engine->prepare(with_user_function()).origin(), Origin::by_default) << answer;
    EXPECT_EQ(other.logged("warning: "), 1) << answer;
  }
}

TEST_F(TuningProcess, AMissingProgramLeavesTheDefault) {
  EngineOptions without = options();
  without.tuner_program.clear();
  fakes::FakeEngine other(without);
  EXPECT_EQ(other.engine->prepare(with_user_function()).origin(), Origin::by_default);
  EXPECT_EQ(other.logged("TUNESMITH_TUNER"), 1);
  without.tuner_program = "/no/such/program";
  fakes::FakeEngine wrong(without);
  EXPECT_EQ(wrong.engine->prepare(with_user_function()).origin(), Origin::by_default);
  EXPECT_EQ(wrong.logged("cannot run '/no/such/program'"), 1);
}

TEST_F(TuningProcess, OtherProblemsAreTunedHereUnlessIsolated) {
  const Behavior behavior("crashes");
  const SoftmaxProblem softmax = SoftmaxProblem::contiguous(4, 64, DType::f32);
  EXPECT_EQ(fake.engine->prepare(softmax).origin(), Origin::tuned);
  EXPECT_GT(fake.device->measurements, 0);
  EngineOptions isolated = options();
  isolated.isolate_tuning = true;
  fakes::FakeEngine other(isolated);
  EXPECT_EQ(other.engine->prepare(softmax).origin(), Origin::by_default);
  EXPECT_EQ(other.device->measurements, 0);
}

TEST(UserSource, IsNoticed) {
  EXPECT_TRUE(has_user_source(*find_op("attention").parse(to_problem(with_user_function()))));
  AttentionProblem plain = with_user_function();
  plain.score_mod.clear();
  EXPECT_FALSE(has_user_source(*find_op("attention").parse(to_problem(plain))));
  EXPECT_FALSE(has_user_source(*find_op("softmax").parse(to_problem(SoftmaxProblem::contiguous(4, 64, DType::f32)))));
}

TEST(Child, OneThatIsAskedToStopAndDoesNotIsKilled) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-child-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(pattern.data());
  const Behavior behavior("hangs", (folder / "ready").string());
  ChildCommand command{.program = "/proc/self/exe"};
  command.stop = [&] { return std::filesystem::exists(folder / "ready"); };
  command.grace = 300ms;
  const Clock::time_point start = Clock::now();
  const ChildExit child = run_child(command);
  EXPECT_EQ(child.signal, SIGKILL);
  EXPECT_FALSE(child.hung);
  std::filesystem::remove_all(folder);
  EXPECT_GE(Clock::now() - start, 300ms);
}

TEST(Child, ItsOutputAndExitCodeAreCollected) {
  const Behavior behavior("says nothing");
  const ChildExit child = run_child({.program = "/proc/self/exe"});
  EXPECT_EQ(child.code, 3);
  EXPECT_EQ(child.signal, 0);
  EXPECT_EQ(child.out, "");
}

}  // namespace
}  // namespace tunesmith
