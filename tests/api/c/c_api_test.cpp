// The C API: what each status and message says, what crosses the border and what must not. Runs on the host executor.

#include "tunesmith/c_api.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/c/host_engine.h"
#include "tunesmith/error.h"

namespace {

using tunesmith::test::host_options;
using tunesmith::test::NamedProblem;

/// The message must contain every word.
void expect_message(std::initializer_list<const char*> words) {
  for (const char* word : words)
    EXPECT_NE(std::strstr(tunesmith_last_error(), word), nullptr)
        << "'" << word << "' is not in: " << tunesmith_last_error();
}

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    const tunesmith_options options = host_options();
    ASSERT_EQ(tunesmith_engine_create(&options, &engine_), TUNESMITH_OK) << tunesmith_last_error();
    ASSERT_EQ(tunesmith_problem_create("softmax", &problem_), TUNESMITH_OK);
  }
  void TearDown() override {
    tunesmith_problem_destroy(problem_);
    tunesmith_engine_destroy(engine_);
  }

  tunesmith_engine* engine_ = nullptr;
  tunesmith_problem* problem_ = nullptr;
};

TEST(CApiStatus, NamesFollowTheErrorCodes) {
  EXPECT_STREQ(tunesmith_status_name(TUNESMITH_OK), "ok");
  EXPECT_STREQ(tunesmith_status_name(TUNESMITH_INTERNAL), "internal");
  for (int status = TUNESMITH_INVALID_ARGUMENT; status <= TUNESMITH_CACHE_FAILED; ++status)
    EXPECT_STREQ(tunesmith_status_name(static_cast<tunesmith_status>(status)),
                 tunesmith::name(static_cast<tunesmith::ErrorCode>(status - 1)));
  EXPECT_STREQ(tunesmith_status_name(static_cast<tunesmith_status>(50)), "unknown");
  EXPECT_STREQ(tunesmith_version(), TUNESMITH_VERSION);
}

TEST(CApiOptions, AMalformedRemoteCacheIsNamed) {
  tunesmith_engine* engine = nullptr;
  tunesmith_options options = host_options();
  options.remote = "redis://cache:0";
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"remote URL", "port is '0'; allowed: 1 to 65535"});
}

TEST(CApiOptions, AreCheckedAndMayBeOfAnotherVersion) {
  tunesmith_engine* engine = nullptr;
  tunesmith_options options = host_options();
  options.struct_size = 0;
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"struct_size is 0", "sizeof(tunesmith_options)"});
  EXPECT_EQ(tunesmith_engine_create(&options, nullptr), TUNESMITH_INVALID_ARGUMENT);

  options = host_options();
  options.mode = "fast";
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"mode is 'fast'", "tune, later, replay, off"});
  options = host_options();
  options.tune_budget_s = -1;
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"tune_budget_s is -1"});
  options = host_options();
  options.device = "tpu";
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"device is 'tpu'", "host"});
  EXPECT_EQ(engine, nullptr);

  // A caller built with a newer header: fine until it uses a field this library does not know.
  struct {
    tunesmith_options known;
    const char* unknown;
  } newer{host_options(), nullptr};
  newer.known.struct_size = sizeof newer;
  EXPECT_EQ(tunesmith_engine_create(&newer.known, &engine), TUNESMITH_OK) << tunesmith_last_error();
  tunesmith_engine_destroy(engine);
  engine = nullptr;
  newer.unknown = "x";
  EXPECT_EQ(tunesmith_engine_create(&newer.known, &engine), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"struct_size is", "knows only the first"});
}

TEST_F(CApi, NullArgumentsAreNamed) {
  void* memory = nullptr;
  tunesmith_plan* plan = nullptr;
  EXPECT_EQ(tunesmith_problem_create(nullptr, &problem_), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"op is NULL"});
  EXPECT_EQ(tunesmith_problem_set_int(nullptr, "rows", 1), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"problem is NULL"});
  EXPECT_EQ(tunesmith_problem_set_string(problem_, "dtype", nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"value is NULL"});
  EXPECT_EQ(tunesmith_problem_set_int(problem_, "", 1), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"field is empty"});
  EXPECT_EQ(tunesmith_prepare(nullptr, problem_, nullptr, -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"engine is NULL"});
  EXPECT_EQ(tunesmith_prepare(engine_, nullptr, nullptr, -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"problem is NULL"});
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, -1, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"plan is NULL"});
  EXPECT_EQ(tunesmith_plan_launch(nullptr, nullptr, 0, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"plan is NULL"});
  EXPECT_EQ(tunesmith_synchronize(nullptr, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tunesmith_allocate(engine_, 16, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tunesmith_allocate(nullptr, 16, &memory), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tunesmith_copy_to_device(engine_, nullptr, "x", 1), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"device is NULL", "1 byte"});
  EXPECT_EQ(tunesmith_run(nullptr, problem_, nullptr, 0, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"engine is NULL"});
  EXPECT_EQ(tunesmith_run(engine_, nullptr, nullptr, 0, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"problem is NULL"});
  EXPECT_EQ(tunesmith_problem_text(problem_, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"text is NULL"});
  EXPECT_EQ(tunesmith_problem_arrays(problem_, nullptr, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"arrays is NULL"});
  std::size_t count = 7;
  EXPECT_EQ(tunesmith_plan_arrays(nullptr, &count), nullptr);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(plan, nullptr);
  EXPECT_STREQ(tunesmith_plan_source(nullptr), "");
  EXPECT_STREQ(tunesmith_plan_origin(nullptr), "");
  EXPECT_EQ(tunesmith_plan_bytes(nullptr), 0);
  EXPECT_STREQ(tunesmith_engine_device(nullptr), "");
  tunesmith_plan_destroy(nullptr);
  tunesmith_engine_destroy(nullptr);
}

TEST_F(CApi, BadInputArrivesAsStatusAndMessage) {
  tunesmith_plan* plan = nullptr;
  tunesmith_problem* unknown = nullptr;
  EXPECT_EQ(tunesmith_problem_create("softmacks", &unknown), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"softmacks", "softmax"});
  EXPECT_EQ(unknown, nullptr);
  tunesmith_problem_set_int(problem_, "rows", -4);
  tunesmith_problem_set_int(problem_, "cols", 8);
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"rows is -4"});
  tunesmith_problem_set_int(problem_, "rows", 4);
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, "threads=x=y=", -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"threads", "expected an integer"});
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, "threads=77", -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"threads", "77", "power of two"});
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, 7, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"mode is 7", "replay", "later"});
  tunesmith_problem_set_real(problem_, "rows", 4.5);
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"rows", "4.5"});
  tunesmith_problem_set_int(problem_, "rows", 4);
  tunesmith_problem_set_string(problem_, "dtype", "f128");
  const char* text = nullptr;
  EXPECT_EQ(tunesmith_problem_text(problem_, &text), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"dtype is 'f128'", "bf16"});
  EXPECT_EQ(text, nullptr);
  tunesmith_problem_set_string(problem_, "dtype", "bf16");
  ASSERT_EQ(tunesmith_problem_text(problem_, &text), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_EQ(std::string(text).substr(0, 33), "softmax rows=4,cols=8,dtype=bf16,");
  const NamedProblem absent("softmax", {{"rows", 0}});
  EXPECT_EQ(tunesmith_problem_text(absent.get(), &text), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"cols is missing"});
  EXPECT_EQ(plan, nullptr);
}

TEST_F(CApi, MessagesBelongToTheThread) {
  EXPECT_EQ(tunesmith_synchronize(nullptr, nullptr), TUNESMITH_INVALID_ARGUMENT);
  std::jthread([] { EXPECT_STREQ(tunesmith_last_error(), ""); }).join();
  expect_message({"engine is NULL"});
}

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
  expect_message({"repeats is 0"});
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

  // The problem's plans are those of one engine; they outlive it.
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

TEST_F(CApi, OptionsAreFieldsOfTheProblem) {
  const float x[8] = {1, 2, 3, 4, 1, 2, 3, 4};
  const std::uint8_t mask[8] = {1, 0, 1, 1, 0, 0, 0, 0};
  const std::int32_t valid_cols[2] = {3, 4};
  float y[8] = {};
  tunesmith_problem_set_int(problem_, "rows", 2);
  tunesmith_problem_set_int(problem_, "cols", 4);
  tunesmith_problem_set_real(problem_, "scale", 0.5);
  tunesmith_problem_set_string(problem_, "mask", "keep");
  tunesmith_problem_set_int(problem_, "valid_cols", 1);
  tunesmith_problem_set_int(problem_, "safe", 1);
  // These arrays are wherever the compiler put them.
  for (const char* field : {"x_alignment", "y_alignment"}) tunesmith_problem_set_int(problem_, field, 4);
  tunesmith_problem_set_int(problem_, "mask_alignment", 1);
  tunesmith_plan* plan = nullptr;
  ASSERT_EQ(tunesmith_prepare(engine_, problem_, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  void* const arrays[4] = {const_cast<float*>(x), y, const_cast<std::uint8_t*>(mask), const_cast<std::int32_t*>(valid_cols)};
  ASSERT_EQ(tunesmith_plan_launch(plan, arrays, 4, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  const double first = 1 / (1 + std::exp(0.5 * (3 - 1)));
  const double expected[8] = {first, 0, 1 - first, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(y[i], expected[i], 1e-6) << i;
  EXPECT_EQ(tunesmith_plan_launch(plan, arrays, 2, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"2 arrays", "4"});
  tunesmith_plan_destroy(plan);

  tunesmith_problem_set_string(problem_, "mask", "multiply");
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"mask is 'multiply'", "keep"});
}

TEST_F(CApi, CrossEntropyInPlaceAndBackward) {
  constexpr std::size_t rows = 3, cols = 4;
  alignas(16) const float logits[rows * cols] = {1, 2, 3, 4, 0, 0, 0, 0, 5, -1, 2, 0};
  std::int32_t targets[rows] = {2, -100, 0};
  float loss = -1, lse[rows] = {}, nll[rows] = {}, one = 1;
  alignas(16) float over_logits[rows * cols], from_lse[rows * cols] = {};
  std::copy(std::begin(logits), std::end(logits), over_logits);
  NamedProblem problem(
      "cross_entropy",
      {{"rows", 3}, {"cols", 4}, {"dtype", "f32"}, {"target_dtype", "i32"}, {"nll", 1}, {"gradient", "separate"}});
  void* const addresses[] = {over_logits, targets, &loss, lse, nll, over_logits};
  ASSERT_EQ(tunesmith_run(engine_, problem.get(), addresses, 6, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  const NamedProblem backward("cross_entropy_backward",
                              {{"rows", 3}, {"cols", 4}, {"dtype", "f32"}, {"target_dtype", "i32"}, {"nll", 1}});
  void* const again[] = {const_cast<float*>(logits), targets, lse, &one, nll, from_lse};
  ASSERT_EQ(tunesmith_run(engine_, backward.get(), again, 6, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  double sum_of_losses = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < cols; ++c) sum += std::exp(static_cast<double>(logits[r * cols + c]));
    EXPECT_NEAR(lse[r], std::log(sum), 1e-6);
    const bool counts = targets[r] >= 0;
    if (counts) sum_of_losses += std::log(sum) - logits[r * cols + static_cast<std::size_t>(targets[r])];
    for (std::size_t c = 0; c < cols; ++c) {
      const double p = std::exp(static_cast<double>(logits[r * cols + c])) / sum;
      const double expected = counts ? (p - (static_cast<std::size_t>(targets[r]) == c ? 1 : 0)) / 2 : 0;
      EXPECT_NEAR(over_logits[r * cols + c], expected, 1e-6);
      EXPECT_NEAR(from_lse[r * cols + c], expected, 1e-6);
    }
  }
  EXPECT_NEAR(loss, sum_of_losses / 2, 1e-6);

  // A class may be ignored: zero is zero.
  targets[1] = 0;
  problem.set("ignore_index", 0);
  problem.set("reduction", "sum");
  problem.set("gradient", "none");
  void* const forward[] = {const_cast<float*>(logits), targets, &loss, lse, nll};
  ASSERT_EQ(tunesmith_run(engine_, problem.get(), forward, 5, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_NEAR(loss, static_cast<double>(lse[0]) - 3, 1e-6);
}

TEST_F(CApi, FieldsOfEveryOperationAreChecked) {
  const auto expect_rejected = [&](const char* op, std::initializer_list<NamedProblem::Field> fields,
                                   std::initializer_list<const char*> words) {
    const NamedProblem problem(op, fields);
    tunesmith_plan* plan = nullptr;
    EXPECT_EQ(tunesmith_prepare(engine_, problem.get(), nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_INVALID_ARGUMENT);
    expect_message(words);
    EXPECT_EQ(plan, nullptr);
  };
  expect_rejected("cross_entropy", {{"rows", 2}, {"cols", 4}, {"target_dtype", "f32"}}, {"target_dtype is 'f32'", "i32"});
  expect_rejected("cross_entropy", {{"rows", 2}, {"cols", 4}, {"reduction", "most"}}, {"reduction is 'most'", "none"});
  expect_rejected("cross_entropy", {{"rows", 2}, {"cols", 4}, {"scale", -1.0}}, {"scale is -1"});
  expect_rejected("cross_entropy", {{"rows", 2}, {"cols", 4}, {"vocab_size", 9}}, {"vocab_size"});
  expect_rejected("cross_entropy_backward", {{"rows", 2}, {"cols", 4}, {"dloss", "none"}}, {"dloss is 'none'", "row"});
  expect_rejected("attention", {{"head_dim", 8}}, {"seq_q is missing"});
  expect_rejected("attention", {{"seq_q", 1}, {"head_dim", 0}}, {"head_dim is 0"});
  expect_rejected("attention", {{"seq_q", 1}, {"head_dim", 8}, {"heads", 0}}, {"heads is 0"});
  expect_rejected("attention", {{"seq_q", 1}, {"head_dim", 8}, {"causal", "left"}}, {"causal is 'left'", "bottom-right"});
  // A missing value is an error, and zero is a value.
  expect_rejected("attention", {{"seq_q", 4}, {"head_dim", 8}, {"varlen", 1}}, {"total_q"});
  expect_rejected("attention", {{"seq_q", 4}, {"head_dim", 8}, {"total_q", 0}}, {"total_q", "varlen"});
  const NamedProblem empty("attention", {{"seq_q", 4}, {"head_dim", 8}, {"varlen", 1}, {"total_q", 0}, {"total_kv", 0}});
  const char* text = nullptr;
  EXPECT_EQ(tunesmith_problem_text(empty.get(), &text), TUNESMITH_OK) << tunesmith_last_error();
  expect_rejected("linear_cross_entropy", {{"tokens", 2}}, {"hidden_size is missing"});
}

TEST_F(CApi, AttentionInOneShotAndByName) {
  // Two query heads share a key head; a query sees the keys up to its place.
  constexpr std::size_t queries = 2, heads = 2, width = 8;
  alignas(16) float q[queries * heads * width] = {}, k[queries * width] = {}, v[queries * width], o[queries * heads * width];
  float lse[heads * queries] = {};
  for (std::size_t i = 0; i < queries * width; ++i) v[i] = static_cast<float>(i);
  const auto expect_means = [&] {
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t c = 0; c < width; ++c) {
        EXPECT_NEAR(o[h * width + c], v[c], 1e-6);
        EXPECT_NEAR(o[(heads + h) * width + c], (v[c] + v[width + c]) / 2, 1e-6);
      }
    for (std::size_t h = 0; h < heads; ++h) {
      EXPECT_NEAR(lse[h * queries], 0, 1e-6);
      EXPECT_NEAR(lse[h * queries + 1], std::log(2), 1e-6);
    }
  };
  const NamedProblem problem(
      "attention", {{"heads", 2}, {"kv_heads", 1}, {"seq_q", 2}, {"head_dim", 8}, {"dtype", "f32"}, {"causal", "top-left"}});
  void* const in_order[5] = {q, k, v, o, lse};
  ASSERT_EQ(tunesmith_run(engine_, problem.get(), in_order, 5, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_means();

  tunesmith_plan* plan = nullptr;
  ASSERT_EQ(tunesmith_prepare(engine_, problem.get(), nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  std::fill(std::begin(o), std::end(o), -1.0f);
  const char* const names[] = {"o", "v", "k", "q"};  // lse is optional
  void* const by_name[] = {o, v, k, q};
  ASSERT_EQ(tunesmith_plan_launch_named(plan, names, by_name, 4, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_means();
  EXPECT_EQ(tunesmith_plan_launch_named(plan, names, by_name, 3, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"'q' is a null pointer"});
  const char* const wrong[] = {"out", "v", "k", "q"};
  EXPECT_EQ(tunesmith_plan_launch_named(plan, wrong, by_name, 4, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"no array 'out'", "allowed: q, k, v, o, lse"});
  EXPECT_EQ(tunesmith_plan_launch_named(plan, nullptr, by_name, 4, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"names is NULL"});
  tunesmith_plan_destroy(plan);
}

// What a mask_mod leaves of tiles, found out by one plan and read by another.
TEST_F(CApi, TilesOfAMaskAreReused) {
  constexpr std::size_t seq = 70, width = 8;
  std::vector<float> zeros(seq * width), v(seq * width), o(seq * width, -1);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / width);  // the key's number
  tunesmith_problem* problem = nullptr;
  ASSERT_EQ(tunesmith_problem_create("attention", &problem), TUNESMITH_OK);
  tunesmith_problem_set_int(problem, "seq_q", seq);
  tunesmith_problem_set_int(problem, "head_dim", width);
  tunesmith_problem_set_string(problem, "dtype", "f32");
  tunesmith_problem_set_string(problem, "mask_mod",
                               "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return k >= 64; }");
  tunesmith_problem_set_string(problem, "block_mask", "write");
  const tunesmith_array* arrays = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(tunesmith_problem_arrays(problem, &arrays, &count), TUNESMITH_OK) << tunesmith_last_error();
  ASSERT_EQ(count, 6u);
  EXPECT_STREQ(arrays[3].name, "block_mask");
  EXPECT_EQ(arrays[3].bytes, 2 * 2 * 4);
  std::vector<std::int32_t> tiles(4, -1);
  for (const char* way : {"write", "read"}) {
    tunesmith_problem_set_string(problem, "block_mask", way);
    tunesmith_plan* plan = nullptr;
    ASSERT_EQ(tunesmith_prepare(engine_, problem, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
        << tunesmith_last_error() << tunesmith_last_error_log();
    std::fill(o.begin(), o.end(), -1.0f);
    void* const in_order[] = {zeros.data(), zeros.data(), v.data(), tiles.data(), o.data(), nullptr};
    ASSERT_EQ(tunesmith_plan_launch(plan, in_order, std::size(in_order), nullptr), TUNESMITH_OK) << tunesmith_last_error();
    EXPECT_EQ(tiles, (std::vector<std::int32_t>{2, -2, 2, -2})) << "all of the second tile is kept, and of what is padding";
    for (const float value : o) EXPECT_NEAR(value, 66.5, 1e-4);
    tunesmith_plan_destroy(plan);
  }
  tunesmith_problem_destroy(problem);
}

TEST(CApiOptions, SpecializeChoosesTheKernel) {
  tunesmith_options options = host_options();
  options.mode = "off";
  const NamedProblem problem("softmax", {{"rows", 2}, {"cols", 20}});
  for (const auto& [specialize, origin] : {std::pair{"exact", "default"}, {"capacity", "capacity"}, {"auto", "capacity"}}) {
    options.specialize = specialize;
    tunesmith_engine* engine = nullptr;
    ASSERT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_OK) << tunesmith_last_error();
    tunesmith_plan* plan = nullptr;
    ASSERT_EQ(tunesmith_prepare(engine, problem.get(), "", TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
        << tunesmith_last_error();
    EXPECT_STREQ(tunesmith_plan_origin(plan), origin);
    tunesmith_plan_destroy(plan);
    tunesmith_engine_destroy(engine);
  }
  options.specialize = "both";
  tunesmith_engine* engine = nullptr;
  EXPECT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("specialize is 'both'"), std::string::npos) << tunesmith_last_error();
}

TEST_F(CApi, LogLinesReachTheCallback) {
  std::string lines;
  tunesmith_options options = host_options();
  options.mode = "off";
  options.log_context = &lines;
  options.log = [](tunesmith_log_level level, const char* line, void* context) {
    *static_cast<std::string*>(context) += (level == TUNESMITH_LOG_INFO ? "info: " : "warning: ") + std::string(line) + "\n";
  };
  tunesmith_engine* engine = nullptr;
  ASSERT_EQ(tunesmith_engine_create(&options, &engine), TUNESMITH_OK) << tunesmith_last_error();
  float x[4] = {1, 2, 3, 4};
  const NamedProblem problem("softmax", {{"rows", 1}, {"cols", 4}});
  void* const in_place[2] = {x, x};
  ASSERT_EQ(tunesmith_run(engine, problem.get(), in_place, 2, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_NEAR(x[0] + x[1] + x[2] + x[3], 1, 1e-6);
  EXPECT_NE(lines.find("info: compiled softmax rows=1,cols=4"), std::string::npos) << lines;
  tunesmith_engine_destroy(engine);
}

}  // namespace
