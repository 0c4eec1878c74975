// Linear cross-entropy on a GPU: small problems compared with float64, larger ones with a single chunk; reproducibility and
// stream capture.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "api/engine/parts.h"
#include "core/half.h"
#include "jit/cuda/device.h"
#include "tests/api/linear_cross_entropy/reference.h"
#include "tests/support/graph_calls.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

using test::LinearInputs;
using test::LinearOutputs;

class LinearCrossEntropyGpu : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options = EngineOptions::from_environment();
    options.device = "cuda";
    options.cache_file.clear();
    options.mode = Mode::off;
    try {
      engine_ = std::make_unique<Engine>(options);
      engine_->parts().matmul();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::no_device && error.code() != ErrorCode::not_found) throw;
      GTEST_SKIP() << error.what();
    }
  }

  static LinearCrossEntropyProblem problem_of(DType dtype) {
    LinearCrossEntropyProblem problem;
    problem.tokens = 203;
    problem.hidden_size = 64;
    problem.vocab_size = 1003;
    problem.dtype = dtype;
    problem.dhidden = problem.dweight = true;
    return problem;
  }
  LinearOutputs run(const LinearCrossEntropyProblem& problem, const LinearInputs& inputs) {
    return test::launch(*engine_, LinearCrossEntropy(*engine_, problem), inputs);
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(LinearCrossEntropyGpu, AllDtypesAndReductionsAgreeWithFloat64) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
      for (const bool f32_logits : {false, true}) {
        LinearCrossEntropyProblem problem = problem_of(dtype);
        problem.reduction = reduction;
        problem.f32_logits = f32_logits;
        problem.dloss = problem.nll = true;
        problem.z_loss = 0.01;
        problem.softcap = 20;
        problem.label_smoothing = 0.1;
        const LinearInputs inputs = test::linear_inputs(problem);
        const LinearOutputs expected = test::reference(inputs);
        for (const std::int64_t chunk_tokens : {64, 203, 0}) {
          SCOPED_TRACE(std::string(name(dtype)) + ", reduction " + std::to_string(static_cast<int>(reduction)) +
                       (f32_logits ? ", f32 logits" : "") + ", chunks of " + std::to_string(chunk_tokens));
          problem.chunk_tokens = chunk_tokens;
          test::expect_near(run(problem, inputs), expected, dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 1e-2 : 6e-2);
        }
      }
}

TEST_F(LinearCrossEntropyGpu, BiasGradientThroughLseAndAnyAlignmentAgreeWithFloat64) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const bool f32_logits : {false, true})
      for (const std::int64_t alignment : {std::int64_t{16}, size_of(dtype)}) {
        LinearCrossEntropyProblem problem = problem_of(dtype);
        problem.bias = problem.dbias = problem.dlse = problem.class_weight = true;
        problem.f32_logits = problem.f32_dweight = f32_logits;
        problem.hidden_size = alignment == 16 ? 64 : 61;
        problem.hidden_alignment = problem.weight_alignment = problem.dhidden_alignment = alignment;
        problem.bias_alignment = problem.dweight_alignment = f32_logits ? std::max<std::int64_t>(alignment, 4) : alignment;
        const LinearInputs inputs = test::linear_inputs(problem);
        const LinearOutputs expected = test::reference(inputs);
        for (const std::int64_t chunk_tokens : {64, 203}) {
          SCOPED_TRACE(std::string(name(dtype)) + (f32_logits ? ", f32 logits" : "") + ", aligned to " +
                       std::to_string(alignment) + ", chunks of " + std::to_string(chunk_tokens));
          problem.chunk_tokens = chunk_tokens;
          test::expect_near(run(problem, inputs), expected, dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 1e-2 : 6e-2);
        }
      }
}

// Each lse is within 1e-5, relative, of the lse of exact logits; logits in the inputs' type cannot reach that.
TEST_F(LinearCrossEntropyGpu, FusedAgreesWithFloat64) {
  for (const Reduction reduction : {Reduction::mean, Reduction::none})
    for (const std::int64_t vocab_size : {1000, 1003}) {
      SCOPED_TRACE("reduction " + std::to_string(static_cast<int>(reduction)) + ", vocab_size " +
                   std::to_string(vocab_size));
      LinearCrossEntropyProblem problem;
      problem.tokens = 300;
      problem.hidden_size = 128;
      problem.vocab_size = vocab_size;
      problem.dhidden = problem.dweight = problem.dloss = true;
      problem.fused = true;
      problem.reduction = reduction;
      for (const std::int64_t chunk_tokens : {128, 0}) {
        problem.chunk_tokens = chunk_tokens;
        const LinearInputs inputs = test::linear_inputs(problem);
        const LinearOutputs found = run(problem, inputs), expected = test::reference(inputs);
        test::expect_near(found, expected, 1e-2);
        EXPECT_LT(test::distance(found.lse, expected.lse), 1e-5);
      }
    }
}

TEST_F(LinearCrossEntropyGpu, F32LogitsGiveAnLseWithin1e5) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    LinearCrossEntropyProblem problem = problem_of(dtype);
    problem.hidden_size = 512;
    problem.chunk_tokens = 64;
    const LinearInputs inputs = test::linear_inputs(problem);
    const std::vector<double> expected = test::reference(inputs).lse;
    const auto largest_error = [&](bool f32_logits) {
      problem.f32_logits = f32_logits;
      const std::vector<double> found = run(problem, inputs).lse;
      EXPECT_EQ(found.size(), expected.size());
      double largest = 0;
      for (std::size_t t = 0; t < expected.size(); ++t) {
        const double error = std::abs(found[t] - expected[t]) / std::abs(expected[t]);
        if (!(error <= largest)) largest = error;  // NaN as well
      }
      return largest;
    };
    EXPECT_LT(largest_error(true), 1e-5) << name(dtype);
    EXPECT_GT(largest_error(false), 1e-5) << name(dtype);
  }
}

TEST_F(LinearCrossEntropyGpu, ChunksAgreeWithOneChunkAndAreReproducible) {
  LinearCrossEntropyProblem problem = problem_of(DType::bf16);
  problem.tokens = 1000;
  problem.hidden_size = 256;
  problem.vocab_size = 8000;
  problem.scale = 0.1;
  const LinearInputs inputs = test::linear_inputs(problem);
  const LinearOutputs whole = run(problem, inputs);
  problem.chunk_tokens = 300;
  const LinearCrossEntropy prepared(*engine_, problem);
  const LinearOutputs first = test::launch(*engine_, prepared, inputs), second = test::launch(*engine_, prepared, inputs);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_EQ(first.dhidden, second.dhidden);
  EXPECT_EQ(first.dweight, second.dweight);
  test::expect_near(first, whole, 3e-2);
}

TEST_F(LinearCrossEntropyGpu, WithoutTokensOrValidTargetsGradientsAreZero) {
  for (const std::int64_t tokens : {0, 203}) {
    LinearCrossEntropyProblem problem = problem_of(DType::bf16);
    problem.tokens = tokens;
    problem.chunk_tokens = 100;
    LinearInputs inputs = test::linear_inputs(problem);
    for (std::int64_t t = 0; t < tokens; ++t) write_integer(DType::i64, inputs.targets.data(), t, -100);
    const LinearOutputs outputs = run(problem, inputs);
    EXPECT_TRUE(std::isnan(outputs.loss[0])) << "the mean of no tokens";
    EXPECT_EQ(outputs.dhidden, std::vector<double>(outputs.dhidden.size(), 0));
    EXPECT_EQ(outputs.dweight, std::vector<double>(outputs.dweight.size(), 0));
  }
}

TEST_F(LinearCrossEntropyGpu, RunsAndIsCapturedOnAnotherStream) {
  LinearCrossEntropyProblem problem = problem_of(DType::f32);
  const LinearInputs inputs = test::linear_inputs(problem);
  const LinearCrossEntropy prepared(*engine_, problem);
  const LinearOutputs expected = test::launch(*engine_, prepared, inputs);
  const auto send = [&](const std::vector<std::byte>& data) {
    DeviceBuffer buffer(*engine_, data.size());
    buffer.copy_from_host(data.data(), data.size());
    return buffer;
  };
  const DeviceBuffer hidden = send(inputs.hidden), weight = send(inputs.weight), targets = send(inputs.targets);
  const DeviceBuffer dhidden(*engine_, hidden.bytes()), dweight(*engine_, weight.bytes()), loss(*engine_, 4);
  LinearCrossEntropyArrays arrays;
  arrays.hidden = hidden.data();
  arrays.weight = weight.data();
  arrays.targets = targets.data();
  arrays.loss = static_cast<float*>(loss.data());
  arrays.dhidden = dhidden.data();
  arrays.dweight = dweight.data();
  const auto found = [&] {
    std::vector<float> values(weight.bytes() / 4 + 1);
    loss.copy_to_host(values.data(), 4);
    dweight.copy_to_host(values.data() + 1, weight.bytes());
    return std::vector<double>(values.begin(), values.end());
  };
  std::vector<double> right = expected.loss;
  right.insert(right.end(), expected.dweight.begin(), expected.dweight.end());
  Device& device = *engine_->parts().device;
  const GraphCalls calls(dynamic_cast<const CudaDevice&>(device).driver());
  const std::function<void(Stream)> work = [&](Stream stream) {
    prepared.launch(arrays, stream);  // loads and allocates, which a capture forbids
    device.synchronize(stream);
    EXPECT_EQ(found(), right);
    device.fill(dweight.data(), 0, dweight.bytes());
    ASSERT_EQ(calls.begin_capture(stream, 0), 0);  // CU_STREAM_CAPTURE_MODE_GLOBAL
    prepared.launch(arrays, stream);
    GraphCalls::Handle graph = nullptr, exec = nullptr;
    ASSERT_EQ(calls.end_capture(stream, &graph), 0);
    EXPECT_NE(found(), right) << "captured, not run";
    ASSERT_EQ(calls.instantiate(&exec, graph, 0), 0);
    EXPECT_EQ(calls.launch(exec, stream), 0);
    device.synchronize(stream);
    EXPECT_EQ(found(), right);
    calls.exec_destroy(exec);
    calls.destroy(graph);
  };
  device.time_us({&work, 1}, false);
}

TEST_F(LinearCrossEntropyGpu, WorkspaceStaysBelowTheLimit) {
  LinearCrossEntropyProblem problem;
  problem.tokens = 8192;
  problem.hidden_size = 4096;
  problem.vocab_size = 128256;
  problem.dhidden = problem.dweight = true;
  const LinearCrossEntropy prepared(*engine_, problem);
  EXPECT_LE(prepared.workspace_bytes(), std::size_t{1126} << 20);
  EXPECT_EQ(prepared.chunks(), 2);
}

}  // namespace
}  // namespace tunesmith
