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

class LinearCrossEntropyC : public testing::Test {
 protected:
  LinearCrossEntropyC() {
    problem_.struct_size = sizeof problem_;
    problem_.tokens = 21;
    problem_.hidden_size = 8;
    problem_.vocab_size = 40;
    problem_.dhidden = problem_.dweight = 1;
    problem_.chunk_tokens = 8;
  }
  ~LinearCrossEntropyC() override {
    tunesmith_linear_cross_entropy_destroy(prepared_);
    tunesmith_engine_destroy(engine_);
  }

  void expect_refused(const std::string& words) {
    EXPECT_EQ(tunesmith_linear_cross_entropy_prepare(engine_, &problem_, &prepared_), TUNESMITH_INVALID_ARGUMENT);
    EXPECT_NE(std::string(tunesmith_last_error()).find(words), std::string::npos) << tunesmith_last_error();
    EXPECT_EQ(prepared_, nullptr);
  }

  tunesmith_engine* engine_ = tunesmith::test::host_engine();
  tunesmith_linear_cross_entropy_problem problem_{};
  tunesmith_linear_cross_entropy* prepared_ = nullptr;
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

  const int64_t ignore_index = 2;
  problem_.ignore_index = &ignore_index;
  problem_.label_smoothing = 0.1;
  problem_.softcap = 4;
  ASSERT_EQ(tunesmith_linear_cross_entropy_prepare(engine_, &problem_, &prepared_), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_EQ(tunesmith_linear_cross_entropy_chunk_tokens(prepared_), 8);
  EXPECT_GE(tunesmith_linear_cross_entropy_workspace_bytes(prepared_), 8u * 64 * 4);

  const auto bytes_of = [](const std::vector<std::byte>& data) { return data.size(); };
  void *hidden = nullptr, *weight = nullptr, *dhidden = nullptr, *dweight = nullptr;
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.hidden), &hidden), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.weight), &weight), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.hidden), &dhidden), TUNESMITH_OK);
  ASSERT_EQ(tunesmith_allocate(engine_, bytes_of(inputs.weight), &dweight), TUNESMITH_OK);
  tunesmith_copy_to_device(engine_, hidden, inputs.hidden.data(), bytes_of(inputs.hidden));
  tunesmith_copy_to_device(engine_, weight, inputs.weight.data(), bytes_of(inputs.weight));
  float loss = 0;
  tunesmith_linear_cross_entropy_arrays arrays{};
  arrays.struct_size = sizeof arrays;
  arrays.hidden = hidden;
  arrays.weight = weight;
  arrays.targets = inputs.targets.data();
  arrays.loss = &loss;
  arrays.dhidden = dhidden;
  arrays.dweight = dweight;
  ASSERT_EQ(tunesmith_linear_cross_entropy_launch(prepared_, &arrays, nullptr), TUNESMITH_OK) << tunesmith_last_error();
  EXPECT_NEAR(loss, expected.loss[0], 1e-5);
  const auto floats = [](const void* data, std::size_t count) {
    return std::vector<double>(static_cast<const float*>(data), static_cast<const float*>(data) + count);
  };
  EXPECT_LT(tunesmith::test::distance(floats(dhidden, expected.dhidden.size()), expected.dhidden), 4e-6);
  EXPECT_LT(tunesmith::test::distance(floats(dweight, expected.dweight.size()), expected.dweight), 4e-6);

  arrays.dweight = nullptr;
  EXPECT_EQ(tunesmith_linear_cross_entropy_launch(prepared_, &arrays, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_NE(std::string(tunesmith_last_error()).find("'dweight' is a null pointer"), std::string::npos);
  for (void* memory : {hidden, weight, dhidden, dweight}) tunesmith_release(engine_, memory);
}

TEST_F(LinearCrossEntropyC, BadFieldsAreNamed) {
  problem_.struct_size = 8;
  expect_refused("problem.struct_size is 8; expected sizeof(tunesmith_linear_cross_entropy_problem)");
  problem_.struct_size = sizeof problem_;
  problem_.dtype = 7;
  expect_refused("dtype is 7");
  problem_.dtype = TUNESMITH_F32;
  problem_.reduction = 3;
  expect_refused("reduction is 3");
  problem_.reduction = TUNESMITH_REDUCTION_SUM;
  problem_.vocab_size = 0;
  expect_refused("vocab_size is 0");
}

TEST_F(LinearCrossEntropyC, NullHandles) {
  EXPECT_EQ(tunesmith_linear_cross_entropy_prepare(engine_, nullptr, &prepared_), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tunesmith_linear_cross_entropy_prepare(nullptr, &problem_, &prepared_), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tunesmith_linear_cross_entropy_prepare(engine_, &problem_, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tunesmith_linear_cross_entropy_launch(nullptr, nullptr, nullptr), TUNESMITH_INVALID_ARGUMENT);
  EXPECT_EQ(tunesmith_linear_cross_entropy_workspace_bytes(nullptr), 0u);
  EXPECT_EQ(tunesmith_linear_cross_entropy_chunk_tokens(nullptr), 0);
  tunesmith_linear_cross_entropy_destroy(nullptr);
}

}  // namespace
