// score_mod in attention's backward pass: its derivative over dual numbers compared with central differences in float64 of
// functions written again in C++, alone and through all gradients; in combination with every option; score_mod_grad; errors.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/support/source_compilation.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/score_mod_problem.h"
#include "tests/templates/attention_backward/score_mod_values.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::Case;
using test::score_mod_of;
using test::ScoreModProblem;
using Texts = std::vector<std::pair<std::string, std::string>>;

/// Returns a score_mod_grad with this body.
std::string gradient_of(const std::string& body) {
  return "__device__ float score_mod_grad(float score, int b, int h, int q, int k, const Aux& aux) {\n" + body + "\n}\n";
}

Problem backward(const std::string& fields, const Texts& texts) { return test::backward_with_texts(fields, texts); }

/// A function of a score in CUDA, as an expression of `score`, and in C++.
struct Function {
  const char* cuda;
  std::function<double(double)> exact;
};

/// Functions and operators that have a derivative at 0.25 + i / 8, and conversions that have none. `t` is an int.
std::vector<Function> functions() {
  using F = double (*)(double);
  return {
      {"-score", [](double x) { return -x; }},
      {"+score - 2", [](double x) { return x - 2; }},
      {"3 - score * 0.5", [](double x) { return 3 - x * 0.5; }},
      {"score * score / (1.0f + score)", [](double x) { return x * x / (1 + x); }},
      {"2.0 / score", [](double x) { return 2 / x; }},
      {"t * score + 7u * score - 1LL", [](double x) { return 3 * x + 7 * x - 1; }},
      {"score > 1 ? score * score : 0.0f", [](double x) { return x > 1 ? x * x : 0; }},
      {"score > 1 ? -INFINITY : score", [](double x) { return x > 1 ? -INFINITY : x; }},
      {"static_cast<float>(static_cast<int>(score * 3)) + score", [](double x) { return std::trunc(x * 3) + x; }},
      {"float(t) * score", [](double x) { return 3 * x; }},
      {"score ? score : 1.0f", [](double x) { return x; }},
      {"!(score < 1.1f) && score != 1 ? 2 * score : score", [](double x) { return x >= 1.1 ? 2 * x : x; }},
      {"fabsf(0.9f - score) + fabs(score) + abs(-score)", [](double x) { return std::fabs(0.9 - x) + 2 * x; }},
      {"fminf(score, 1.06f) + min(2 * score, 2.06f)", [](double x) { return std::fmin(x, 1.06) + std::fmin(2 * x, 2.06); }},
      {"fmaxf(score, 1.06f) + max(2.06f, 2 * score)", [](double x) { return std::fmax(x, 1.06) + std::fmax(2 * x, 2.06); }},
      {"fmin(score, 1.06f) * fmax(score, 0.7f)", [](double x) { return std::fmin(x, 1.06) * std::fmax(x, 0.7); }},
      {"floorf(score) + ceilf(score) * score + roundf(score) + rintf(score) + truncf(score)",
       [](double x) { return std::floor(x) + std::ceil(x) * x + std::round(x) + std::rint(x) + std::trunc(x); }},
      {"fmaf(score, score, 2 * score)", [](double x) { return x * x + 2 * x; }},
      {"__fdividef(score, 1 + score)", [](double x) { return x / (1 + x); }},
      {"fmodf(score, 0.7f) * score", [](double x) { return std::fmod(x, static_cast<double>(0.7f)) * x; }},
      {"copysignf(score, -1.0f)", [](double x) { return -x; }},
      {"expf(score) + exp(-score)", [](double x) { return std::exp(x) + std::exp(-x); }},
      {"__expf(score) * exp2f(score)", [](double x) { return std::exp(x) * std::exp2(x); }},
      {"expm1f(score)", static_cast<F>(std::expm1)},
      {"logf(score) + log(2 * score) + __logf(score)", [](double x) { return 2 * std::log(x) + std::log(2 * x); }},
      {"log2f(score) + log10f(score)", [](double x) { return std::log2(x) + std::log10(x); }},
      {"log1pf(score)", static_cast<F>(std::log1p)},
      {"powf(score, 2.5f) + pow(score, 3.0f)", [](double x) { return std::pow(x, 2.5) + std::pow(x, 3); }},
      {"powf(2.5f, score) + powf(score, score)", [](double x) { return std::pow(2.5, x) + std::pow(x, x); }},
      {"sqrtf(score) + sqrt(2 * score)", [](double x) { return std::sqrt(x) + std::sqrt(2 * x); }},
      {"rsqrtf(score)", [](double x) { return 1 / std::sqrt(x); }},
      {"cbrtf(score)", static_cast<F>(std::cbrt)},
      {"hypotf(score, 2 * score)", [](double x) { return std::hypot(x, 2 * x); }},
      {"sinf(score) + cos(score)", [](double x) { return std::sin(x) + std::cos(x); }},
      {"tanf(score * 0.5f)", [](double x) { return std::tan(x * 0.5); }},
      {"sum_of_sine_and_cosine(score)", [](double x) { return std::sin(x) + std::cos(x); }},
      {"atanf(score) + atan2f(score, 2.0f)", [](double x) { return std::atan(x) + std::atan2(x, 2); }},
      {"sinhf(score) + coshf(score)", [](double x) { return std::sinh(x) + std::cosh(x); }},
      {"tanhf(score) + tanh(score / 3)", [](double x) { return std::tanh(x) + std::tanh(x / 3); }},
      {"fast_tanhf(score) + fast_tanhf(-40 * score)", [](double x) { return std::tanh(x) + std::tanh(-40 * x); }},
      {"__tanhf(score) + __tanhf(-40 * score)", [](double x) { return std::tanh(x) + std::tanh(-40 * x); }},
      {"tanhf(0.5f) * score + fast_tanhf(1 / score)", [](double x) { return std::tanh(0.5) * x + std::tanh(1 / x); }},
      {"erff(score) - erfcf(2 * score)", [](double x) { return std::erf(x) - std::erfc(2 * x); }},
      {"to_float(score)", [](double x) { return x; }},
      {"polynomial(score)", [](double x) { return ((x + 2) * x - 3) * x * 0.25; }},
  };
}

std::string functions_source() {
  std::string text = R"(
#define QUARTER 0.25f
__device__ __forceinline__ float sum_of_sine_and_cosine(float x) {
  float sine, cosine;
  sincosf(x, &sine, &cosine);
  return sine + cosine;
}
__device__ __forceinline__ void scale_by(float* number, float factor) { *number *= factor; }
__device__ float polynomial(const float& x) {
  const float coefficients[] = {1, 2.0f, -3.0};
  float sum = 0;
  for (int i = 0; i < 3; ++i) sum += i == 0 ? coefficients[i] * x : i == 1 ? coefficients[i] : 0;
  sum = sum * x;
  sum += coefficients[2];
  sum *= x;
  scale_by(&sum, QUARTER);
  return sum;
}
)" + score_mod_of("  const int t = 3;\n  switch (h) {\n");
  text.resize(text.rfind('}'));
  std::size_t number = 0;
  for (const Function& function : functions())
    text += "    case " + std::to_string(number++) + ": return " + function.cuda + ";\n";
  return text + "  }\n  return score;\n}\n";
}

class BackwardScoreMod : public test::HostKernels {};

constexpr const char* simt = "variant=simt,tile_q=16,tile_kv=32,threads=64";

TEST_F(BackwardScoreMod, EveryFunctionHasItsDerivative) {
  const std::vector<Function> all = functions();
  const auto count = static_cast<std::int64_t>(all.size());
  constexpr std::int64_t points = 16;
  const Problem problem = backward("heads=" + std::to_string(count) + ",seq_q=1,seq_kv=16,head_dim=8,dtype=f32",
                                   {{"score_mod", functions_source()}});
  std::vector<float> scores;
  for (std::int64_t i = 0; i < count * points; ++i) scores.push_back(0.25f + static_cast<float>(i % points) / 8);
  with_executables({case_of(problem, simt)}, [&](const Case&, const Executable& executable) {
    const test::ScoreModValues found = test::score_mod_values(problem, device_, executable.module(), scores);
    for (const bool derivative : {false, true})
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const Function& function = all[i / points];
        const double x = scores[i], result = derivative ? found.derivatives[i] : found.values[i];
        double expected = function.exact(x);
        if (derivative) {
          constexpr double step = 1e-6;
          expected = std::isfinite(expected) ? (function.exact(x + step) - function.exact(x - step)) / (2 * step) : 0;
          // Jumps of the rounding functions have no derivative.
          if (std::fabs(expected) > 1e4) continue;
        }
        if (std::isinf(expected))
          EXPECT_EQ(result, expected) << function.cuda << " at " << x;
        else  // a few roundings of float32, and the differences' own error
          EXPECT_NEAR(result, expected, 2e-6 * (1 + std::fabs(expected))) << function.cuda << " at " << x;
      }
  });
}

// The host executor's __tanhf is exact within a few roundings.
TEST_F(BackwardScoreMod, TanhOfEdgeCases) {
  const Problem problem = test::tanh_problem();
  with_executables({case_of(problem, simt)}, [&](const Case&, const Executable& executable) {
    test::check_tanh(problem, device_, executable.module(), 0x1p-22);
  });
}

class BackwardScoreModNvrtc : public test::SourceCompilation {};

TEST_F(BackwardScoreModNvrtc, EveryFunctionCompiles) {
  std::vector<Source> sources;
  // All functions in kernels that are unrolled as little as possible, and a few in others.
  const std::string few = score_mod_of("  return asinf(score) + acos(tanhf(score)) + __saturatef(fminf(score, INFINITY));");
  for (const auto& [source, arch, fields, config] : std::vector<std::array<std::string, 4>>{
           {functions_source(), "sm_75", "seq_q=64,head_dim=8,dtype=f32", "variant=simt,tile_q=16,tile_kv=16,threads=256"},
           {few, "sm_80", "seq_q=64,head_dim=64,dtype=f16,softcap=3,causal=top-left", "variant=mma"},
           {few, "sm_90a", "seq_q=64,head_dim=64,dtype=bf16", "variant=mma"}}) {
    const Problem problem = backward(fields, {{"score_mod", source}});
    const DeviceInfo device = generic_device(parse_arch(arch));
    sources.push_back(source_of(test::case_of(problem, device, config), device.arch));
  }
  compile_covering(sources);
}

// The value and the derivative of a soft cap share its tanh: one, and the weight's exponential, for each score of a thread.
// Two more tanh are in the entries that evaluate score_mod and its derivative alone.
TEST_F(BackwardScoreModNvrtc, ValueAndDerivativeShareATanh) {
  const Problem problem = backward("heads=16,seq_q=4096,head_dim=64,dtype=bf16,causal=bottom-right",
                                   {{"score_mod", test::mod_example("softcap")}});
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const std::string ptx = ptx_of(source_of(test::case_of(problem, device, "variant=wgmma,kernels=1"), device.arch));
  const auto count = [&](std::string_view instruction) {
    int found = 0;
    for (std::size_t at = ptx.find(instruction); at != std::string::npos; at = ptx.find(instruction, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("tanh.approx.f32"), count("ex2.approx.ftz.f32") + 2);
  EXPECT_GT(count("tanh.approx.f32"), 32);
}

// The gradients that the kernels compute, not the reference's.
TEST_F(BackwardScoreMod, GradientsAreCentralDifferencesInFloat64) {
  const std::string bias = test::mod_example("relative_bias");
  const std::string gate = "// aux: gain:f32[heads]; shift:i32=2\n" +
                           score_mod_of(
                               "  const float x = score * aux.gain[h] + 0.1f * (q - k + aux.shift);\n"
                               "  return k % 3 == q % 3 ? tanhf(x) * score : fmaxf(x, 0.2f * x) + sinf(score);");
  const std::vector<ScoreModProblem> problems{
      {bias.c_str(),
       [](double score, std::int64_t h, std::int64_t q, std::int64_t k, const test::Numbers& numbers) {
         return score + numbers.at("bias")[static_cast<std::size_t>(h * (7 + 9 - 1) + k - q + 6)];
       }},
      {gate.c_str(),
       [](double score, std::int64_t h, std::int64_t q, std::int64_t k, const test::Numbers& numbers) {
         const double x = score * numbers.at("gain")[static_cast<std::size_t>(h)] +
                          static_cast<double>(0.1f) * static_cast<double>(q - k + 2);
         return k % 3 == q % 3 ? std::tanh(x) * score : std::fmax(x, static_cast<double>(0.2f) * x) + std::sin(score);
       },
       ",causal=bottom-right,softcap=1.5,alibi=1", 1.5, true, true}};
  std::vector<Case> cases;
  for (const ScoreModProblem& problem : problems) cases.push_back(case_of(problem.problem(), simt));
  std::size_t next = 0;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    EXPECT_GT(
        test::compare_with_differences(problems[next++], c.problem, executable, {{"dq", "q"}, {"dk", "k"}, {"dv", "v"}}),
        0.1);
  });
}

// A derivative that is given replaces the one over dual numbers: a doubled one doubles dq.
TEST_F(BackwardScoreMod, AGivenDerivativeIsTaken) {
  const std::string square = score_mod_of("  return 0.1f * score * score;");
  const auto grad = [](const std::string& derivative) { return gradient_of("  return " + derivative + ";"); };
  const char* const shape = "heads=2,seq_q=20,seq_kv=30,head_dim=16,dtype=f32";
  std::vector<std::unique_ptr<AttentionArraysOnHost>> results;
  const Problem automatic = backward(shape, {{"score_mod", square}}),
                given = backward(shape, {{"score_mod", square}, {"score_mod_grad", grad("0.2f * score")}}),
                doubled = backward(shape, {{"score_mod", square}, {"score_mod_grad", grad("0.4f * score")}});
  EXPECT_NE(find_op("attention_backward").parse(given)->key().problem_class,
            find_op("attention_backward").parse(doubled)->key().problem_class);
  with_executables({case_of(automatic, simt), case_of(given, simt), case_of(doubled, simt)},
                   [&](const Case& c, const Executable& executable) {
                     results.push_back(std::make_unique<AttentionArraysOnHost>(c.problem, 5));
                     std::vector<void*> addresses;
                     for (const HostArray& array : results.back()->all()) addresses.push_back(array.data);
                     executable.enqueue(addresses, nullptr);
                   });
  for (const char* name : {"dq", "dk"})
    for (std::int64_t i = 0; i < (*results[0])[name].info.elements(); ++i) {
      const double expected = results[0]->real(name, i);
      EXPECT_NEAR(results[1]->real(name, i), expected, 1e-5 * (1 + std::fabs(expected)));
      EXPECT_NEAR(results[2]->real(name, i), 2 * expected, 2e-5 * (1 + std::fabs(expected)));
    }
}

std::string rejection(const Texts& texts) {
  try {
    (void)backward("seq_q=64,head_dim=16,dtype=f32", texts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "it is accepted";
}

TEST_F(BackwardScoreMod, WhatHasNoDerivativeIsAnErrorThatSaysWhatToDo) {
  const std::string gradient = "give score_mod_grad";
  for (const char* body : {"  union { float f; int i; } u;\n  u.f = score;\n  return u.f;",
                           "  return reinterpret_cast<int&>(score) > 0 ? score : 0;", "  return (unsigned&)score;",
                           "  float x[1] = {score};\n  return ((const int*)x)[0];",
                           "  return static_cast<float>(static_cast<double>(score));"}) {
    EXPECT_NE(rejection({{"score_mod", score_mod_of(body)}}).find(gradient), std::string::npos) << body;
    EXPECT_EQ(rejection({{"score_mod", score_mod_of(body)},
                         {"score_mod_grad",
                          "__device__ float score_mod_grad(float, int, int, int, int, const Aux&) { "
                          "return 1; }"}}),
              "it is accepted");
  }
  EXPECT_EQ(rejection({{"score_mod", score_mod_of("  // no union (int&)\n  return (int)score + (score) * score;")}}),
            "it is accepted");
  EXPECT_NE(rejection({{"score_mod_grad", "float score_mod_grad(float);"}}).find("there is no score_mod"),
            std::string::npos);
  EXPECT_NE(rejection({{"score_mod", score_mod_of("  return score;")}, {"score_mod_grad", "int x;"}})
                .find("score_mod_grad holds no function"),
            std::string::npos);
}

// The compiler finds the rest, in the source over dual numbers.
TEST_F(BackwardScoreMod, CompileErrorsNameTheLineAndScoreModGrad) {
  for (const char* body : {"  const float* row = aux.bias + h;\n  return score + row[k];",
                           "  double* p = &score;\n  return *p;", "  return *(unsigned long*)&score;"}) {
    const Problem problem = [&] {
      Problem unchecked{"attention_backward", parse_fields("heads=2,seq_q=64,head_dim=16,dtype=f32", "fields")};
      unchecked.fields.set("score_mod", "// aux: bias:f32[heads+seq_kv]\n" + score_mod_of(body));
      return unchecked;
    }();
    std::string message;
    try {
      const Case c = case_of(find_op("attention_backward").normalize(problem), simt);
      (void)compiler_.compile({"attention_backward.cu", render(*c.op().parse(c.problem), c.config), device_.info().arch});
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_NE(message.find("score_mod_grad"), std::string::npos) << body << ": " << message;
  }
}

}  // namespace
}  // namespace tunesmith
