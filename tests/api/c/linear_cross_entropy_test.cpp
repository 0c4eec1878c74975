// Linear + cross-entropy through the C API, on the host executor.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/api/c/host_engine.h"
#include "tests/api/linear_cross_entropy/reference.h"
#include "tunesmith/c_api.h"

namespace {

using tunesmith::DType;
using tunesmith::LinearCrossEntropyProblem;

using tunesmith::test::NamedProblem;

class LinearCrossEntropyC : public testing::Test {
 protected:
  ~LinearCrossEntropyC() override {
    tunesmith_plan_destroy(plan_);
    tunesmith_engine_destroy(engine_);
  }

  tunesmith_engine* engine_ = tunesmith::test::host_engine();
  NamedProblem problem_{"linear_cross_entropy",
                        {{"tokens", 21},
                         {"hidden_size", 8},
                         {"vocab_size", 40},
                         {"dtype", "f32"},
                         {"dhidden", 1},
                         {"dweight", 1},
                         {"chunk_tokens", 8}}};
  tunesmith_plan* plan_ = nullptr;
};

TEST_F(LinearCrossEntropyC, ComputesWhatTheCxxCallDoes) {
  LinearCrossEntropyProblem same;
  same.tokens = 21;
  same.hidden_size = 8;
  same.vocab_size = 40;
  same.dtype = DType::f32;
  same.dhidden = same.dweight = true;
  same.ignore_index = 2;
  same.label_smoothing = 0.1;
  same.softcap = 4;
  const tunesmith::test::LinearInputs inputs = tunesmith::test::linear_inputs(same);
  const tunesmith::test::LinearOutputs expected = tunesmith::test::reference(inputs);

  problem_.set("ignore_index", 2);
  problem_.set("label_smoothing", 0.1);
  problem_.set("softcap", 4.0);
  problem_.set("memory_bytes", 1 << 20);
  ASSERT_EQ(tunesmith_prepare(engine_, problem_.get(), nullptr, TUNESMITH_MODE_OF_ENGINE, &plan_), TUNESMITH_OK)
      << tunesmith_last_error();
  EXPECT_NE(std::string(tunesmith_plan_problem(plan_)).find("chunk_tokens=8"), std::string::npos)
      << tunesmith_plan_problem(plan_);
  EXPECT_GE(tunesmith_plan_workspace_bytes(plan_), 8u * 64 * 4);

  const auto bytes_of = [](const std::vector<std::byte>& data) { return data.size(); };
  void *hidden = nullptr, *weight = nullptr, *dhidden = nullptr, *dweight = nullptr;
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.hidden), &hidden), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.weight), &weight), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.hidden), &dhidden), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.weight), &dweight), TUNESMITH_OK);
  tunesmith_copy_to_device(engine_, hidden, inputs.hidden.data(), bytes_of(inputs.hidden));
  tunesmith_copy_to_device(engine_, weight, inputs.weight.data(), bytes_of(inputs.weight));
  float loss = 0;
  const char* const names[] = {"hidden", "weight", "targets", "loss", "dhidden", "dweight"};
  void* const addresses[] = {hidden, weight, const_cast<std::byte*>(inputs.targets.data()), &loss, dhidden, dweight};
  ASSERT_EQ(tunesmith_plan_launch_named(plan_, names, addresses, 6, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_NEAR(loss, expected.loss[0], 1e-5);
  const auto floats = [](const void* data, std::size_t count) {
    return std::vector<double>(static_cast<const float*>(data), static_cast<const float*>(data) + count);
  };
  EXPECT_LT(tunesmith::test::distance(floats(dhidden, expected.dhidden.size()), expected.dhidden), 4e-6);
  EXPECT_LT(tunesmith::test::distance(floats(dweight, expected.dweight.size()), expected.dweight), 4e-6);

  EXPECT_EQ(tunesmith_plan_launch_named(plan_, names, addresses, 5, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("'dweight' is a null pointer"), std::string::npos);
  // In the order of the plan's arrays, in one call.
  std::fill_n(static_cast<float*>(dweight), expected.dweight.size(), -1.0f);
  void* const in_order[] = {hidden, weight, addresses[2], &loss, nullptr, dhidden, dweight};
  ASSERT_EQ(tunesmith_run(engine_, problem_.get(), in_order, 7, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_LT(tunesmith::test::distance(floats(dweight, expected.dweight.size()), expected.dweight), 4e-6);
  for (void* memory : {hidden, weight, dhidden, dweight}) tunesmith_release(engine_, memory);
}

// The caller may own the workspace; the plan tells its size.
TEST_F(LinearCrossEntropyC, TheWorkspaceMayBeAnArray) {
  problem_.set("caller_workspace", 1);
  ASSERT_EQ(tunesmith_prepare(engine_, problem_.get(), nullptr, TUNESMITH_MODE_OF_ENGINE, &plan_), TUNESMITH_OK)
      << tunesmith_last_error();
  std::size_t count = 0;
  const tunesmith_array* const arrays = tunesmith_plan_arrays(plan_, &count);
  ASSERT_EQ(count, 8u);
  EXPECT_STREQ(arrays[7].name, "workspace");
  EXPECT_EQ(arrays[7].role, TUNESMITH_IN_OUT);
  EXPECT_EQ(arrays[7].alignment, 256);
  EXPECT_EQ(static_cast<std::size_t>(arrays[7].bytes), tunesmith_plan_workspace_bytes(plan_));
  EXPECT_GT(arrays[7].bytes, 0);
}

TEST_F(LinearCrossEntropyC, BadFieldsAreNamed) {
  const auto expect_rejected = [&](const char* field, const std::variant<int, double, std::string>& value,
                                   const std::string& words) {
    problem_.set(field, value);
    EXPECT_EQ(tunesmith_prepare(engine_, problem_.get(), nullptr, TUNESMITH_MODE_OF_ENGINE, &plan_),
              TUNESMITH_INVALID_ARGUMENT);
    EXPECT_NE(std::string(tunesmith_last_error()).find(words), std::string::npos) << tunesmith_last_error();
    EXPECT_EQ(plan_, nullptr);
  };
  expect_rejected("dtype", "i32", "dtype is 'i32'; allowed: f32, f16, bf16");
  problem_.set("dtype", "f32");
  expect_rejected("reduction", "most", "reduction is 'most'");
  problem_.set("reduction", "sum");
  expect_rejected("vocab_size", 0, "vocab_size is 0");
  problem_.set("vocab_size", 40);
  expect_rejected("vocabulary", 40, "'vocabulary' is not a field of linear_cross_entropy");
}

}  // namespace
