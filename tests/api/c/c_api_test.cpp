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
  expect_message({"mode is 'fast'", "tune, replay, off"});
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
  EXPECT_EQ(tunesmith_problem_set_word(problem_, "dtype", nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"word is NULL"});
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
  EXPECT_EQ(tunesmith_softmax(nullptr, nullptr, nullptr, 1, 1, 0, 0, TUNESMITH_F32, TUNESMITH_F32, nullptr),
            TUNESMITH_INVALID_ARGUMENT);
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
  expect_message({"config"});
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, "threads=77", -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"threads", "77", "power of two"});
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, 7, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"mode is 7", "replay"});
  tunesmith_problem_set_real(problem_, "rows", 4.5);
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, -1, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"rows", "4.5"});
  float value = 0;
  EXPECT_EQ(tunesmith_softmax(engine_, &value, &value, 1, 1, 0, 0, 5, TUNESMITH_F32, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"dtype is 5", "TUNESMITH_BF16"});
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
  tunesmith_problem_set_word(problem_, "dtype", "f32");
  tunesmith_plan* plan = nullptr;
  ASSERT_EQ(tunesmith_prepare(engine_, problem_, "variant=warp", TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  EXPECT_STREQ(tunesmith_plan_origin(plan), "pinned");
  EXPECT_EQ(std::string(tunesmith_plan_config(plan)).substr(0, 13), "variant=warp,");
  EXPECT_NE(std::strstr(tunesmith_plan_problem(plan), "rows=3,cols=40"), nullptr);
  EXPECT_NE(std::strstr(tunesmith_plan_source(plan), "LaneTeam<"), nullptr);
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
  ASSERT_EQ(tunesmith_softmax(engine_, arrays[0], arrays[1], rows, cols, 0, 0, TUNESMITH_F32, TUNESMITH_F32, nullptr),
            TUNESMITH_OK)
      << tunesmith_last_error();
  expect_softmax();

  EXPECT_EQ(tunesmith_plan_launch(plan, arrays, 1, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"1 arrays", "2"});
  EXPECT_EQ(tunesmith_plan_launch(plan, nullptr, 2, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"arrays is NULL"});
  double time_us = -1;
  EXPECT_EQ(tunesmith_time_us(plan, arrays, 2, 0, 1, &time_us), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"repeats is 0"});
  EXPECT_EQ(tunesmith_time_us(plan, arrays, 2, 1, 1, &time_us), TUNESMITH_UNSUPPORTED);  // the host executor
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

TEST_F(CApi, TheFamilyInOneShot) {
  constexpr std::size_t cols = 5;
  const float x[cols] = {0, 1, -2, 0.5f, 3}, dy[cols] = {1, 0, -1, 2, 0.25f};
  float y[cols] = {}, log_y[cols] = {}, dx[cols] = {}, log_dx[cols] = {};
  constexpr int f32 = TUNESMITH_F32;
  ASSERT_EQ(tunesmith_softmax(engine_, x, y, 1, cols, 0, 0, f32, f32, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  ASSERT_EQ(tunesmith_log_softmax(engine_, x, log_y, 1, cols, 0, 0, f32, f32, nullptr), TUNESMITH_OK)
      << tunesmith_last_error();
  ASSERT_EQ(tunesmith_softmax_backward(engine_, dy, y, dx, 1, cols, 0, 0, 0, f32, f32, nullptr), TUNESMITH_OK)
      << tunesmith_last_error();
  ASSERT_EQ(tunesmith_log_softmax_backward(engine_, dy, log_y, log_dx, 1, cols, 0, 0, 0, f32, f32, nullptr), TUNESMITH_OK)
      << tunesmith_last_error();
  double sum = 0, sum_dy = 0, dot = 0;
  for (const float element : x) sum += std::exp(static_cast<double>(element));
  for (std::size_t c = 0; c < cols; ++c) {
    const double p = std::exp(static_cast<double>(x[c])) / sum;
    EXPECT_NEAR(y[c], p, 1e-6);
    EXPECT_NEAR(log_y[c], std::log(p), 1e-6);
    sum_dy += dy[c];
    dot += dy[c] * p;
  }
  for (std::size_t c = 0; c < cols; ++c) {
    const double p = std::exp(static_cast<double>(x[c])) / sum;
    EXPECT_NEAR(dx[c], p * (dy[c] - dot), 1e-6);
    EXPECT_NEAR(log_dx[c], dy[c] - p * sum_dy, 1e-6);
  }

  EXPECT_EQ(tunesmith_log_softmax(nullptr, x, y, 1, cols, 0, 0, f32, f32, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"engine is NULL"});
  EXPECT_EQ(tunesmith_softmax_backward(engine_, dy, y, dx, 1, cols, 0, 0, 0, f32, 3, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"out_dtype is 3", "TUNESMITH_BF16"});
  EXPECT_EQ(tunesmith_log_softmax_backward(engine_, dy, nullptr, dx, 1, cols, 0, 0, 0, f32, f32, nullptr),
            TUNESMITH_INVALID_ARGUMENT);
  expect_message({"y", "is a null pointer"});
}

TEST_F(CApi, OptionsAreFieldsOfTheProblem) {
  const float x[8] = {1, 2, 3, 4, 1, 2, 3, 4};
  const std::uint8_t mask[8] = {1, 0, 1, 1, 0, 0, 0, 0};
  const std::int32_t valid_cols[2] = {3, 4};
  float y[8] = {};
  tunesmith_problem_set_int(problem_, "rows", 2);
  tunesmith_problem_set_int(problem_, "cols", 4);
  tunesmith_problem_set_real(problem_, "scale", 0.5);
  tunesmith_problem_set_word(problem_, "mask", "keep");
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

  tunesmith_problem_set_word(problem_, "mask", "multiply");
  EXPECT_EQ(tunesmith_prepare(engine_, problem_, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"mask is 'multiply'", "keep"});
}

TEST_F(CApi, CrossEntropyInOneShot) {
  constexpr std::size_t rows = 3, cols = 4;
  alignas(16) const float logits[rows * cols] = {1, 2, 3, 4, 0, 0, 0, 0, 5, -1, 2, 0};
  const std::int32_t targets[rows] = {2, -100, 0};
  float loss = -1, lse[rows] = {}, nll[rows] = {};
  std::int32_t predicted[rows] = {};
  std::int64_t correct = -1;
  alignas(16) float dlogits[rows * cols] = {}, from_lse[rows * cols] = {};
  tunesmith_cross_entropy_problem problem{};
  problem.struct_size = sizeof problem;
  problem.rows = rows;
  problem.cols = cols;
  problem.target_dtype = TUNESMITH_I32;
  tunesmith_cross_entropy_arrays arrays{};
  arrays.struct_size = sizeof arrays;
  arrays.logits = logits;
  arrays.targets = targets;
  arrays.loss = &loss;
  arrays.lse = lse;
  arrays.nll = nll;
  arrays.predicted = predicted;
  arrays.correct = &correct;
  arrays.dlogits = dlogits;
  ASSERT_EQ(tunesmith_cross_entropy(engine_, &arrays, &problem, nullptr), TUNESMITH_OK) << tunesmith_last_error();

  tunesmith_cross_entropy_backward_arrays backward{};
  const float one = 1;
  backward.struct_size = sizeof backward;
  backward.logits = logits;
  backward.targets = targets;
  backward.lse = lse;
  backward.dloss = &one;
  backward.nll = nll;
  backward.dlogits = from_lse;
  ASSERT_EQ(tunesmith_cross_entropy_backward(engine_, &backward, &problem, nullptr), TUNESMITH_OK) << tunesmith_last_error();
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
      EXPECT_NEAR(dlogits[r * cols + c], expected, 1e-6);
      EXPECT_NEAR(from_lse[r * cols + c], expected, 1e-6);
    }
  }
  EXPECT_NEAR(loss, sum_of_losses / 2, 1e-6);
  EXPECT_EQ(predicted[0], 3);
  EXPECT_EQ(predicted[2], 0);
  EXPECT_EQ(correct, 1);

  // A class may be what is ignored; what is left out has its default.
  problem.has_ignore_index = 1;
  problem.ignore_index = 2;
  problem.reduction = TUNESMITH_REDUCTION_SUM;
  const std::int32_t others[rows] = {2, 2, 0};
  arrays.targets = others;
  arrays.nll = arrays.correct = arrays.predicted = arrays.dlogits = nullptr;
  ASSERT_EQ(tunesmith_cross_entropy(engine_, &arrays, &problem, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_NEAR(loss, static_cast<double>(lse[2]) - 5, 1e-6);
}

TEST_F(CApi, CrossEntropySaysWhatIsWrong) {
  alignas(16) float memory[64] = {};
  const std::int64_t targets[2] = {1, 7};
  tunesmith_cross_entropy_problem problem{};
  tunesmith_cross_entropy_arrays arrays{};
  const auto expect_refused = [&](std::initializer_list<const char*> words) {
    EXPECT_EQ(tunesmith_cross_entropy(engine_, &arrays, &problem, nullptr), TUNESMITH_INVALID_ARGUMENT);
    expect_message(words);
  };
  expect_refused({"arrays.struct_size is 0", "sizeof(tunesmith_cross_entropy_arrays)"});
  arrays.struct_size = sizeof arrays;
  expect_refused({"problem.struct_size is 0", "sizeof(tunesmith_cross_entropy_problem)"});
  problem.struct_size = sizeof problem;
  problem.rows = 2;
  problem.cols = 4;
  expect_refused({"logits is a null pointer"});
  arrays.logits = memory;
  arrays.targets = targets;
  arrays.loss = memory + 16;
  expect_refused({"lse is a null pointer"});
  arrays.lse = memory + 20;
  const auto with = [&](auto member, auto value, std::initializer_list<const char*> words) {
    const auto before = problem.*member;
    problem.*member = value;
    expect_refused(words);
    problem.*member = before;
  };
  with(&tunesmith_cross_entropy_problem::dtype, 5, {"dtype is 5", "TUNESMITH_BF16"});
  with(&tunesmith_cross_entropy_problem::target_dtype, 1, {"target_dtype is 1", "TUNESMITH_I32"});
  with(&tunesmith_cross_entropy_problem::reduction, 3, {"reduction is 3", "TUNESMITH_REDUCTION_NONE"});
  with(&tunesmith_cross_entropy_problem::vocab_size, 9, {"vocab_size is 9", "cross_entropy_shard"});
  with(&tunesmith_cross_entropy_problem::scale, -1.0, {"scale is -1"});
  with(&tunesmith_cross_entropy_problem::check_targets, 1, {"targets[1] is 7; allowed: 0 to 3", "(1 row in all)"});
  EXPECT_EQ(tunesmith_cross_entropy(engine_, nullptr, &problem, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"arrays is NULL"});
  EXPECT_EQ(tunesmith_cross_entropy(engine_, &arrays, nullptr, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"problem is NULL"});

  tunesmith_cross_entropy_backward_arrays backward{};
  backward.struct_size = sizeof backward;
  backward.logits = memory;
  backward.targets = targets;
  backward.lse = memory + 20;
  backward.dlogits = memory + 32;
  EXPECT_EQ(tunesmith_cross_entropy_backward(engine_, &backward, &problem, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"dloss is a null pointer"});
  problem.dloss = 3;
  EXPECT_EQ(tunesmith_cross_entropy_backward(engine_, &backward, &problem, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"dloss is 3", "TUNESMITH_UPSTREAM_ROW"});
  problem.dloss = 0;
  problem.check_targets = 1;
  EXPECT_EQ(tunesmith_cross_entropy_backward(engine_, &backward, &problem, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"check_targets is 1"});
}

TEST_F(CApi, AttentionInOneShotAndByFields) {
  // Two query heads share a key head; a query sees the keys up to its place.
  constexpr std::size_t queries = 2, heads = 2, width = 8;
  alignas(16) float q[queries * heads * width] = {}, k[queries * width] = {}, v[queries * width], o[queries * heads * width];
  float lse[heads * queries] = {};
  for (std::size_t i = 0; i < queries * width; ++i) v[i] = static_cast<float>(i);
  tunesmith_attention_problem problem{};
  problem.struct_size = sizeof problem;
  problem.batch = 1;
  problem.heads = heads;
  problem.kv_heads = 1;
  problem.seq_q = queries;
  problem.head_dim = width;
  problem.causal = TUNESMITH_CAUSAL_TOP_LEFT;
  tunesmith_attention_arrays arrays{};
  arrays.struct_size = sizeof arrays;
  arrays.q = q;
  arrays.k = k;
  arrays.v = v;
  arrays.o = o;
  arrays.lse = lse;
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
  ASSERT_EQ(tunesmith_attention(engine_, &arrays, &problem, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_means();

  tunesmith_problem* fields = nullptr;
  ASSERT_EQ(tunesmith_problem_create("attention", &fields), TUNESMITH_OK);
  tunesmith_problem_set_int(fields, "heads", heads);
  tunesmith_problem_set_int(fields, "kv_heads", 1);
  tunesmith_problem_set_int(fields, "seq_q", queries);
  tunesmith_problem_set_int(fields, "head_dim", width);
  tunesmith_problem_set_word(fields, "dtype", "f32");
  tunesmith_problem_set_word(fields, "causal", "top-left");
  tunesmith_plan* plan = nullptr;
  ASSERT_EQ(tunesmith_prepare(engine_, fields, nullptr, TUNESMITH_MODE_OFF, &plan), TUNESMITH_OK)
      << tunesmith_last_error() << tunesmith_last_error_log();
  std::fill(std::begin(o), std::end(o), -1.0f);
  void* const in_order[5] = {q, k, v, o, lse};
  ASSERT_EQ(tunesmith_plan_launch(plan, in_order, 5, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  expect_means();
  tunesmith_plan_destroy(plan);
  tunesmith_problem_destroy(fields);
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
  tunesmith_problem_set_word(problem, "dtype", "f32");
  tunesmith_problem_set_word(problem, "mask_mod",
                             "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return k >= 64; }");
  tunesmith_problem_set_word(problem, "mask_tiles", "write");
  int64_t elements = -1;
  ASSERT_EQ(tunesmith_problem_elements(problem, "mask_tiles", &elements), TUNESMITH_OK) << tunesmith_last_error();
  ASSERT_EQ(elements, 2 * 2);
  std::vector<std::int32_t> tiles(4, -1);
  for (const char* way : {"write", "read"}) {
    tunesmith_problem_set_word(problem, "mask_tiles", way);
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
  EXPECT_EQ(tunesmith_problem_elements(problem, "tiles", &elements), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("no array 'tiles'; it has: q, k, v, mask_tiles, o, lse"),
            std::string::npos)
      << tunesmith_last_error();
  tunesmith_problem_destroy(problem);
}

TEST_F(CApi, AttentionSaysWhatIsWrong) {
  alignas(16) float memory[64] = {};
  tunesmith_attention_problem problem{};
  tunesmith_attention_arrays arrays{};
  const auto expect_refused = [&](std::initializer_list<const char*> words) {
    EXPECT_EQ(tunesmith_attention(engine_, &arrays, &problem, nullptr), TUNESMITH_INVALID_ARGUMENT);
    expect_message(words);
  };
  expect_refused({"arrays.struct_size is 0", "sizeof(tunesmith_attention_arrays)"});
  arrays.struct_size = sizeof arrays;
  expect_refused({"problem.struct_size is 0", "sizeof(tunesmith_attention_problem)"});
  problem.struct_size = sizeof problem;
  problem.batch = problem.seq_q = 1;
  problem.heads = 1;
  problem.head_dim = 8;
  expect_refused({"q is a null pointer"});
  arrays.q = arrays.k = arrays.v = memory;
  expect_refused({"o is a null pointer"});
  arrays.o = memory + 16;
  const auto with = [&](auto member, auto value, std::initializer_list<const char*> words) {
    const auto before = problem.*member;
    problem.*member = value;
    expect_refused(words);
    problem.*member = before;
  };
  with(&tunesmith_attention_problem::dtype, 5, {"dtype is 5", "TUNESMITH_BF16"});
  with(&tunesmith_attention_problem::layout, 2, {"layout is 2", "TUNESMITH_BHSD"});
  with(&tunesmith_attention_problem::causal, 3, {"causal is 3", "TUNESMITH_CAUSAL_BOTTOM_RIGHT"});
  with(&tunesmith_attention_problem::heads, 0, {"heads is 0"});
  with(&tunesmith_attention_problem::head_dim, 0, {"head_dim is 0"});
  with(&tunesmith_attention_problem::scale, -1.0, {"scale is -1"});
  problem.has_window_left = 1;
  with(&tunesmith_attention_problem::window_left, -2, {"window_left is -2"});
  const int32_t starts[2] = {0, 1};
  arrays.cu_seqlens_q = starts;
  expect_refused({"cu_seqlens_kv is a null pointer"});
  EXPECT_EQ(tunesmith_attention(engine_, &arrays, nullptr, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"problem is NULL"});
  EXPECT_EQ(tunesmith_attention(engine_, nullptr, &problem, nullptr), TUNESMITH_INVALID_ARGUMENT);
  expect_message({"arrays is NULL"});
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
  ASSERT_EQ(tunesmith_softmax(engine, x, x, 1, 4, 0, 0, TUNESMITH_F32, TUNESMITH_F32, nullptr), TUNESMITH_OK)
      << tunesmith_last_error();
  EXPECT_NEAR(x[0] + x[1] + x[2] + x[3], 1, 1e-6);
  EXPECT_NE(lines.find("info: compiled softmax rows=1,cols=4"), std::string::npos) << lines;
  tunesmith_engine_destroy(engine);
}

}  // namespace
