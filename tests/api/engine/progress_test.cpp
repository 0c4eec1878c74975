// The callback for the progress of tuning: what it receives, and what an exception from it means.

#include <future>

#include "api/c/options.h"
#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

struct Step {
  std::string problem, what;
  int done, total;
  bool finished;
};

/// Thrown by a callback; the engine does not know it.
struct Stop : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class TuningProgressTest : public testing::Test {
 protected:
  /// An engine that records steps, and throws at step `stop_at` (1 is the first).
  EngineOptions options(Mode mode = Mode::tune) {
    EngineOptions options = fakes::in_mode(mode);
    options.progress = [this](const TuningProgress& at) {
      steps.push_back({at.problem.short_text(), at.what, at.done, at.total, at.finished});
      if (static_cast<int>(steps.size()) == stop_at) throw Stop("enough");
    };
    return options;
  }
  int finished() const { return static_cast<int>(std::ranges::count(steps, true, &Step::finished)); }

  const SoftmaxProblem softmax = SoftmaxProblem::contiguous(8, 100, DType::f32);
  std::vector<Step> steps;
  int stop_at = 0;
};

TEST_F(TuningProgressTest, EveryStepIsReportedAndTheEndOnce) {
  fakes::FakeEngine fake(options());
  EXPECT_EQ(fake.engine->prepare(softmax).origin(), Origin::tuned);
  ASSERT_GT(steps.size(), 3u);
  EXPECT_EQ(finished(), 1);
  EXPECT_TRUE(steps.back().finished);
  EXPECT_EQ(steps.back().what, "done");
  EXPECT_EQ(steps.back().done, steps.back().total);
  EXPECT_TRUE(std::ranges::is_sorted(steps, {}, &Step::done));
  EXPECT_EQ(steps.front().what, "verified");
  for (const Step& step : steps) {
    EXPECT_LE(step.done, step.total);
    EXPECT_NE(step.problem.find("softmax rows=8,cols=100"), std::string::npos) << step.problem;
  }
  const std::size_t before = steps.size();
  EXPECT_EQ(fake.engine->prepare(SoftmaxProblem::contiguous(7, 100, DType::f32)).origin(), Origin::exact);
  EXPECT_EQ(steps.size(), before) << "nothing was tuned";
}

TEST_F(TuningProgressTest, AnExceptionCancelsAndReachesTheCaller) {
  fakes::FakeEngine fake(options());
  for (stop_at = 1; stop_at <= 12; stop_at += 11) {  // while compiling; while timing
    steps.clear();
    EXPECT_THROW((void)fake.engine->prepare(softmax), Stop);
    EXPECT_EQ(static_cast<int>(steps.size()), stop_at) << "no call after the exception";
    EXPECT_EQ(fake.engine->tuning().pending_keys, 1);
    EXPECT_EQ(fake.engine->tuning().tuned_keys, 0);
    EXPECT_EQ(fake.engine->tuning().failed_keys, 0);
  }
  const PrepareOptions replay{.mode = Mode::replay, .specialize = Specialize::exact};
  EXPECT_EQ(fake.engine->prepare(softmax, replay).origin(), Origin::by_default) << "nothing was stored";
  stop_at = 0;
  EXPECT_EQ(fake.engine->prepare(softmax).origin(), Origin::tuned);
  EXPECT_EQ(fake.engine->tuning().pending_keys, 0);
}

TEST_F(TuningProgressTest, PendingKeysStayPending) {
  fakes::FakeEngine fake(options(Mode::later));
  (void)fake.engine->prepare(softmax);
  EXPECT_TRUE(steps.empty());
  stop_at = 1;
  EXPECT_THROW((void)fake.engine->tune_pending(10), Stop);
  EXPECT_EQ(fake.engine->tuning().pending_keys, 1);
  EXPECT_EQ(fake.engine->tune_pending(10), 1u);
  EXPECT_EQ(fake.engine->tuning().pending_keys, 0);
  EXPECT_EQ(finished(), 1);
}

TEST_F(TuningProgressTest, WaitingThreadsGetTheException) {
  fakes::FakeEngine fake(options());
  std::promise<void> tunes;
  std::future<void> waits;
  fake.engine->parts().tuner = {};
  fake.compiler->takes = std::chrono::milliseconds(20);
  stop_at = 1;
  waits = std::async(std::launch::async, [&] {
    tunes.get_future().wait();
    (void)fake.engine->prepare(softmax);
  });
  EngineOptions& live = fake.engine->parts().options;
  live.progress = [&, record = live.progress](const TuningProgress& at) {
    tunes.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    record(at);
  };
  EXPECT_THROW((void)fake.engine->prepare(softmax), Stop);
  live.progress = {};
  EXPECT_THROW(waits.get(), Stop);
}

TEST_F(TuningProgressTest, AFailureEndsTheReport) {
  fakes::FakeEngine fake(options());
  fake.engine->parts().tuner = [](const ParsedProblem&) -> std::optional<Tuned> {
    throw Error(ErrorCode::out_of_memory, "no room");
  };
  EXPECT_EQ(fake.engine->prepare(softmax).origin(), Origin::by_default);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].what, "failed");
  EXPECT_TRUE(steps[0].finished);
}

TEST(CApiProgress, ANonzeroReturnCancels) {
  struct Calls {
    int count = 0, ends = 0;
  } calls;
  tunesmith_options given{};
  given.struct_size = sizeof given;
  given.progress = [](const char* problem, int done, int total, const char* what, void* context) {
    Calls& seen = *static_cast<Calls*>(context);
    ++seen.count;
    seen.ends += what == nullptr ? 1 : 0;
    EXPECT_NE(std::string_view(problem).find("softmax"), std::string_view::npos);
    return done < total && seen.count > 3 && seen.ends == 0 ? 1 : 0;
  };
  given.progress_context = &calls;
  EngineOptions options = fakes::in_mode(Mode::tune);
  options.progress = options_from_c(&given).progress;
  fakes::FakeEngine fake(options);
  const SoftmaxProblem softmax = SoftmaxProblem::contiguous(8, 100, DType::f32);
  fakes::expect_error([&] { (void)fake.engine->prepare(softmax); }, ErrorCode::cancelled,
                      {"softmax rows=8,cols=100", "stopped by the callback"});
  EXPECT_EQ(calls.count, 4);
  calls = {.count = -1000, .ends = 0};
  EXPECT_EQ(fake.engine->prepare(softmax).origin(), Origin::tuned);
  EXPECT_EQ(calls.ends, 1);
}

}  // namespace
}  // namespace tunesmith
