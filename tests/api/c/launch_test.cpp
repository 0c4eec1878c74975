// The C API's launches: by position and by name, in one shot, on several threads. Runs on the host executor.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/c/fixture.h"
#include "tunesmith/c_api.h"

namespace {

using tunesmith::test::CApi;
using tunesmith::test::expect_message;
using tunesmith::test::NamedProblem;

TEST_F(CApi, PreparesLaunchesAndTellsAboutIt) {
  constexpr int rows = 3, cols = 40;
  std::vector<float> x(rows * cols), y(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 11);
  void* arrays[2] = {};
  ASSERT_EQ(tunesmith_allocate(engine_, x.size() * 4, &arrays[0]), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_allocate(engine_, y.size() * 4, &arrays[1]), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_copy_to_device(engine_, arrays[0], x.data(), x.size() * 4), TUNESMITH_OK);

  tunesmith_problem_set_int(problem_, "rows", rows);
  tunesmith_problem_set_int(problem_, "cols", cols);
  tunesmith_problem_set_string(problem_, "dtype", "f32");
  tunesmith_plan* plan = nullptr;
  ASSERT_EQ(tunesmith_prepare(engine_, problem_, "variant=warp", TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  EXPECT_STREQ(tunesmith_plan_origin(plan), "pinned");
  EXPECT_EQ(std::string(tunesmith_plan_config(plan)).substr(0, 13), "variant=warp,");
  EXPECT_NE(std::strstr(tunesmith_plan_problem(plan), "rows=3,cols=40"), nullptr);
  EXPECT_NE(std::strstr(tunesmith_plan_source(plan), "LaneGroup<"), nullptr);
  EXPECT_EQ(tunesmith_plan_compiled(plan), 1);
  EXPECT_GT(tunesmith_plan_compile_ms(plan), 0);
  EXPECT_EQ(tunesmith_plan_tune_s(plan), 0);
  EXPECT_EQ(tunesmith_plan_bytes(plan), 2.0 * rows * cols * 4);
  EXPECT_EQ(tunesmith_engine_is_host(engine_), 1);

  const auto expect_softmax = [&] {
    ASSERT_EQ(tunesmith_synchronize(engine_, nullptr), TUNESMITH_OK);
    ASSERT_EQ(tunesmith_copy_to_host(engine_, y.data(), arrays[1], y.size() * 4), TUNESMITH_OK);
    for (std::size_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(x[r * cols + c]));
      for (std::size_t c = 0; c < cols; ++c)
        EXPECT_NEAR(y[r * cols + c], std::exp(static_cast<double>(x[r * cols + c])) / sum, 1e-6);
    }
  };
  ASSERT_EQ(tunesmith_plan_launch(plan, arrays, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_softmax();
  std::fill(y.begin(), y.end(), -1.0f);
  ASSERT_EQ(tunesmith_copy_to_device(engine_, arrays[1], y.data(), y.size() * 4), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_run(engine_, problem_, arrays, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_softmax();

  EXPECT_EQ(tunesmith_plan_launch(plan, arrays, 1, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"1 arrays", "2"});
  EXPECT_EQ(tunesmith_plan_launch(plan, nullptr, 2, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"addresses is NULL"});
  double time_us = -1;
  EXPECT_EQ(tunesmith_plan_time_us(plan, arrays, 2, 0, 1, &time_us), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"repeats is 0; allowed: 1 to 1000000"});
  EXPECT_EQ(tunesmith_plan_time_us(plan, arrays, 2, 2'000'000'000, 1, &time_us), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"repeats is 2000000000"});
  EXPECT_EQ(tunesmith_plan_time_us(plan, arrays, 2, 1, 1, &time_us), TUNESMITH_UNSUPPORTED);  // the host executor
  EXPECT_EQ(time_us, -1);

  // The plan keeps what it needs.
  EXPECT_EQ(tunesmith_release(engine_, arrays[0]), TUNESMITH_OK);
  EXPECT_EQ(tunesmith_release(engine_, arrays[1]), TUNESMITH_OK);
  tunesmith_engine_destroy(engine_);
  engine_ = nullptr;
  void* const own[2] = {x.data(), y.data()};  // the host executor's device memory is any memory
  std::fill(y.begin(), y.end(), 0.0f);
  EXPECT_EQ(tunesmith_plan_launch(plan, own, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_GT(y.back(), 0);
  tunesmith_plan_destroy(plan);
}

// Plans depend on the alignment of addresses and on whether an output is in place; one-shot calls find out.
TEST_F(CApi, OneShotCallsFollowTheirAddresses) {
  constexpr std::size_t cols = 8;
  NamedProblem problem("softmax", {{"rows", 1}, {"cols", static_cast<int>(cols)}});
  alignas(16) float memory[2 * cols + 1] = {}, y[cols] = {};
  const auto expect_softmax = [&](float* from, float* to, std::size_t count) {
    for (std::size_t c = 0; c < cols; ++c) from[c] = static_cast<float>(c % 3);
    void* const addresses[2] = {from, to};
    ASSERT_EQ(tunesmith_run(engine_, problem.get(), addresses, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
    double sum = 0;
    for (std::size_t c = 0; c < count; ++c) sum += std::exp(static_cast<double>(c % 3));
    for (std::size_t c = 0; c < count; ++c) EXPECT_NEAR(to[c], std::exp(static_cast<double>(c % 3)) / sum, 1e-6);
  };
  for (int repeat = 0; repeat < 2; ++repeat) {
    expect_softmax(memory, y, cols);
    expect_softmax(memory + 1, y, cols);  // aligned to 4 bytes only
    expect_softmax(memory, memory, cols);
    expect_softmax(memory + 1, memory + 1, cols);
    expect_softmax(memory, memory + cols, cols);
    expect_softmax(memory + cols, memory, cols);
  }
  problem.set("cols", 4);  // another plan
  expect_softmax(memory, y, 4);

  void* const missing[2] = {memory, nullptr};
  EXPECT_EQ(tunesmith_run(engine_, problem.get(), missing, 2, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"'y' is a null pointer", "16 bytes"});
  EXPECT_EQ(tunesmith_run(engine_, problem.get(), missing, 1, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"got 1 arrays", "2"});
  void* const misaligned[2] = {reinterpret_cast<char*>(memory) + 2, y};
  EXPECT_EQ(tunesmith_run(engine_, problem.get(), misaligned, 2, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"'x' is at", "multiple of 4 bytes"});
  void* const overlapping[2] = {memory, memory + 2};
  EXPECT_EQ(tunesmith_run(engine_, problem.get(), overlapping, 2, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"overlap partly"});

  // The problem's plans belong to one engine; they outlive it.
  tunesmith_engine* const other = tunesmith::test::host_engine();
  void* const addresses[2] = {memory, y};
  EXPECT_EQ(tunesmith_run(other, problem.get(), addresses, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  tunesmith_engine_destroy(other);
  EXPECT_EQ(tunesmith_run(engine_, problem.get(), addresses, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
}

TEST_F(CApi, ThreadsMayRunOneProblem) {
  const NamedProblem problem("softmax", {{"rows", 1}, {"cols", 64}});
  const auto run = [&] {
    alignas(16) float x[64] = {}, y[64] = {};
    void* const addresses[2] = {x, y};
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(tunesmith_run(engine_, problem.get(), addresses, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
      EXPECT_NEAR(y[63], 1.0 / 64, 1e-6);
    }
  };
  std::vector<std::jthread> threads(4);
  for (std::jthread& thread : threads) thread = std::jthread(run);
}

}  // namespace
