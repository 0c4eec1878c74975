// An engine on a GPU among what goes wrong in production: user functions that fault or never end, plans that are dropped
// while they run or while a graph contains them.

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "api/dispatch/plan_table.h"
#include "api/engine/parts.h"
#include "jit/cuda/device.h"
#include "tests/support/graph_calls.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

class Production : public testing::Test {
 protected:
  void SetUp() override {
    options_.device = "cuda";
    options_.cache_file.clear();
    options_.system_caches.clear();
    options_.shipped_cache.clear();
    options_.log = [this](EngineOptions::Level level, const std::string& line) {
      if (level == EngineOptions::Level::warning) warnings_.push_back(line);
    };
  }
  /// Returns nullptr without a GPU.
  std::unique_ptr<Engine> open() const {
    try {
      return std::make_unique<Engine>(options_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device) throw;
      return nullptr;
    }
  }

  EngineOptions options_;
  std::vector<std::string> warnings_;
};

/// Attention of zeros over ones, whose result is 1, with a function that does `harm` in every configuration that has not as
/// many threads a block as the default one.
class HarmfulFunction : public Production {
 protected:
  static constexpr std::int64_t seq_q = 64, seq_kv = 256, head_dim = 64;

  static AttentionProblem problem(const std::string& function_body) {
    AttentionProblem problem;
    problem.seq_q = seq_q;
    problem.seq_kv = seq_kv;
    problem.head_dim = head_dim;
    problem.dtype = DType::f32;
    problem.score_mod = "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) {\n" +
                        function_body + "  return score;\n}\n";
    return problem;
  }
  static std::uint32_t threads_of(const ParsedProblem& problem, const Config& config, const DeviceInfo& device) {
    const LaunchPlan plan = problem.launch_plan(config, device);
    return plan.kernels.at(plan.main_kernel).block.x;
  }

  void expect_that_the_caller_goes_on(const std::string& harm) {
    options_.mode = Mode::tune;
    options_.tune_share = 1;
    options_.tune_budget_s = 2;
    if (options_.tuner_program.empty()) GTEST_SKIP() << "the program tunesmith is not there";
    const std::unique_ptr<Engine> engine = open();
    if (engine == nullptr) GTEST_SKIP() << "no GPU";
    engine->parts().tuner_start_s = 6;
    const ParsedProblemPtr harmless = find_op("attention").parse(to_problem(problem("")));
    const Config standard = harmless->default_config(engine->device());
    const std::uint32_t threads = threads_of(*harmless, standard, engine->device());
    int harmed = 0;
    for (const Config& config : harmless->search_space(engine->device(), Effort::quick))
      if (threads_of(*harmless, config, engine->device()) != threads) ++harmed;
    ASSERT_GT(harmed, 0);

    DeviceBuffer q(*engine, seq_q * head_dim * 4), kv(*engine, seq_kv * head_dim * 4), o(*engine, seq_q * head_dim * 4);
    engine->parts().device->fill(q.data(), 0, q.bytes());
    const std::vector<float> ones(seq_kv * head_dim, 1.0f);
    kv.copy_from_host(ones.data(), kv.bytes());
    engine->run(problem("  if (blockDim.x != " + std::to_string(threads) + ") " + harm + "\n"),
                {.q = q.data(), .k = kv.data(), .v = kv.data(), .o = o.data()});
    engine->synchronize();
    std::vector<float> output(seq_q * head_dim, -1);
    o.copy_to_host(output.data(), o.bytes());
    // At most 256 additions and a division, each within 2^-24.
    for (const float value : output) ASSERT_NEAR(value, 1, 2e-5);
    ASSERT_EQ(warnings_.size(), 1u);
    EXPECT_NE(warnings_[0].find("default configuration is used"), std::string::npos) << warnings_[0];
    EXPECT_EQ(engine->tuning().failed_keys, 1);
    EXPECT_EQ(engine->tuning().tuned_keys, 0);
  }
};

TEST_F(HarmfulFunction, ThatFaultsLeavesTheContextAndTheDefault) {
  expect_that_the_caller_goes_on("*reinterpret_cast<volatile float*>(16) = score;");
}

TEST_F(HarmfulFunction, ThatNeverEndsIsKilled) {
  expect_that_the_caller_goes_on("while (clock64() != 0) {}");
  if (!warnings_.empty()) {
    EXPECT_NE(warnings_[0].find("never ended"), std::string::npos) << warnings_[0];
  }
}

/// An engine that keeps few plans, and softmaxes of zeros, whose results are 1 / cols.
class FewPlans : public Production {
 protected:
  static constexpr std::int64_t rows = 4096, max_cols = 1024, other_widths = 40;

  void SetUp() override {
    Production::SetUp();
    options_.mode = Mode::off;
    options_.plan_capacity = 8;
    engine_ = open();
    if (engine_ == nullptr) GTEST_SKIP() << "no GPU";
    x_ = std::make_unique<DeviceBuffer>(*engine_, rows * max_cols * 4);
    engine_->parts().device->fill(x_->data(), 0, x_->bytes());
  }
  static SoftmaxProblem problem(std::int64_t cols) { return SoftmaxProblem::contiguous(rows, cols, DType::f32); }
  std::unique_ptr<DeviceBuffer> poisoned() const {
    auto y = std::make_unique<DeviceBuffer>(*engine_, rows * max_cols * 4);
    engine_->parts().device->fill(y->data(), 0xff, y->bytes());
    return y;
  }
  /// Drops every other plan and call.
  void use_others(Stream stream) {
    const auto y = poisoned();
    for (std::int64_t cols = 2; cols < 2 + other_widths; ++cols)
      engine_->softmax(x_->data(), y->data(), problem(cols), stream);
    EXPECT_LE(engine_->parts().plans->plans.size(), 8u);
    EXPECT_LE(engine_->parts().plans->calls.size(), 8u);
    engine_->synchronize(stream);
  }
  void expect_result(const DeviceBuffer& y, std::int64_t cols) const {
    std::vector<float> output(static_cast<std::size_t>(rows * cols));
    y.copy_to_host(output.data(), output.size() * 4);
    for (const float value : output) ASSERT_FLOAT_EQ(value, 1.0f / static_cast<float>(cols));
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<DeviceBuffer> x_;
};

TEST_F(FewPlans, DroppedWhileTheyRun) {
  const auto held = poisoned(), dropped = poisoned();
  const Plan plan = engine_->prepare(problem(1000));
  for (int i = 0; i < 200; ++i) {
    plan.launch(x_->data(), held->data());
    engine_->softmax(x_->data(), dropped->data(), problem(999));
  }
  use_others(nullptr);
  expect_result(*held, 1000);
  expect_result(*dropped, 999);
  engine_->parts().device->fill(held->data(), 0xff, held->bytes());
  plan.launch(x_->data(), held->data());
  engine_->synchronize();
  expect_result(*held, 1000);
  EXPECT_NE(&plan.state(), &engine_->prepare(problem(1000)).state()) << "it was not dropped";
}

TEST_F(FewPlans, DroppedAfterACapture) {
  Device& device = *engine_->parts().device;
  const GraphCalls calls(dynamic_cast<const CudaDevice&>(device).driver());
  const auto y = poisoned();
  engine_->softmax(x_->data(), y->data(), problem(1000));
  engine_->synchronize();
  const std::function<void(Stream)> work = [&](Stream stream) {
    device.fill(y->data(), 0xff, y->bytes());
    ASSERT_EQ(calls.begin_capture(stream, 2), 0);  // CU_STREAM_CAPTURE_MODE_RELAXED
    engine_->softmax(x_->data(), y->data(), problem(1000), stream);
    try {
      engine_->softmax(x_->data(), y->data(), problem(777), stream);
      ADD_FAILURE() << "a new plan was made during a capture";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::capturing) << error.what();
    }
    GraphCalls::Handle graph = nullptr, exec = nullptr;
    ASSERT_EQ(calls.end_capture(stream, &graph), 0);
    ASSERT_EQ(calls.instantiate(&exec, graph, 0), 0);
    use_others(stream);
    EXPECT_EQ(calls.launch(exec, stream), 0);
    device.synchronize(stream);
    expect_result(*y, 1000);
    calls.exec_destroy(exec);
    calls.destroy(graph);
  };
  device.time_us({&work, 1}, false);
}

// Another thread drops every other plan, on a stream of its own, while a stream is captured. What was captured before, and a
// plan that the program holds, stay in the graph.
TEST_F(FewPlans, DroppedDuringACapture) {
  Device& device = *engine_->parts().device;
  const Driver& driver = dynamic_cast<const CudaDevice&>(device).driver();
  const GraphCalls calls(driver);
  const auto called = poisoned(), launched = poisoned();
  const Plan held = engine_->prepare(problem(1000));
  engine_->softmax(x_->data(), called->data(), problem(999));
  held.launch(x_->data(), launched->data());
  engine_->synchronize();
  const std::function<void(Stream)> work = [&](Stream stream) {
    cuda::StreamHandle other = nullptr;
    driver.check(driver->stream_create(&other, cuda::stream_non_blocking), "cuStreamCreate", "making another stream");
    ASSERT_EQ(calls.begin_capture(stream, 2), 0);  // CU_STREAM_CAPTURE_MODE_RELAXED
    engine_->softmax(x_->data(), called->data(), problem(999), stream);
    std::jthread([&] { use_others(other); }).join();
    held.launch(x_->data(), launched->data(), stream);
    GraphCalls::Handle graph = nullptr, exec = nullptr;
    ASSERT_EQ(calls.end_capture(stream, &graph), 0);
    EXPECT_NE(&held.state(), &engine_->prepare(problem(1000)).state()) << "it was not dropped";
    ASSERT_EQ(calls.instantiate(&exec, graph, 0), 0);
    for (int replay = 0; replay < 2; ++replay) {
      device.fill(called->data(), 0xff, called->bytes());
      device.fill(launched->data(), 0xff, launched->bytes());
      EXPECT_EQ(calls.launch(exec, stream), 0);
      device.synchronize(stream);
      expect_result(*called, 999);
      expect_result(*launched, 1000);
      use_others(stream);
    }
    calls.exec_destroy(exec);
    calls.destroy(graph);
    driver->stream_destroy(other);
  };
  device.time_us({&work, 1}, false);
}

}  // namespace
}  // namespace tunesmith
