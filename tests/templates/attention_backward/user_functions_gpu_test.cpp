// score_mod, mask_mod and the gradients of the arrays that score_mod reads, in attention's backward pass on a GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/score_mod_values.h"

namespace tunesmith {
namespace {

using test::Case;

// The shipped examples of score_mod, which kernels differentiate.
class AttentionBackwardGpuScoreMod : public test::GpuKernels {};

// __tanhf has the documented error. The check against the reference evaluates it at a score and at both ends of the score's
// rounding error, so within such a short interval it must stay between its values there.
TEST_F(AttentionBackwardGpuScoreMod, ApproximateTanh) {
  const Problem problem = test::tanh_problem();
  const auto module = executable_of(case_of(problem, "variant=simt"))->module();
  test::check_tanh(problem, device(), module, 0x1p-11);

  const auto values = [&](std::vector<float> scores) {
    const std::size_t count = scores.size();
    scores.resize(2 * count);  // head 1 is __tanhf
    std::rotate(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(count), scores.end());
    std::vector<float> found = test::score_mod_values(problem, device(), module, scores).values;
    return std::vector<float>(found.begin() + static_cast<std::ptrdiff_t>(count), found.end());
  };
  std::vector<float> scores;
  for (auto bits = std::bit_cast<std::uint32_t>(0x1p-30f); bits < std::bit_cast<std::uint32_t>(16.0f); bits += 509)
    scores.push_back(std::bit_cast<float>(bits));
  const std::vector<float> spread = values(scores);
  double worst = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double exact = std::tanh(static_cast<double>(scores[i]));
    worst = std::max(worst, std::fabs(spread[i] - exact) / exact);
  }
  std::printf("largest relative error of __tanhf: 2^%.2f\n", std::log2(worst));
  EXPECT_LE(worst, 0x1p-11);

  constexpr std::size_t width = 17;  // consecutive floats
  scores.clear();
  for (auto bits = std::bit_cast<std::uint32_t>(0x1p-8f); bits < std::bit_cast<std::uint32_t>(16.0f); bits += 5003)
    for (std::uint32_t i = 0; i < width; ++i) scores.push_back(std::bit_cast<float>(bits + i));
  const std::vector<float> dense = values(scores);
  std::size_t outside = 0;
  for (std::size_t begin = 0; begin < dense.size(); begin += width) {
    const float low = dense[begin], middle = dense[begin + width / 2], high = dense[begin + width - 1];
    const auto [least, most] = std::minmax({low, middle, high});
    for (std::size_t i = begin; i < begin + width; ++i)
      if (dense[i] < least - 0x1p-22f * middle || dense[i] > most + 0x1p-22f * middle) ++outside;
  }
  EXPECT_EQ(outside, 0) << "of " << dense.size();
}

/// A problem with user functions; empty ones are left out.
struct UserFunctions {
  const char* fields;
  std::string score_mod, mask_mod;
};

/// The name of a test: "3_head_dim_64_bf16_score_mod".
std::string test_name(const testing::TestParamInfo<UserFunctions>& info) {
  const Fields fields = parse_fields(info.param.fields, "fields");
  std::string name =
      std::to_string(info.index) + "_head_dim_" + std::to_string(fields.integer("head_dim")) + "_" + fields.string("dtype");
  if (!info.param.score_mod.empty()) name += "_score_mod";
  if (!info.param.mask_mod.empty()) name += "_mask_mod";
  return name;
}

/// Without this, GoogleTest prints the bytes of the object, addresses included, as part of the test's name for CTest.
void PrintTo(const UserFunctions& functions, std::ostream* out) { *out << functions.fields; }

std::vector<UserFunctions> user_functions() {
  const std::string gate =
      "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux&) {\n"
      "  return k % 7 == 3 ? -INFINITY : score * tanhf(score * 2) + 0.1f * h;\n}\n";
  const std::string tree =
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux&) { return k <= q && (q / 100 == k / 100 || (k + h + "
      "b) "
      "% 500 < 7); }";
  const std::string documents =
      "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q / 450 == k / 450; }";
  const std::string checkerboard =
      "__device__ bool mask_mod(int, int h, int q, int k, const Aux&) { return (q / 64 + k / 64 + h) % 2 == 0; }";
  const std::string stripes =
      "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return (q / 64 + k / 300) % 2 == 0; }";
  const std::string bias = test::mod_example("relative_bias");
  return {{"batch=2,heads=4,kv_heads=2,seq_q=337,seq_kv=453,head_dim=64,dtype=bf16", bias, ""},
          {"batch=2,heads=4,kv_heads=2,seq_q=337,seq_kv=453,head_dim=128,dtype=f16,causal=bottom-right", gate, ""},
          {"heads=2,seq_q=300,seq_kv=300,head_dim=256,dtype=bf16,causal=top-left,sinks=1,dsinks=1", gate, ""},
          {"batch=2,heads=4,kv_heads=2,seq_q=337,seq_kv=453,head_dim=128,dtype=bf16", "", tree},
          {"heads=2,kv_heads=1,seq_q=4300,seq_kv=500,head_dim=64,dtype=bf16", "", documents},
          {"heads=2,kv_heads=1,seq_q=200,seq_kv=2200,head_dim=128,dtype=f16,deterministic=1", "", stripes},
          {"heads=2,seq_q=700,seq_kv=700,head_dim=128,dtype=bf16,causal=bottom-right,deterministic=1", "", documents},
          {"heads=4,kv_heads=2,seq_q=700,seq_kv=500,head_dim=256,dtype=bf16", "", checkerboard},
          {"heads=4,kv_heads=2,seq_q=700,seq_kv=500,head_dim=96,dtype=f16,accumulate=1", gate, checkerboard},
          {"batch=3,heads=2,seq_q=340,seq_kv=467,head_dim=128,dtype=bf16,causal=bottom-right,varlen=1,total_q=670,"
           "total_kv=950,softcap=3,window_left=200",
           gate, tree},
          {"heads=2,seq_q=300,seq_kv=400,head_dim=64,dtype=f16,alibi=1,dslopes=1,softcap=5", gate, ""},
          {"heads=2,seq_q=300,seq_kv=400,head_dim=256,dtype=bf16,alibi=1,dslopes=1", gate, ""},
          {"heads=2,seq_q=300,seq_kv=400,head_dim=192,dtype=bf16,alibi=1,dslopes=1,softcap=5,deterministic=1", "", ""},
          {"heads=2,seq_q=300,seq_kv=400,head_dim=64,dtype=bf16,dropout=0.3,dropout_seed=4", gate, tree},
          {"heads=2,seq_q=300,seq_kv=400,head_dim=256,dtype=bf16,dropout=0.3,dropout_seed=4", gate, ""},
          {"heads=2,seq_q=300,seq_kv=400,head_dim=128,dtype=bf16,dropout=0.3,alibi=1,dslopes=1,softcap=5", "", ""},
          {"heads=2,seq_q=300,seq_kv=400,head_dim=64,dtype=f16,dropout=0.3,alibi=1,dslopes=1", gate, ""},
          {"batch=2,heads=4,kv_heads=2,seq_q=337,seq_kv=453,head_dim=64,dtype=bf16,causal=bottom-right",
           test::mod_example("softcap"), ""}};
}

// User functions in wgmma, and what needs P next to its derivative: derivatives of both signs, scores of -inf, block masks
// of more than 32 tiles, tiles that are partial for one warpgroup alone.
class AttentionBackwardGpuUserFunctions : public test::GpuKernels, public testing::WithParamInterface<UserFunctions> {};

TEST_P(AttentionBackwardGpuUserFunctions, InWgmma) {
  Problem problem{"attention_backward", parse_fields(GetParam().fields, "fields")};
  if (!GetParam().score_mod.empty()) problem.fields.set("score_mod", GetParam().score_mod);
  if (!GetParam().mask_mod.empty()) problem.fields.set("mask_mod", GetParam().mask_mod);
  problem = find_op(problem.op).normalize(problem);
  // The default, the next one, which has another number of kernels, and the last one.
  std::vector<Case> cases;
  for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device().info(), Effort::quick))
    if (config.variant() == "wgmma") cases.push_back({problem, config});
  EXPECT_EQ(cases.empty(), name(device().info().arch) != "sm_90a");
  if (cases.size() > 3) cases.erase(cases.begin() + 2, cases.end() - 1);
  verify_all(cases);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBackwardGpuUserFunctions, testing::ValuesIn(user_functions()), test_name);

}  // namespace
}  // namespace tunesmith
