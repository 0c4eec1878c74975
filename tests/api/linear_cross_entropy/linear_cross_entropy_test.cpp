// Linear cross-entropy on the host executor: compares chunks of any size with a single chunk and with float64, for every
// option of the loss, and tests its errors.

#include "tunesmith/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "core/half.h"
#include "tests/api/engine/fakes.h"
#include "tests/api/engine/host_options.h"
#include "tests/api/linear_cross_entropy/reference.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

using fakes::expect_error;
using test::LinearInputs;
using test::LinearOutputs;

class LinearCrossEntropyHost : public testing::Test {
 protected:
  static LinearCrossEntropyProblem problem_of(DType dtype) {
    LinearCrossEntropyProblem problem;
    problem.tokens = 23;
    problem.hidden_size = 16;
    problem.vocab_size = 75;
    problem.dtype = dtype;
    problem.dhidden = problem.dweight = true;
    return problem;
  }

  LinearOutputs run(const LinearCrossEntropyProblem& problem, const LinearInputs& inputs) {
    return test::launch(engine_, LinearCrossEntropy(engine_, problem), inputs);
  }

  /// Compares unequal chunks, a single chunk, and chunks of one token with float64.
  void expect_right(LinearCrossEntropyProblem problem, double allowed) {
    const LinearInputs inputs = test::linear_inputs(problem);
    const LinearOutputs expected = test::reference(inputs);
    for (const std::int64_t chunk_tokens : {8, 23, 1, 0}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk_tokens));
      problem.chunk_tokens = chunk_tokens;
      test::expect_near(run(problem, inputs), expected, allowed);
    }
  }

  Engine engine_{test::host_engine_options()};
};

TEST_F(LinearCrossEntropyHost, AllDtypesAndReductionsAgreeWithFloat64) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
      SCOPED_TRACE(std::string(name(dtype)) + ", reduction " + std::to_string(static_cast<int>(reduction)));
      LinearCrossEntropyProblem problem = problem_of(dtype);
      problem.reduction = reduction;
      problem.dloss = true;
      // Logits of up to about 8 are rounded to their dtype first.
      expect_right(problem, dtype == DType::f32 ? 4e-6 : dtype == DType::f16 ? 4e-3 : 3e-2);
    }
}

TEST_F(LinearCrossEntropyHost, SupportsEveryOptionOfTheLoss) {
  using Change = std::function<void(LinearCrossEntropyProblem&)>;
  const std::pair<const char*, Change> changes[] = {{"ignore_index", [](auto& p) { p.ignore_index = 5; }},
                                                    {"label_smoothing", [](auto& p) { p.label_smoothing = 0.2; }},
                                                    {"z_loss", [](auto& p) { p.z_loss = 0.03; }},
                                                    {"scale", [](auto& p) { p.scale = 0.4; }},
                                                    {"softcap", [](auto& p) { p.softcap = 3; }},
                                                    {"class_weight", [](auto& p) { p.class_weight = true; }},
                                                    {"i32 targets", [](auto& p) { p.target_dtype = DType::i32; }},
                                                    {"nll, argmax", [](auto& p) { p.nll = p.argmax = true; }},
                                                    {"all", [](auto& p) {
                                                       p.label_smoothing = 0.1;
                                                       p.z_loss = 0.01;
                                                       p.scale = 1.5;
                                                       p.softcap = 5;
                                                       p.class_weight = p.nll = p.argmax = p.dloss = true;
                                                     }}};
  for (const auto& [option, change] : changes)
    for (const Reduction reduction : {Reduction::mean, Reduction::none}) {
      SCOPED_TRACE(std::string(option) + ", reduction " + std::to_string(static_cast<int>(reduction)));
      LinearCrossEntropyProblem problem = problem_of(DType::f32);
      problem.reduction = reduction;
      change(problem);
      expect_right(problem, 4e-6);
    }
}

TEST_F(LinearCrossEntropyHost, FusedAgreesWithFloat64) {
  using Change = std::function<void(LinearCrossEntropyProblem&)>;
  const std::pair<const char*, Change> changes[] = {{"no options", [](auto&) {}},
                                                    {"ignore_index, i32 targets",
                                                     [](auto& p) {
                                                       p.ignore_index = 5;
                                                       p.target_dtype = DType::i32;
                                                     }},
                                                    {"z_loss, nll",
                                                     [](auto& p) {
                                                       p.z_loss = 0.03;
                                                       p.nll = true;
                                                     }},
                                                    {"scale, softcap",
                                                     [](auto& p) {
                                                       p.scale = 0.4;
                                                       p.softcap = 3;
                                                     }},
                                                    {"dloss, f32_dweight", [](auto& p) { p.dloss = p.f32_dweight = true; }},
                                                    {"dweight only", [](auto& p) { p.dhidden = false; }},
                                                    {"dlse, z_loss, softcap, dloss",
                                                     [](auto& p) {
                                                       p.dlse = p.dloss = true;
                                                       p.z_loss = 0.03;
                                                       p.softcap = 3;
                                                     }},
                                                    {"no gradient", [](auto& p) { p.dhidden = p.dweight = false; }}};
  for (std::size_t i = 0; i < 3 * std::size(changes); ++i) {  // every option with every reduction
    const auto& [option, change] = changes[i / 3];
    LinearCrossEntropyProblem problem = problem_of((i + i / 3) % 3 == 0 ? DType::f32 : DType::bf16);
    problem.fused = true;
    problem.reduction = std::array{Reduction::mean, Reduction::sum, Reduction::none}.at(i % 3);
    change(problem);
    SCOPED_TRACE(std::string(option) + ", " + std::string(name(problem.dtype)) + ", reduction " + std::to_string(i % 3));
    // The exponentials, the scaled hidden and the gradients are rounded, dweight once a chunk; but no logits.
    expect_right(problem, problem.dtype == DType::f32 ? 4e-6 : 2e-2);
  }
  LinearCrossEntropyProblem problem = problem_of(DType::bf16);
  problem.fused = true;
  const LinearInputs inputs = test::linear_inputs(problem);
  const LinearOutputs found = run(problem, inputs), expected = test::reference(inputs);
  EXPECT_LT(test::distance(found.lse, expected.lse), 1e-6);
  EXPECT_LT(test::distance(found.loss, expected.loss), 1e-6);
  problem.fused = false;
  EXPECT_GT(test::distance(run(problem, inputs).lse, expected.lse), 1e-5) << "rounded logits are as accurate";
}

TEST_F(LinearCrossEntropyHost, FusedLossesOfAnyMagnitude) {
  LinearCrossEntropyProblem problem = problem_of(DType::bf16);
  problem.fused = true;
  for (const double scale : {0.01, 10.0, 40.0, 1000.0}) {  // logits from 0.2 to 20000: losses of 0 and of thousands
    SCOPED_TRACE("scale " + std::to_string(scale));
    problem.scale = scale;
    const LinearInputs inputs = test::linear_inputs(problem);
    LinearOutputs expected = test::reference(inputs), found = run(problem, inputs);
    test::expect_near(found, expected, 1e-2);
    EXPECT_LT(test::distance(found.lse, expected.lse), 1e-6);
  }
  problem.scale = 1;
  problem.tokens = 0;
  const LinearInputs none = test::linear_inputs(problem);
  EXPECT_EQ(run(problem, none).dweight, std::vector<double>(75 * 16, 0.0));
}

TEST_F(LinearCrossEntropyHost, BiasAndItsGradientAgreeWithFloat64) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const bool f32 : {false, true}) {
      SCOPED_TRACE(std::string(name(dtype)) + (f32 ? ", f32 logits" : ""));
      LinearCrossEntropyProblem problem = problem_of(dtype);
      problem.bias = problem.dbias = true;
      problem.f32_logits = problem.f32_dweight = f32;
      // Logits of up to about 10 are rounded to their dtype first; with f32 logits, only their gradient is.
      const double rounding = f32 ? 0.3 : 1;
      expect_right(problem, dtype == DType::f32 ? 4e-6 : rounding * (dtype == DType::f16 ? 5e-3 : 4e-2));
      problem.dhidden = problem.dweight = false;
      if (!f32) problem.softcap = 4;
      problem.class_weight = problem.dloss = true;
      expect_right(problem, dtype == DType::f32 ? 4e-6 : rounding * (dtype == DType::f16 ? 5e-3 : 4e-2));
    }
}

TEST_F(LinearCrossEntropyHost, GradientThroughLseAgreesWithFloat64) {
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
    for (const bool dloss : {false, true})
      for (const bool options : {false, true}) {
        SCOPED_TRACE("reduction " + std::to_string(static_cast<int>(reduction)) + (dloss ? ", dloss" : "") +
                     (options ? ", options" : ""));
        LinearCrossEntropyProblem problem = problem_of(DType::f32);
        problem.reduction = reduction;
        problem.dlse = true;
        problem.dloss = dloss;
        if (options) {
          problem.bias = problem.dbias = problem.class_weight = problem.nll = problem.argmax = true;
          problem.label_smoothing = 0.1;
          problem.z_loss = 0.01;
          problem.softcap = 5;
        }
        expect_right(problem, 4e-6);
      }
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool f32_logits : {false, true}) {
      SCOPED_TRACE(std::string(name(dtype)) + (f32_logits ? ", f32 logits" : ""));
      LinearCrossEntropyProblem problem = problem_of(dtype);
      problem.dlse = true;
      problem.f32_logits = f32_logits;
      expect_right(problem, dtype == DType::f16 ? 4e-3 : 3e-2);
    }
}

TEST_F(LinearCrossEntropyHost, UpstreamGradientsOfAnyMagnitudeFitF16) {
  LinearCrossEntropyProblem problem = problem_of(DType::f16);
  problem.dlse = problem.dloss = problem.f32_logits = problem.f32_dweight = true;
  problem.dhidden = false;
  for (const auto& [dloss, dlse] : {std::pair(0.0f, 1.0f), {0.0f, 1e6f}, {1e-6f, 1e-9f}, {1e6f, 0.0f}, {3e5f, 2e5f}}) {
    SCOPED_TRACE(std::to_string(dloss) + ", " + std::to_string(dlse));
    LinearInputs inputs = test::linear_inputs(problem);
    for (float& value : inputs.dloss) value = dloss;
    for (float& value : inputs.dlse) value *= dlse;
    test::expect_near(run(problem, inputs), test::reference(inputs), 3e-3);
  }
}

TEST_F(LinearCrossEntropyHost, MatricesOfAnyAlignment) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t alignment : {size_of(dtype), std::int64_t{4}, std::int64_t{8}}) {
      SCOPED_TRACE(std::string(name(dtype)) + " aligned to " + std::to_string(alignment));
      LinearCrossEntropyProblem problem = problem_of(dtype);
      problem.hidden_size = 13;  // rows of an odd number of bytes / 2
      problem.bias = problem.dbias = true;
      problem.hidden_alignment = problem.weight_alignment = problem.bias_alignment = alignment;
      problem.dhidden_alignment = problem.dweight_alignment = alignment;
      expect_right(problem, dtype == DType::f32 ? 4e-6 : 4e-2);
    }
}

TEST_F(LinearCrossEntropyHost, RowsDoNotDependOnTheChunks) {
  LinearCrossEntropyProblem problem = problem_of(DType::bf16);
  const LinearInputs inputs = test::linear_inputs(problem);
  const LinearOutputs whole = run(problem, inputs);
  for (const std::int64_t chunk_tokens : {1, 5, 22}) {
    problem.chunk_tokens = chunk_tokens;
    const LinearOutputs parts = run(problem, inputs);
    EXPECT_EQ(parts.loss, whole.loss);
    EXPECT_EQ(parts.lse, whole.lse);
    EXPECT_EQ(parts.dhidden, whole.dhidden);
    // Every chunk after the first rounds to bf16 once (at worst half of 2^-7, relative).
    EXPECT_LE(test::distance(parts.dweight, whole.dweight), 23.0 / static_cast<double>(chunk_tokens) * 0.00390625 + 0.004);
  }
}

TEST_F(LinearCrossEntropyHost, F32DweightHasNoRoundingPerChunk) {
  LinearCrossEntropyProblem problem = problem_of(DType::bf16);
  problem.f32_logits = true;
  problem.chunk_tokens = 1;
  const LinearInputs inputs = test::linear_inputs(problem);
  const LinearOutputs expected = test::reference(inputs);
  const double rounded = test::distance(run(problem, inputs).dweight, expected.dweight);
  problem.f32_dweight = true;
  const double exact = test::distance(run(problem, inputs).dweight, expected.dweight);
  EXPECT_LT(exact, 0.004) << "only the 16-bit gradient of the logits is rounded";
  EXPECT_LT(exact, rounded);
}

TEST_F(LinearCrossEntropyHost, F32LogitsAreMoreAccurate) {
  LinearCrossEntropyProblem problem = problem_of(DType::bf16);
  const LinearInputs inputs = test::linear_inputs(problem);
  const LinearOutputs expected = test::reference(inputs);
  const LinearOutputs rounded = run(problem, inputs);
  problem.f32_logits = true;
  const LinearOutputs exact = run(problem, inputs);
  EXPECT_GT(test::distance(rounded.lse, expected.lse), 1e-4);
  EXPECT_LT(test::distance(exact.lse, expected.lse), 1e-6);
  expect_right(problem, 8e-3);
}

TEST_F(LinearCrossEntropyHost, F16GradientsDoNotUnderflowWithManyTokens) {
  LinearCrossEntropyProblem problem = problem_of(DType::f16);
  problem.tokens = 640;
  problem.vocab_size = 512;
  problem.scale = 0.05;  // nearly equal probabilities of 1/512; 1/512/512 is a denormal of f16
  problem.f32_logits = true;
  problem.chunk_tokens = 250;
  const LinearInputs inputs = test::linear_inputs(problem);
  test::expect_near(run(problem, inputs), test::reference(inputs), 3e-3);
}

TEST_F(LinearCrossEntropyHost, OneOfTheGradientsOrNone) {
  for (const bool dhidden : {false, true})
    for (const bool dweight : {false, true}) {
      LinearCrossEntropyProblem problem = problem_of(DType::f32);
      problem.dhidden = dhidden;
      problem.dweight = dweight;
      expect_right(problem, 4e-6);
    }
}

TEST_F(LinearCrossEntropyHost, AllTokensIgnored) {
  LinearCrossEntropyProblem problem = problem_of(DType::f32);
  problem.chunk_tokens = 9;
  LinearInputs inputs = test::linear_inputs(problem);
  for (std::int64_t t = 0; t < problem.tokens; ++t) write_integer(DType::i64, inputs.targets.data(), t, -100);
  for (const bool fused : {false, true}) {
    problem.fused = fused;
    const LinearOutputs outputs = run(problem, inputs);
    EXPECT_TRUE(std::isnan(outputs.loss[0])) << "the mean of no tokens";
    EXPECT_EQ(outputs.dhidden, std::vector<double>(outputs.dhidden.size(), 0));
    EXPECT_EQ(outputs.dweight, std::vector<double>(outputs.dweight.size(), 0));
  }
}

TEST_F(LinearCrossEntropyHost, InvalidTargetAffectsOnlyTheLoss) {
  LinearCrossEntropyProblem problem = problem_of(DType::f32);
  problem.reduction = Reduction::none;
  problem.chunk_tokens = 9;
  LinearInputs inputs = test::linear_inputs(problem);
  write_integer(DType::i64, inputs.targets.data(), 10, 75);
  write_integer(DType::i64, inputs.targets.data(), 20, -1);
  for (const bool fused : {false, true}) {
    problem.fused = fused;
    test::expect_near(run(problem, inputs), test::reference(inputs), 4e-6);
  }
}

TEST_F(LinearCrossEntropyHost, NoTokens) {
  LinearCrossEntropyProblem problem = problem_of(DType::bf16);
  problem.tokens = 0;
  problem.reduction = Reduction::sum;
  problem.bias = problem.dbias = true;
  for (const bool dlse : {false, true}) {
    problem.dlse = dlse;
    const LinearOutputs outputs = run(problem, test::linear_inputs(problem));
    EXPECT_EQ(outputs.loss, std::vector<double>{0});
    EXPECT_EQ(outputs.dweight, std::vector<double>(outputs.dweight.size(), 0));
    EXPECT_EQ(outputs.dbias, std::vector<double>(75, 0));
  }
}

TEST_F(LinearCrossEntropyHost, UsesOnlyTheCallersWorkspace) {
  LinearCrossEntropyProblem problem = problem_of(DType::f16);
  problem.chunk_tokens = 7;
  problem.caller_workspace = true;
  expect_right(problem, 4e-3);
}

TEST_F(LinearCrossEntropyHost, OptionalOutputsMayBeNull) {
  LinearCrossEntropyProblem problem = problem_of(DType::f32);
  problem.z_loss = 0.01;
  problem.dhidden = problem.dweight = false;
  const LinearInputs inputs = test::linear_inputs(problem);
  const LinearCrossEntropy prepared(engine_, problem);
  float loss = 0;
  LinearCrossEntropyArrays arrays;
  DeviceBuffer hidden(engine_, inputs.hidden.size()), weight(engine_, inputs.weight.size());
  hidden.copy_from_host(inputs.hidden.data(), inputs.hidden.size());
  weight.copy_from_host(inputs.weight.data(), inputs.weight.size());
  arrays.hidden = hidden.data();
  arrays.weight = weight.data();
  arrays.targets = inputs.targets.data();
  arrays.loss = &loss;
  prepared.launch(arrays);
  EXPECT_NEAR(loss, test::reference(inputs).loss[0], 1e-5);
}

TEST_F(LinearCrossEntropyHost, ErrorsNameInvalidFields) {
  const auto expect_rejected = [&](const std::function<void(LinearCrossEntropyProblem&)>& change,
                                   std::initializer_list<std::string_view> words) {
    LinearCrossEntropyProblem problem = problem_of(DType::f32);
    change(problem);
    expect_error([&] { LinearCrossEntropy(engine_, problem); }, ErrorCode::invalid_argument, words);
  };
  expect_rejected([](auto& p) { p.tokens = -1; }, {"tokens is -1", "allowed: 0"});
  expect_rejected([](auto& p) { p.hidden_size = 0; }, {"hidden_size is 0", "allowed: 1"});
  expect_rejected([](auto& p) { p.vocab_size = 0; }, {"vocab_size is 0", "allowed: 1"});
  expect_rejected([](auto& p) { p.chunk_tokens = -3; }, {"chunk_tokens is -3"});
  expect_rejected([](auto& p) { p.memory_bytes = 100; }, {"memory_bytes is 100", "allowed: at least"});
  expect_rejected([](auto& p) { p.dtype = DType::i32; }, {"dtype is 'i32'", "f32, f16, bf16"});
  expect_rejected([](auto& p) { p.target_dtype = DType::f32; }, {"target_dtype is 'f32'", "i32, i64"});
  expect_rejected([](auto& p) { p.label_smoothing = 1.5; }, {"label_smoothing", "1.5"});
  expect_rejected([](auto& p) { p.z_loss = -1; }, {"z_loss", "-1"});
  expect_rejected([](auto& p) { p.scale = 0; }, {"scale", "0"});
  expect_rejected([](auto& p) { p.softcap = -2; }, {"softcap", "-2"});
  expect_rejected(
      [](auto& p) {
        p.dloss = true;
        p.dhidden = p.dweight = false;
      },
      {"dloss is 1; allowed: only with dhidden=1, dweight=1 or dbias=1"});
  expect_rejected([](auto& p) { p.dbias = true; }, {"dbias is 1; allowed: only with bias=1"});
  expect_rejected(
      [](auto& p) {
        p.dlse = true;
        p.dhidden = p.dweight = false;
      },
      {"dlse is 1; allowed: only with dhidden=1, dweight=1 or dbias=1"});
  for (const auto& change : std::initializer_list<std::function<void(LinearCrossEntropyProblem&)>>{
           [](auto& p) { p.argmax = true; }, [](auto& p) { p.dtype = DType::f16; },
           [](auto& p) { p.label_smoothing = 0.1; }})
    expect_rejected(
        [&](auto& p) {
          p.fused = true;
          change(p);
        },
        {"fused is 1; allowed: only with dtype bf16 or f32 and without"});
  expect_rejected([](auto& p) { p.weight_alignment = 2; }, {"weight_alignment is 2", "allowed: a power of two from 4"});
  expect_rejected(
      [](auto& p) {
        p.f32_dweight = true;
        p.dweight = false;
      },
      {"f32_dweight is 1; allowed: only with dweight=1 or dbias=1"});
}

TEST_F(LinearCrossEntropyHost, ErrorsNameInvalidArrays) {
  const LinearCrossEntropyProblem problem = problem_of(DType::f32);
  const LinearCrossEntropy prepared(engine_, problem);
  const LinearInputs inputs = test::linear_inputs(problem);
  DeviceBuffer hidden(engine_, inputs.hidden.size()), weight(engine_, inputs.weight.size());
  DeviceBuffer targets(engine_, inputs.targets.size()), dhidden(engine_, inputs.hidden.size());
  DeviceBuffer dweight(engine_, inputs.weight.size()), loss(engine_, 4);
  hidden.copy_from_host(inputs.hidden.data(), inputs.hidden.size());
  weight.copy_from_host(inputs.weight.data(), inputs.weight.size());
  targets.copy_from_host(inputs.targets.data(), inputs.targets.size());
  LinearCrossEntropyArrays good;
  good.hidden = hidden.data();
  good.weight = weight.data();
  good.targets = targets.data();
  good.loss = static_cast<float*>(loss.data());
  good.dhidden = dhidden.data();
  good.dweight = dweight.data();
  EXPECT_NO_THROW(prepared.launch(good));

  const auto expect_rejected = [&](const std::function<void(LinearCrossEntropyArrays&)>& change,
                                   std::initializer_list<std::string_view> words) {
    LinearCrossEntropyArrays arrays = good;
    change(arrays);
    expect_error([&] { prepared.launch(arrays); }, ErrorCode::invalid_argument, words);
  };
  expect_rejected([](auto& a) { a.hidden = nullptr; }, {"'hidden' is a null pointer", "1472 bytes"});
  expect_rejected([](auto& a) { a.loss = nullptr; }, {"'loss' is a null pointer"});
  expect_rejected([](auto& a) { a.dweight = nullptr; }, {"'dweight' is a null pointer"});
  expect_rejected([](auto& a) { a.weight = static_cast<const char*>(a.weight) + 4; }, {"'weight' is at", "multiple of 16"});
  expect_rejected([](auto& a) { a.targets = static_cast<const char*>(a.targets) + 4; },
                  {"'targets' is at", "multiple of 8"});
  expect_rejected([](auto& a) { a.dhidden = const_cast<void*>(a.hidden); }, {"'dhidden'", "'hidden'", "overlap"});
  expect_rejected([](auto& a) { a.bias = a.hidden; }, {"'bias' is not null", "without it"});
  expect_rejected([](auto& a) { a.dloss = a.loss; }, {"'dloss' is not null", "without it"});
  expect_rejected([](auto& a) { a.class_weight = a.loss; }, {"'class_weight' is not null"});
  expect_rejected([](auto& a) { a.workspace = a.dhidden; }, {"'workspace' is not null"});
  expect_rejected([](auto& a) { a.z_loss = a.loss; }, {"'z_loss' is not null"});
}

}  // namespace
}  // namespace tunesmith
