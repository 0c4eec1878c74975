// Gradients of the arrays that score_mod reads: compared with central differences in float64; verified against the reference
// with every option, in all variants on the host executor; the same bits in every run where that is asked for; compiled for
// every variant; errors.

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "core/half.h"
#include "tests/support/host_kernels.h"
#include "tests/support/source_compilation.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/score_mod_problem.h"
#include "tuner/evaluate.h"
#include "tuner/verify.h"
#include "tunesmith/attention_backward.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::AttentionArraysOnHost;
using test::backward_with_texts;
using test::Case;
using test::score_mod_of;
using test::ScoreModProblem;
using Texts = std::vector<std::pair<std::string, std::string>>;

constexpr const char* simt = "variant=simt,tile_q=16,tile_kv=32,threads=64";

/// Reads an element twice, another one in a branch, and four in a loop: more than threads keep sums of.
const std::string many_reads = "// aux: gain:f32[heads]; bias:f32[seq_q+seq_kv]; table:f32[4]; ids:i32[seq_kv]\n" +
                               score_mod_of(R"(  float x = aux.gain[h] * score + aux.gain[h] * 0.5f;
  if ((q + k) % 3 != 0) x += tanhf(*(aux.bias + q + seq_shift(k)));
  float factor = 0.1f;
  const auto table = aux.table;
  for (int i = 0; i < 4; ++i) factor += table[i] * (i + 1) * 0.1f;
  return x * factor;)");
const std::string many_reads_source = many_reads.substr(0, many_reads.find('\n') + 1) +
                                      "__device__ int seq_shift(int k) { return k; }\n" +
                                      many_reads.substr(many_reads.find('\n') + 1);

class AuxGradient : public test::HostKernels {};

TEST_F(AuxGradient, IsCentralDifferencesInFloat64) {
  const std::string bias = test::mod_example("relative_bias");
  const std::vector<std::pair<ScoreModProblem, std::map<std::string, std::string>>> problems{
      {{bias.c_str(),
        [](double score, std::int64_t h, std::int64_t q, std::int64_t k, const test::Numbers& numbers) {
          return score + numbers.at("bias")[static_cast<std::size_t>(h * (7 + 9 - 1) + k - q + 6)];
        },
        ",daux=bias"},
       {{"daux_bias", "bias"}, {"dq", "q"}}},
      {{many_reads_source.c_str(),
        [](double score, std::int64_t h, std::int64_t q, std::int64_t k, const test::Numbers& numbers) {
          const double gain = numbers.at("gain")[static_cast<std::size_t>(h)];
          double x = gain * score + gain * 0.5, factor = static_cast<double>(0.1f);
          if ((q + k) % 3 != 0) x += std::tanh(numbers.at("bias")[static_cast<std::size_t>(q + k)]);
          for (std::size_t i = 0; i < 4; ++i)
            factor += numbers.at("table")[i] * static_cast<double>(i + 1) * static_cast<double>(0.1f);
          return x * factor;
        },
        ",daux=table;gain;bias,causal=bottom-right,softcap=1.5,alibi=1,deterministic=1", 1.5, true, true},
       {{"daux_gain", "gain"}, {"daux_bias", "bias"}, {"daux_table", "table"}, {"dk", "k"}}}};
  std::vector<Case> cases;
  for (const auto& [problem, gradients] : problems) cases.push_back(case_of(problem.problem(), simt));
  std::size_t next = 0;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const auto& [problem, gradients] = problems[next++];
    EXPECT_GT(test::compare_with_differences(problem, c.problem, executable, gradients), 0.1);
  });
}

// A wrong element in every array is detected.
TEST_F(AuxGradient, TheReferenceDetectsAWrongElement) {
  const Problem problem = backward_with_texts("heads=2,seq_q=20,seq_kv=30,head_dim=16,dtype=f32,daux=gain;bias;table",
                                              {{"score_mod", many_reads_source}});
  const Problem wrong =
      backward_with_texts("heads=2,seq_q=20,seq_kv=30,head_dim=16,dtype=f32,daux=gain;bias;table,scale=0.2502",
                          {{"score_mod", many_reads_source}});
  with_executables({case_of(wrong, simt)}, [&](const Case&, const Executable& executable) {
    EXPECT_FALSE(verify(*find_op("attention_backward").parse(problem), executable, device_, 3).passed);
  });
  with_executables({case_of(problem, simt)}, [&](const Case& c, const Executable& executable) {
    const AttentionArraysOnHost arrays(c.problem, 7);
    std::vector<void*> addresses;
    for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
    const ParsedProblemPtr parsed = c.op().parse(c.problem);
    const Evaluate evaluate = evaluate_on(device_, executable.module());
    parsed->complete_inputs(arrays.all(), evaluate);
    executable.enqueue(addresses, nullptr);
    EXPECT_TRUE(parsed->check_outputs(arrays.all(), 1 << 30, evaluate).passed);
    for (const char* name : {"daux_gain", "daux_bias", "daux_table"}) {
      const double right = arrays.real(name, 1);
      ASSERT_NE(right, 0) << name;
      write_element(DType::f32, arrays[name].data, 1, static_cast<float>(right * 1.01 + (right > 0 ? 0.01 : -0.01)));
      const CheckResult check = parsed->check_outputs(arrays.all(), 1 << 30, evaluate);
      EXPECT_EQ(check.first_failure.rfind(std::string(name) + "[1] is", 0), 0U) << check.first_failure;
      write_element(DType::f32, arrays[name].data, 1, static_cast<float>(right));
    }
  });
}

// Sums in integers do not depend on the order of blocks, whatever the magnitudes of the terms.
TEST_F(AuxGradient, DeterministicSumsHaveManyMagnitudes) {
  const std::string source =
      "// aux: table:f32[4]\n" + score_mod_of("  return score + aux.table[k % 4] * exp2f(-8.0f * (q % 16));");
  const Problem exact = backward_with_texts("heads=3,seq_q=80,seq_kv=90,head_dim=16,dtype=f32,daux=table,deterministic=1",
                                            {{"score_mod", source}}),
                plain = backward_with_texts("heads=3,seq_q=80,seq_kv=90,head_dim=16,dtype=f32,daux=table",
                                            {{"score_mod", source}});
  std::vector<std::vector<double>> results;
  with_executables(
      {case_of(exact, simt), case_of(plain, simt), case_of(exact, "variant=simt,tile_q=32,tile_kv=16,threads=128")},
      [&](const Case& c, const Executable& executable) {
        const AttentionArraysOnHost arrays(c.problem, 5);
        std::vector<void*> addresses;
        for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
        executable.enqueue(addresses, nullptr);
        std::vector<double>& sums = results.emplace_back();
        for (std::int64_t i = 0; i < 4; ++i) sums.push_back(arrays.real("daux_table", i));
      });
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NE(results[0][i], 0);
    EXPECT_NEAR(results[1][i], results[0][i], 1e-5 * (1 + std::fabs(results[0][i])));
    EXPECT_NEAR(results[2][i], results[0][i], 1e-5 * (1 + std::fabs(results[0][i])));
  }
}

TEST_F(AuxGradient, NaNReachesTheGradient) {
  for (const char* deterministic : {"0", "1"}) {
    const Problem problem = backward_with_texts(
        std::string("heads=2,seq_q=20,seq_kv=30,head_dim=16,dtype=f32,daux=slopes,deterministic=") + deterministic,
        {{"score_mod", test::mod_example("alibi")}});
    with_executables({case_of(problem, simt)}, [&](const Case& c, const Executable& executable) {
      const AttentionArraysOnHost arrays(c.problem, 5);
      write_element(DType::f32, arrays["dout"].data, 0, NAN);  // of head 0
      std::vector<void*> addresses;
      for (const HostArray& array : arrays.all()) addresses.push_back(array.data);
      executable.enqueue(addresses, nullptr);
      EXPECT_TRUE(std::isnan(arrays.real("daux_slopes", 0)));
      EXPECT_TRUE(std::isfinite(arrays.real("daux_slopes", 1)));
    });
  }
}

class AuxGradientNvrtc : public test::SourceCompilation {};

TEST_F(AuxGradientNvrtc, EveryVariantCompiles) {
  std::vector<Source> sources;
  for (const auto& [arch, fields, config] : std::vector<std::array<std::string, 3>>{
           {"sm_75", "seq_q=64,head_dim=32,dtype=f32", "variant=simt,tile_q=16,tile_kv=16,threads=64"},
           {"sm_80", "seq_q=64,head_dim=128,dtype=f16,softcap=3,causal=top-left,deterministic=1", "variant=mma"},
           {"sm_90a", "seq_q=64,head_dim=256,dtype=bf16,deterministic=1", "variant=wgmma"},
           {"sm_90a", "seq_q=64,head_dim=64,dtype=bf16,varlen=1,batch=2,total_q=100,total_kv=100,dropout=0.1",
            "variant=wgmma"}}) {
    const Problem problem = backward_with_texts(fields + ",daux=gain;bias", {{"score_mod", many_reads_source}});
    const DeviceInfo device = generic_device(parse_arch(arch));
    sources.push_back(source_of(test::case_of(problem, device, config), device.arch));
  }
  compile_covering(sources);
}

// The typed problem, its generic form, and the arrays in the order of aux.
TEST_F(AuxGradient, NamesAreInTheOrderOfAux) {
  AttentionBackwardProblem typed{};
  typed.seq_q = 8;
  typed.score_mod = many_reads_source;
  typed.daux = {"table", "gain"};
  const Op& op = find_op("attention_backward");
  const Problem problem = op.normalize(to_problem(typed));
  EXPECT_EQ(*problem.fields.find("daux"), Value(std::string("gain;table")));
  std::vector<std::string> names;
  const ParsedProblemPtr parsed = op.parse(problem);
  for (const ArrayInfo& array : parsed->array_view())
    if (array.name.starts_with("daux_")) {
      names.push_back(array.name);
      EXPECT_EQ(array.dtype, DType::f32);
      EXPECT_TRUE(array.output);
    }
  EXPECT_EQ(names, (std::vector<std::string>{"daux_gain", "daux_table"}));
  EXPECT_NE(parsed->key().problem_class.find(",daux_gain,daux_table"), std::string::npos);
  EXPECT_EQ(op.normalize(problem), problem);
}

std::string rejection(const std::string& daux, const Texts& texts) {
  try {
    (void)backward_with_texts("seq_q=64,head_dim=16,dtype=f32,daux=" + daux, texts);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "it is accepted";
}

TEST_F(AuxGradient, WhatHasNoGradientIsNamed) {
  const auto expect = [&](const std::string& daux, const Texts& texts, const std::string& words) {
    EXPECT_NE(rejection(daux, texts).find(words), std::string::npos) << rejection(daux, texts);
  };
  const Texts alibi{{"score_mod", test::mod_example("alibi")}};
  EXPECT_EQ(rejection("slopes", alibi), "it is accepted");
  expect("slopes", {}, "there is no score_mod");
  expect("slope", alibi, "daux names 'slope', which aux does not declare; declared arrays: slopes");
  expect("offset", alibi, "daux names 'offset', which is a number; expected an array, such as offset:f32[1]");
  expect("slopes;slopes", alibi, "names an array twice");
  expect("ids", {{"score_mod", many_reads_source}}, "daux names 'ids', an array of i32; arrays of f32, f16 and bf16");
  expect("daux_x", {{"score_mod", "// aux: daux_x:f32[1]\n" + score_mod_of("  return score + aux.daux_x[0];")}},
         "choose one that does not start with 'daux_'");
  // With score_mod_grad the source is differentiated all the same.
  expect("x",
         {{"score_mod", "// aux: x:f32[1]\n" + score_mod_of("  return static_cast<double>(score) * aux.x[0];")},
          {"score_mod_grad", "__device__ float score_mod_grad(float, int, int, int, int, const Aux&) { return 1; }"}},
         "leave out daux");
}

// The compiler finds the rest.
TEST_F(AuxGradient, CompileErrorsSayThatArraysAreIndexed) {
  const Problem problem = backward_with_texts(
      "heads=2,seq_q=64,head_dim=16,dtype=f32,daux=bias",
      {{"score_mod",
        "// aux: bias:f32[heads+seq_kv]\n" + score_mod_of("  const auto* row = &aux.bias[h];\n  return score + row[k];")},
       {"score_mod_grad", "__device__ float score_mod_grad(float, int, int, int, int, const Aux&) { return 1; }"}});
  std::string message;
  try {
    const Case c = case_of(problem, simt);
    (void)compiler_.compile({"attention_backward.cu", render(*c.op().parse(c.problem), c.config), device_.info().arch});
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_NE(message.find("the arrays of daux can only be indexed"), std::string::npos) << message;
}

}  // namespace
}  // namespace tunesmith
