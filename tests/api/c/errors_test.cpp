// The C API's errors: what each status and message says. Runs on the host executor.

#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <thread>

#include "tests/api/c/fixture.h"
#include "tunesmith/c_api.h"
#include "tunesmith/error.h"

namespace {

using tunesmith::test::CApi;
using tunesmith::test::expect_message;
using tunesmith::test::NamedProblem;

TEST(CApiStatus, NamesFollowTheErrorCodes) {
  EXPECT_STREQ(tunesmith_status_name(TUNESMITH_OK), "ok");
  EXPECT_STREQ(tunesmith_status_name(TUNESMITH_INTERNAL), "internal");
  for (int status = TUNESMITH_INVALID_ARGUMENT; status <= TUNESMITH_CACHE_FAILED; ++status)
    EXPECT_STREQ(tunesmith_status_name(static_cast<tunesmith_status>(status)),
                 tunesmith::name(static_cast<tunesmith::ErrorCode>(status - 1)));
  EXPECT_STREQ(tunesmith_status_name(static_cast<tunesmith_status>(50)), "unknown");
  EXPECT_STREQ(tunesmith_version(), TUNESMITH_VERSION);
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
  expect_message(
      {"op is 'softmacks'; allowed: softmax", "linear_cross_entropy, and shipped row programs such as layer_norm"});
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

TEST_F(CApi, MessagesBelongToTheThread) {
  EXPECT_EQ(tunesmith_synchronize(nullptr, nullptr), TUNESMITH_INVALID_ARGUMENT);
  std::jthread([] { EXPECT_STREQ(tunesmith_last_error(), ""); }).join();
  expect_message({"engine is NULL"});
}

}  // namespace
