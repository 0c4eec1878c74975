// Tuning a list of problems on several GPUs: who tunes what, and what a failure does. Without a GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "api/cli/tuning/gpus.h"
#include "api/cli/tuning/prewarm.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

std::vector<SpecProblem> some_problems(int count) {
  std::vector<SpecProblem> problems;
  for (int i = 1; i <= count; ++i)
    problems.push_back({{"softmax", {{"rows", std::int64_t{4}}, {"cols", std::int64_t{i}}}}, ""});
  return problems;
}

/// Records requests; answers like a child that measured.
struct Tuners {
  std::mutex mutex;
  std::map<std::string, std::set<std::int64_t>> cols_of;  ///< by device
  std::set<int> jobs;

  Json tune(const TuneRequest& request) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::lock_guard lock(mutex);
    cols_of[request.device].insert(request.problem.fields.integer("cols"));
    jobs.insert(request.jobs);
    return {{"measured", true}};
  }
};

TEST(Gpus, AreAllOrSome) {
  EXPECT_EQ(parse_gpus("all", 3), (std::vector<std::string>{"cuda:0", "cuda:1", "cuda:2"}));
  EXPECT_EQ(parse_gpus("2,0,2", 3), (std::vector<std::string>{"cuda:2", "cuda:0"}));
  for (const char* wrong : {"3", "-1", "x", "", "0;1", "1.0"}) {
    try {
      parse_gpus(wrong, 3);
      ADD_FAILURE() << "'" << wrong << "' was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("allowed: all, or numbers from 0 to 2"), std::string::npos) << error.what();
    }
  }
}

TEST(Gpus, ShareTheCompileThreads) {
  EXPECT_EQ(compile_threads_per_gpu(12, 3), 4);
  EXPECT_EQ(compile_threads_per_gpu(7, 2), 3);
  EXPECT_EQ(compile_threads_per_gpu(2, 3), 1);
  EXPECT_EQ(compile_threads_per_gpu(12, 3, 1), 4) << "what is asked for is not reduced";
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_EQ(compile_threads_per_gpu(0, 1), cores);
  EXPECT_EQ(compile_threads_per_gpu(0, 1, 1), std::max(1, cores - 1));
  EXPECT_EQ(compile_threads_per_gpu(0, static_cast<std::size_t>(cores) + 1), 1);
}

TEST(TuneAhead, EveryProblemIsTunedOnceAndEveryGpuWorks) {
  Tuners tuners;
  PrewarmSettings settings;
  settings.devices = {"cuda:0", "cuda:1", "cuda:2"};
  settings.jobs = 12;
  const PrewarmResult result =
      tune_ahead(some_problems(30), settings, {}, [&](const TuneRequest& request) { return tuners.tune(request); });
  EXPECT_EQ(result.done, 30);
  EXPECT_EQ(result.made, 30);
  EXPECT_TRUE(result.failures.empty());
  std::set<std::int64_t> all;
  std::size_t sum = 0;
  ASSERT_EQ(tuners.cols_of.size(), 3u);
  for (const auto& [device, cols] : tuners.cols_of) {
    all.insert(cols.begin(), cols.end());
    sum += cols.size();
    EXPECT_GE(cols.size(), 3u) << device << " did less than a third of its share";
  }
  EXPECT_EQ(all.size(), 30u);
  EXPECT_EQ(sum, 30u) << "a problem was tuned twice";
  EXPECT_EQ(tuners.jobs, std::set<int>{4}) << "the GPUs share the compile threads";
}

TEST(TuneAhead, OneGpuIsTheEnginesAndHasAllCoresButOne) {
  Tuners tuners;
  EngineOptions options;
  options.device = "cuda:5";
  tune_ahead(some_problems(2), {}, options, [&](const TuneRequest& request) { return tuners.tune(request); });
  EXPECT_EQ(tuners.cols_of.size(), 1u);
  EXPECT_EQ(tuners.cols_of["cuda:5"].size(), 2u);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_EQ(tuners.jobs, std::set<int>{std::max(1, cores - 1)}) << "one core launches";
}

TEST(TuneAhead, GpusWithoutAProblemHaveNoThreads) {
  Tuners tuners;
  PrewarmSettings settings;
  settings.devices = {"cuda:0", "cuda:1", "cuda:2"};
  settings.jobs = 12;
  tune_ahead(some_problems(2), settings, {}, [&](const TuneRequest& request) { return tuners.tune(request); });
  EXPECT_EQ(tuners.jobs, std::set<int>{6});
}

/// Counts what goes on at the same time.
struct Pipeline {
  std::mutex mutex;
  int compiling = 0, measuring = 0, compiled_meanwhile = 0, max_compiling = 0, max_measuring = 0;

  Json tune(const TuneRequest& request) {
    change([&] { max_compiling = std::max(max_compiling, ++compiling); });
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    change([&] {
      --compiling;
      compiled_meanwhile += measuring;
    });
    request.compiled();
    while (!request.turn->is_given() && !request.stop()) std::this_thread::yield();
    change([&] { max_measuring = std::max(max_measuring, ++measuring); });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    change([&] { --measuring; });
    return {{"measured", true}};
  }
  template <typename Change>
  void change(const Change& now) {
    const std::lock_guard lock(mutex);
    now();
  }
};

TEST(TuneAhead, TheNextProblemCompilesWhileOneIsMeasured) {
  Pipeline pipeline;
  const auto tune_one = [&](const TuneRequest& request) { return pipeline.tune(request); };
  EXPECT_EQ(tune_ahead(some_problems(10), {}, {}, tune_one).done, 10);
  EXPECT_EQ(pipeline.max_measuring, 1);
  EXPECT_EQ(pipeline.max_compiling, 1) << "one problem compiles at a time, so memory is bounded";
  EXPECT_GE(pipeline.compiled_meanwhile, 5);
}

TEST(TuneAhead, AProblemThatWaitsForItsTurnEndsWhenAnotherGpuGivesUp) {
  PrewarmSettings settings;
  settings.devices = {"cuda:0", "cuda:1"};
  std::mutex mutex;
  std::set<std::string> devices;
  std::atomic<int> waiting{0}, stopped{0}, measured{0};
  const auto tune_one = [&](const TuneRequest& request) -> Json {
    bool is_first = false;
    {
      const std::lock_guard lock(mutex);
      is_first = devices.insert(request.device).second;
    }
    request.compiled();
    if (is_first) {
      while (waiting < 2) std::this_thread::yield();  // until both GPUs have a next problem
      if (request.device == "cuda:0") throw Error(ErrorCode::no_device, "no GPU");
      while (stopped < 1) std::this_thread::yield();  // until the other GPU has given up
      return {{"measured", true}};
    }
    ++waiting;
    while (!request.stop() && !request.turn->is_given()) std::this_thread::yield();
    if (!request.stop()) {
      ++measured;
      return {{"measured", true}};
    }
    ++stopped;
    throw Error(ErrorCode::cancelled, "nobody wants it");
  };
  EXPECT_THROW(tune_ahead(some_problems(20), settings, {}, tune_one), Error);
  EXPECT_EQ(measured, 0);
  EXPECT_EQ(waiting, 2);
  EXPECT_EQ(stopped, 2);
}

TEST(TuneAhead, AProblemThatFailsLeavesTheOthers) {
  Tuners tuners;
  PrewarmSettings settings;
  settings.devices = {"cuda:0", "cuda:1"};
  const PrewarmResult result = tune_ahead(some_problems(10), settings, {}, [&](const TuneRequest& request) -> Json {
    if (request.problem.fields.integer("cols") == 4) throw Error(ErrorCode::verification_failed, "wrong");
    return tuners.tune(request);
  });
  EXPECT_EQ(result.done, 9);
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_NE(result.failures.front().what.find("cols=4"), std::string::npos);
}

TEST(TuneAhead, WithoutAGpuItEndsAtOnce) {
  std::atomic<int> calls{0};
  PrewarmSettings settings;
  settings.devices = {"cuda:0", "cuda:1"};
  EXPECT_THROW(tune_ahead(some_problems(100), settings, {},
                          [&](const TuneRequest&) -> Json {
                            ++calls;
                            throw Error(ErrorCode::no_device, "no GPU");
                          }),
               Error);
  EXPECT_LE(calls, 4) << "one on each GPU, and the next one";
}

}  // namespace
}  // namespace tunesmith::cli
