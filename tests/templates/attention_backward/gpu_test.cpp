// Numerics of attention's backward pass on a GPU, for every variant and many configurations, with poisoned outputs; repeats;
// independence of packed sequences.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/cases.h"
#include "tuner/verify.h"
#include "tunesmith/buffer.h"
#include "tunesmith/tunesmith.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionBackwardGpu : public test::GpuKernels {};

class AttentionBackwardGpuParts : public AttentionBackwardGpu, public testing::WithParamInterface<std::size_t> {};
constexpr std::size_t parts = 6;

TEST_P(AttentionBackwardGpuParts, EveryProblemInEveryVariant) {
  verify_all(test::part_of(test::backward_cases(test::backward_problems(false), device().info(), 3, 7), GetParam(), parts));
}

TEST_P(AttentionBackwardGpuParts, TensorCoresOnEveryProblem) {
  verify_all(test::part_of(test::backward_cases(test::backward_problems(true), device().info(), 3, 107), GetParam(), parts));
}

// Verifies the search spaces of common shapes like the tuner.
TEST_P(AttentionBackwardGpuParts, SearchSpacesOfCommonShapes) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=32,batch=4", "seq_q=4096,head_dim=128,heads=16,batch=4,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=8,batch=4", "seq_q=4096,head_dim=192,head_dim_v=128,heads=8,causal=bottom-right",
        "seq_q=4096,head_dim=128,heads=16,batch=4,causal=bottom-right,deterministic=1",
        "seq_q=4096,head_dim=64,heads=32,batch=4,window_left=700,window_right=90,deterministic=1",
        "seq_q=4096,head_dim=128,heads=32,kv_heads=8,causal=bottom-right,dtype=f16",
        "seq_q=512,head_dim=128,heads=16,batch=32", "seq_q=1024,head_dim=64,heads=16,batch=32",
        "seq_q=250,head_dim=64,heads=16,kv_heads=4,batch=32,causal=bottom-right"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    const Problem small = find_op("attention_backward").parse(problem)->verification_problem();
    for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device().info(), Effort::quick))
      cases.push_back({small, config});
  }
  verify_all(test::part_of(cases, GetParam(), parts));
}

// Kernels with wgmma of which one computes dk and dv and the other one dq.
TEST_F(AttentionBackwardGpu, TwoKernels) {
  if (name(device().info().arch) != "sm_90a") GTEST_SKIP() << "wgmma is sm_90a's";
  const std::string gradients = "roles=gradients,tile_q=64,stages=2,ahead=1", keys = "roles=keys,tile_q=64,stages=2,ahead=";
  std::vector<Case> cases;
  for (const auto& [fields, config] : std::vector<std::pair<std::string, std::string>>{
           {"batch=2,heads=4,kv_heads=2,seq_q=1000,seq_kv=777,head_dim=256", gradients},
           {"batch=2,heads=4,kv_heads=2,seq_q=1000,seq_kv=1050,head_dim=256", gradients},
           {"batch=2,heads=4,seq_q=1000,seq_kv=1333,head_dim=256,causal=bottom-right,dtype=f16",
            gradients + ",dq_tile_q=64"},
           {"batch=2,heads=2,seq_q=1500,seq_kv=777,head_dim=192,head_dim_v=128,causal=top-left,deterministic=1",
            gradients + ",dq_tile_kv=96"},
           {"heads=4,seq_q=2000,head_dim=192,causal=bottom-right,window_left=300", gradients + ",dq_stages=3"},
           {"batch=4,heads=4,varlen=1,total_q=2500,total_kv=2400,seq_q=1000,seq_kv=1100,head_dim=256,causal=bottom-right",
            gradients},
           {"heads=4,kv_heads=1,seq_q=2000,seq_kv=1500,head_dim=128,causal=bottom-right", keys + "1,dq_tile_kv=96"},
           {"heads=4,seq_q=700,seq_kv=900,head_dim=64,alibi=1,dslopes=1,dropout=0.2", keys + "0,dq_stages=3"},
           {"heads=4,seq_q=700,seq_kv=900,head_dim=256,alibi=1,dslopes=1,accumulate=1", gradients}})
    cases.push_back({test::normalized("attention_backward", fields),
                     Config{parse_fields("variant=wgmma,kernels=2," + config, "config")}});
  verify_all(cases);
}

// The same with options that wgmma has in its own way.
TEST_P(AttentionBackwardGpuParts, SearchSpacesOfOptions) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=4096,head_dim=128,heads=16,batch=4,softcap=30",
        "seq_q=4096,head_dim=64,heads=16,batch=4,softcap=20,dtype=f16",
        "seq_q=4096,head_dim=256,heads=8,batch=4,softcap=30,causal=bottom-right",
        "seq_q=4096,head_dim=64,heads=16,kv_heads=4,batch=4,alibi=1,dslopes=1,dtype=f16",
        "seq_q=4096,head_dim=128,heads=16,batch=4,alibi=1,dslopes=1,softcap=30,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=8,batch=4,alibi=1,dslopes=1",
        "seq_q=4096,head_dim=64,heads=16,batch=8,varlen=1,total_q=20000,total_kv=20000,causal=bottom-right,sinks=1,dsinks=1",
        "seq_q=4096,head_dim=128,heads=16,kv_heads=4,batch=8,varlen=1,total_q=20000,total_kv=20000,deterministic=1",
        "seq_q=4096,head_dim=128,heads=16,batch=8,varlen=1,total_q=20000,total_kv=20000,causal=bottom-right,deterministic=1,"
        "accumulate=1,alibi=1,dslopes=1",
        "seq_q=4096,head_dim=256,heads=8,batch=8,varlen=1,total_q=20000,total_kv=20000,softcap=30,accumulate=1",
        "seq_q=4096,head_dim=128,heads=16,batch=4,accumulate=1,dlse=1",
        "seq_q=4096,head_dim=128,heads=16,batch=4,dropout=0.1,dropout_seed=3,causal=bottom-right",
        "seq_q=4096,head_dim=64,heads=16,kv_heads=4,batch=4,dropout=0.3,rng_state=1,alibi=1,dslopes=1,dtype=f16",
        "seq_q=4096,head_dim=256,heads=8,batch=4,dropout=0.2,softcap=30",
        "seq_q=4096,head_dim=96,heads=8,batch=8,varlen=1,total_q=20000,total_kv=20000,dropout=0.1,deterministic=1"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    const Problem small = find_op("attention_backward").parse(problem)->verification_problem();
    for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device().info(), Effort::quick))
      if (config.variant() == "wgmma") cases.push_back({small, config});
  }
  EXPECT_EQ(cases.empty(), name(device().info().arch) != "sm_90a");
  verify_all(test::part_of(cases, GetParam(), parts));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBackwardGpuParts, testing::Range(std::size_t{0}, parts));

// The shipped examples of score_mod, which kernels differentiate.
TEST_F(AttentionBackwardGpu, ScoreModInEveryVariant) {
  std::vector<Case> cases;
  for (const char* name : {"relative_bias", "softcap", "alibi"})
    for (const char* fields : {"batch=2,heads=4,kv_heads=2,seq_q=137,seq_kv=253,head_dim=64,dtype=bf16",
                               "batch=3,heads=2,seq_q=140,seq_kv=267,head_dim=128,dtype=f16,causal=bottom-right,alibi=1,"
                               "dslopes=1,sinks=1,dsinks=1,softcap=3,varlen=1,total_q=270,total_kv=550"})
      for (const char* variant : {"variant=mma", "variant=simt"}) {
        Problem problem{"attention_backward", parse_fields(fields, "fields")};
        problem.fields.set("score_mod", test::mod_example(name));
        problem = find_op(problem.op).normalize(problem);
        cases.push_back(case_of(problem, variant));
      }
  verify_all(cases);
}

// Gradients of the arrays that score_mod reads.
TEST_F(AttentionBackwardGpu, AuxGradientsInEveryVariant) {
  std::vector<Case> cases;
  struct Differentiated {
    const char *name, *array, *fields;
  };
  for (const auto& [name, array, fields] : std::vector<Differentiated>{
           {"relative_bias", "bias", "batch=2,heads=2,kv_heads=1,seq_q=70,seq_kv=130,head_dim=64,dtype=bf16"},
           {"relative_bias", "bias",
            "heads=1,seq_q=150,seq_kv=200,head_dim=128,dtype=bf16,dropout=0.2,deterministic=1,accumulate=1"},
           {"alibi", "slopes", "heads=2,seq_q=90,seq_kv=70,head_dim=256,dtype=f16,causal=top-left"},
           {"relative_bias", "bias",
            "batch=3,heads=1,seq_q=140,seq_kv=267,head_dim=96,dtype=f16,causal=bottom-right,alibi=1,dslopes=1,softcap=3,"
            "varlen=1,total_q=170,total_kv=350,deterministic=1"}})
    for (const char* variant : {"variant=wgmma", "variant=mma", "variant=simt"}) {
      if (std::string_view(variant) == "variant=wgmma" && tunesmith::name(device().info().arch) != "sm_90a") continue;
      Problem problem{"attention_backward", parse_fields(fields, "fields")};
      problem.fields.set("score_mod", test::mod_example(name));
      problem.fields.set("daux", array);
      problem = find_op(problem.op).normalize(problem);
      cases.push_back(case_of(problem, variant));
    }
  verify_all(cases);
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
          {"heads=2,seq_q=300,seq_kv=400,head_dim=64,dtype=f16,dropout=0.3,alibi=1,dslopes=1", gate, ""}};
}

// User functions in wgmma, and what needs P next to its derivative: derivatives of both signs, scores of -inf, block masks
// of more than 32 tiles, tiles that are partial for one warpgroup alone.
class AttentionBackwardGpuUserFunctions : public AttentionBackwardGpu, public testing::WithParamInterface<UserFunctions> {};

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

/// Device arrays of a problem, filled like a test's, with poisoned outputs.
class DeviceProblem {
 public:
  DeviceProblem(Engine& engine, const ParsedProblem& problem) {
    std::vector<HostArray> host;
    for (const ArrayInfo& info : problem.arrays()) {
      const auto bytes = static_cast<std::size_t>(info.extent_bytes());
      memory_.emplace_back(bytes, std::byte{0xFF});
      host.push_back({info, memory_.back().data()});
    }
    problem.fill_inputs(3, InputKind::random, host);
    for (const HostArray& array : host) {
      names_.push_back(array.info.name);
      const auto bytes = static_cast<std::size_t>(array.info.extent_bytes());
      buffers_.emplace_back(engine, bytes);
      buffers_.back().copy_from_host(array.data, bytes);
      addresses_.push_back(buffers_.back().data());
    }
  }
  const std::vector<void*>& addresses() const { return addresses_; }
  std::vector<std::byte> fetch(const std::string& name) {
    const std::size_t at = index(name);
    std::vector<std::byte> result(memory_[at].size());
    buffers_[at].copy_to_host(result.data(), result.size());
    return result;
  }
  std::vector<std::byte>& host(const std::string& name) { return memory_[index(name)]; }
  void send(const std::string& name) {
    const std::size_t at = index(name);
    buffers_[at].copy_from_host(memory_[at].data(), memory_[at].size());
  }

 private:
  std::size_t index(const std::string& name) const {
    return static_cast<std::size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }

  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<void*> addresses_;
};

struct Repeated {
  const char* fields;
  std::string variant;

  friend std::ostream& operator<<(std::ostream& out, const Repeated& problem) {
    return out << problem.fields << ' ' << problem.variant;
  }
};
class AttentionBackwardGpuRepeats : public AttentionBackwardGpu, public testing::WithParamInterface<Repeated> {};

TEST_P(AttentionBackwardGpuRepeats, AreEqualBitForBit) {
  const auto& [fields, variant] = GetParam();
  if (variant.starts_with("wgmma") && name(device().info().arch) != "sm_90a") GTEST_SKIP() << "wgmma is sm_90a's";
  Problem problem{"attention_backward", parse_fields(fields, "fields")};
  if (problem.fields.contains("daux")) problem.fields.set("score_mod", test::mod_example("relative_bias"));
  problem = find_op(problem.op).normalize(problem);
  const ParsedProblemPtr parsed = find_op("attention_backward").parse(problem);
  DeviceProblem on_device(*engine_, *parsed);
  PrepareOptions options;
  if (!variant.empty()) options.config.fields = parse_fields("variant=" + variant, "config");
  const Plan plan = engine_->prepare(problem, options);
  std::map<std::string, std::vector<std::byte>> first;
  const bool ordered = problem.fields.contains("deterministic") || variant.find("cluster") != std::string::npos ||
                       variant.find("kernels=2") != std::string::npos;
  for (int repeat = 0; repeat < (ordered ? 1000 : 50); ++repeat) {
    plan.launch(on_device.addresses());
    engine_->synchronize();
    for (const ArrayInfo& info : parsed->arrays()) {
      // wgmma sums dq in any order.
      if (!info.output || (variant.starts_with("wgmma") && !ordered && info.name == "dq")) continue;
      // One block alone sums the others.
      if (repeat % 20 != 0 && info.name != "dq" && !info.name.starts_with("daux")) continue;
      std::vector<std::byte> result = on_device.fetch(info.name);
      if (repeat == 0)
        first[info.name] = std::move(result);
      else
        ASSERT_EQ(first[info.name] == result, true)
            << variant << " " << fields << ": " << info.name << ", repeat " << repeat;
    }
  }
}

const Repeated repeated[] = {
    {"seq_q=2048,head_dim=128,heads=8,kv_heads=2,causal=bottom-right", "mma"},
    {"seq_q=2048,head_dim=128,heads=8,causal=bottom-right,deterministic=1", "wgmma,kernels=1"},
    {"seq_q=2048,head_dim=64,heads=16,kv_heads=4,deterministic=1", ""},
    {"seq_q=2048,head_dim=256,heads=8,window_left=500,deterministic=1", ""},
    {"seq_q=2048,head_dim=256,heads=8,window_left=500,deterministic=1", "wgmma,kernels=1"},
    {"seq_q=2000,head_dim=256,heads=8,kv_heads=4,causal=bottom-right", "wgmma,kernels=2"},
    {"seq_q=900,head_dim=128,heads=8,batch=8,varlen=1,total_q=4000,total_kv=5000,deterministic=1,causal=bottom-right", ""},
    {"seq_q=2048,head_dim=64,heads=8,kv_heads=2,alibi=1,dslopes=1", "wgmma"},
    {"seq_q=512,head_dim=128,heads=16,batch=8", "wgmma,cluster=4"},
    {"seq_q=1000,head_dim=64,heads=16,kv_heads=4,batch=8,causal=bottom-right", "wgmma,cluster=8"},
    {"seq_q=1000,head_dim=128,heads=8,kv_heads=1,causal=bottom-right", "wgmma,head_split=8"},
    {"seq_q=1000,head_dim=64,heads=8,batch=32,causal=bottom-right", "wgmma,adders=1,persistent=1"},
    {"seq_q=700,head_dim=128,heads=8,kv_heads=4,batch=32,deterministic=1", "wgmma,persistent=1"},
    {"seq_q=1024,head_dim=64,heads=8,dropout=0.2", "mma"},
    {"seq_q=1024,head_dim=64,heads=8,dropout=0.2,deterministic=1", ""},
    {"seq_q=1024,head_dim=64,heads=8,dropout=0.2,deterministic=1", "wgmma,kernels=1"},
    {"seq_q=1000,head_dim=64,heads=8,batch=8,dropout=0.2,deterministic=1,causal=bottom-right",
     "wgmma,kernels=1,persistent=1"},
    {"seq_q=2048,head_dim=128,heads=8,kv_heads=2,causal=bottom-right", "wgmma"},
    {"seq_q=1024,head_dim=64,heads=8,alibi=1,dslopes=1,sinks=1,dsinks=1,dtype=f16", "mma"},
    {"seq_q=512,head_dim=64,heads=4,dtype=f32", "simt"},
    {"seq_q=1024,head_dim=64,heads=8,batch=2,deterministic=1,daux=bias", ""},
    {"seq_q=1024,head_dim=64,heads=8,batch=2,deterministic=1,daux=bias", "mma"}};
INSTANTIATE_TEST_SUITE_P(All, AttentionBackwardGpuRepeats, testing::ValuesIn(repeated));

// NaN in other packed sequences and after the last one does not reach a gradient.
TEST_F(AttentionBackwardGpu, PackedSequencesAreIndependent) {
  constexpr std::int32_t starts[] = {0, 70, 71, 71, 333, 700};
  constexpr std::int64_t batch = std::size(starts) - 1, tail = 20, total = starts[batch] + tail, heads = 2;
  struct Packed {
    const char* config;
    bool exact;  ///< equal sequences have equal gradients
  };
  for (const std::int64_t head_dim : {64, 128, 256})
    for (const auto& [config, exact] : {Packed{"wgmma,kernels=1", true}, Packed{"wgmma,kernels=1", false},
                                        Packed{"wgmma,kernels=2", true}, Packed{"mma", true}, Packed{"simt", true}}) {
      const bool is_wgmma = std::string_view(config).starts_with("wgmma");
      if (is_wgmma && name(device().info().arch) != "sm_90a") continue;
      const std::string where = std::string(config) + ", head_dim " + std::to_string(head_dim) + ", ";
      AttentionBackwardProblem typed{{.batch = batch, .heads = heads, .seq_q = 400, .head_dim = head_dim}};
      typed.varlen = true;
      typed.total_q = typed.total_kv = total;
      typed.dlse = true;
      typed.deterministic = is_wgmma && exact;
      const Problem problem = find_op("attention_backward").normalize(to_problem(typed));
      const ParsedProblemPtr parsed = find_op("attention_backward").parse(problem);
      PrepareOptions options;
      options.config.fields = parse_fields(std::string("variant=") + config, "config");
      const Plan plan = engine_->prepare(problem, options);
      const auto run = [&](bool poisoned) {
        DeviceProblem on_device(*engine_, *parsed);
        for (const char* name : {"cu_seqlens_q", "cu_seqlens_kv"}) {
          std::memcpy(on_device.host(name).data(), starts, sizeof starts);
          on_device.send(name);
        }
        auto* const lse = reinterpret_cast<float*>(on_device.host("lse").data());  // it was filled for other lengths
        for (std::int64_t i = 0; i < heads * total; ++i) lse[i] = 6 + 0.01f * static_cast<float>(i % 17);
        const auto poison = [&](std::int64_t begin, std::int64_t end) {
          for (const char* name : {"q", "k", "v", "o", "dout"}) {
            auto* const elements = reinterpret_cast<std::uint16_t*>(on_device.host(name).data());
            std::fill(elements + begin * heads * head_dim, elements + end * heads * head_dim, std::uint16_t{0x7fc0});
          }
          for (const char* name : {"lse", "dlse"}) {
            auto* const elements = reinterpret_cast<float*>(on_device.host(name).data());
            for (std::int64_t h = 0; h < heads; ++h)
              std::fill(elements + h * total + begin, elements + h * total + end, std::numeric_limits<float>::quiet_NaN());
          }
        };
        if (poisoned) {
          for (std::int64_t b = 1; b < batch; b += 2) poison(starts[b], starts[b + 1]);
          poison(starts[batch], total);
        }
        for (const char* name : {"q", "k", "v", "o", "dout", "lse", "dlse"}) on_device.send(name);
        plan.launch(on_device.addresses());
        engine_->synchronize();
        std::map<std::string, std::vector<std::byte>> gradients;
        for (const char* name : {"dq", "dk", "dv"}) gradients[name] = on_device.fetch(name);
        return gradients;
      };
      auto clean = run(false), poisoned = run(true);
      for (const std::string name : {"dq", "dk", "dv"}) {
        const auto* const a = reinterpret_cast<const std::uint16_t*>(clean[name].data());
        const auto* const b = reinterpret_cast<const std::uint16_t*>(poisoned[name].data());
        for (std::int64_t s = 0; s < batch; s += 2)
          for (std::int64_t i = starts[s] * heads * head_dim; i < starts[s + 1] * heads * head_dim; ++i) {
            ASSERT_LT(b[i] & 0x7fff, 0x7f80) << where << name << ", sequence " << s;  // finite
            if (exact || name != "dq") {                                              // wgmma sums dq in any order
              ASSERT_EQ(a[i], b[i]) << where << name << ", sequence " << s;
            }
          }
        // Check that the poison was present.
        EXPECT_GT(b[starts[1] * heads * head_dim] & 0x7fff, 0x7f80) << where << name;
        for (std::int64_t i = starts[batch] * heads * head_dim; i < total * heads * head_dim; ++i)
          ASSERT_EQ(b[i], 0xFFFF) << where << name << " after the last sequence was written";
      }
    }
}

}  // namespace
}  // namespace tunesmith
