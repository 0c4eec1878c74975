// Generated kernels of attention's backward pass: NVRTC compiles them for every architecture without spills.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/covering.h"
#include "tests/support/source_compilation.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/matrix.h"

namespace tunesmith {
namespace {

using test::archs;

class AttentionBackwardNvrtc : public test::SourceCompilation {};

class AttentionBackwardNvrtcParts : public AttentionBackwardNvrtc, public testing::WithParamInterface<std::size_t> {};
constexpr std::size_t parts = 6;

TEST_P(AttentionBackwardNvrtcParts, Matrix) {
  std::vector<DeviceInfo> devices;
  for (const char* arch : archs) devices.push_back(generic_device(parse_arch(arch)));
  std::vector<Source> sources;
  for (const test::BackwardCase& each : test::part_of(test::backward_matrix(devices, 2), GetParam(), parts))
    sources.push_back(source_of(each.c, devices[each.device].arch));
  compile_all(sources, any_spills);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionBackwardNvrtcParts, testing::Range(std::size_t{0}, parts));

TEST_F(AttentionBackwardNvrtc, EveryVariantCompilesForEveryArchitectureThatHasIt) {
  std::vector<Source> sources;
  std::map<std::string, std::set<std::string>> archs_of;
  for (const char* name : archs)
    for (const char* fields : {"seq_q=4096,head_dim=128,heads=16,causal=bottom-right",
                               "seq_q=4096,head_dim=64,heads=16,dtype=f16", "seq_q=4096,head_dim=256,heads=16,dtype=f32"}) {
      const Problem problem = test::normalized("attention_backward", fields);
      for (const Config& config : test::sample_space(problem, generic_device(parse_arch(name)), 1, sources.size())) {
        archs_of[config.variant()].insert(name);
        sources.push_back(source_of({problem, config}, parse_arch(name)));
      }
    }
  EXPECT_EQ(archs_of["simt"], (std::set<std::string>(std::begin(archs), std::end(archs))));
  EXPECT_EQ(archs_of["mma"], (std::set<std::string>(std::begin(archs) + 1, std::end(archs))));
  compile_covering(sources);
}

// Every pair of kernels that the tuner tries first, on devices with little and with much shared memory.
TEST_F(AttentionBackwardNvrtc, MmaFitsIntoRegisters) {
  std::vector<Source> sources;
  int turn = 0;
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=16", "seq_q=4096,head_dim=128,heads=16,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=16,dtype=f16", "seq_q=4096,head_dim=192,head_dim_v=128,heads=16",
        "seq_q=4096,head_dim=72,heads=16,softcap=30,alibi=1,dslopes=1,sinks=1,dsinks=1,window_left=100"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    const DeviceInfo device = generic_device(parse_arch(++turn % 2 == 0 ? "sm_80" : "sm_120a"));
    for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device, Effort::quick))
      if (config.variant() == "mma") sources.push_back(source_of({problem, config}, device.arch));
  }
  ASSERT_GT(sources.size(), 15U);
  compile_covering(sources);
  const std::string ptx = ptx_of("attention_backward", "seq_q=4096,head_dim=128", "variant=mma");
  for (const char* instruction :
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ldmatrix.sync.aligned.m8n8.x4.shared",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared", "cp.async.cg.shared.global"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
  // Nothing is summed by atomics: the result is deterministic.
  for (const char* instruction : {"\tred.", "\tatom."}) EXPECT_EQ(ptx.find(instruction), std::string::npos) << instruction;
}

// With spills, or with one register too few, ptxas serializes the products; then the kernel is correct and slow.
TEST_F(AttentionBackwardNvrtc, WgmmaFitsIntoRegisters) {
  std::vector<Source> sources;
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=32",
        "seq_q=4096,head_dim=128,heads=16,causal=bottom-right",
        "seq_q=4096,head_dim=96,heads=16,dtype=f16",
        "seq_q=4096,head_dim=128,heads=16,kv_heads=4,alibi=1,window_left=300",
        "seq_q=4096,head_dim=128,heads=16,kv_heads=4,window_left=300,window_right=100",
        "seq_q=4096,head_dim=80,head_dim_v=48,heads=16,sinks=1,dsinks=1,dlse=1",
        "seq_q=4096,head_dim=128,heads=16,deterministic=1",
        "seq_q=4096,head_dim=128,heads=16,accumulate=1",
        "seq_q=4096,head_dim=64,heads=32,window_left=300,deterministic=1",
        "seq_q=4096,head_dim=256,heads=8",
        "seq_q=4096,head_dim=256,heads=8,causal=bottom-right,alibi=1,deterministic=1",
        "seq_q=4096,head_dim=192,head_dim_v=128,heads=8,dtype=f16",
        "seq_q=4096,head_dim=64,heads=32,softcap=30",
        "seq_q=4096,head_dim=128,heads=16,softcap=30",
        "seq_q=4096,head_dim=128,heads=16,softcap=30,causal=bottom-right",
        "seq_q=4096,head_dim=96,heads=16,softcap=30,alibi=1,dslopes=1,dtype=f16",
        "seq_q=4096,head_dim=256,heads=8,softcap=30",
        "seq_q=4096,head_dim=128,heads=16,alibi=1,dslopes=1",
        "seq_q=4096,head_dim=64,heads=16,alibi=1,dslopes=1",
        "seq_q=4096,head_dim=256,heads=8,alibi=1,dslopes=1,causal=bottom-right",
        "seq_q=4096,head_dim=64,heads=16,dropout=0.1",
        "seq_q=4096,head_dim=128,heads=16,dropout=0.1,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=8,dropout=0.1",
        "seq_q=4096,head_dim=96,heads=16,dropout=0.1,alibi=1,dslopes=1",
        "seq_q=4096,head_dim=128,heads=8,causal=bottom-right,varlen=1,batch=4,total_q=9000,total_kv=9000",
        "seq_q=4096,head_dim=64,heads=8,varlen=1,batch=4,total_q=9000,total_kv=9000,deterministic=1",
        "seq_q=4096,head_dim=256,heads=8,varlen=1,batch=4,total_q=9000,total_kv=9000,accumulate=1"}) {
    const Problem problem = test::normalized("attention_backward", fields);
    for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device, Effort::quick))
      if (config.variant() == "wgmma") sources.push_back(source_of({problem, config}, device.arch));
  }
  ASSERT_GT(sources.size(), 15U);
  compile_covering(sources);
  const std::string ptx = ptx_of("attention_backward", "seq_q=4096,head_dim=128", "variant=wgmma,kernels=1");
  for (const char* instruction :
       {"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16", "setmaxnreg.inc.sync.aligned.u32 208",
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile", "cp.reduce.async.bulk.global.shared::cta"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
}

// The same with two kernels, where consumers have 240 registers.
TEST_F(AttentionBackwardNvrtc, TwoKernelsFitIntoRegisters) {
  std::vector<Source> sources;
  const std::string gradients = "roles=gradients,tile_q=64,stages=2,ahead=1", keys = "roles=keys,tile_q=64,stages=2,ahead=";
  const std::string documents =
      "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q / 450 == k / 450; }";
  struct Pair {
    std::string fields, config, score_mod, mask_mod;
  };
  for (const auto& [fields, config, score_mod, mask_mod] : std::vector<Pair>{
           {"head_dim=256,heads=8", gradients, "", ""},
           {"head_dim=256,heads=8,causal=bottom-right", gradients, "", ""},
           {"head_dim=256,heads=8,window_left=300,alibi=1,dslopes=1", gradients, "", ""},
           {"head_dim=256,heads=8,softcap=30,dtype=f16", gradients + ",dq_tile_q=64", "", ""},
           {"head_dim=256,heads=8,dropout=0.1,causal=bottom-right", gradients, "", ""},
           {"head_dim=256,heads=8,varlen=1,batch=4,total_q=9000,total_kv=9000,causal=bottom-right,accumulate=1", gradients,
            "", ""},
           {"head_dim=256,heads=8,causal=bottom-right", gradients, "", documents},
           {"head_dim=256,heads=8", gradients, "softcap", ""},
           {"head_dim=192,heads=8,causal=bottom-right", gradients + ",dq_stages=3", "", ""},
           {"head_dim=192,head_dim_v=128,heads=8", gradients + ",dq_tile_kv=96", "", ""},
           {"head_dim=128,heads=16,causal=bottom-right", keys + "1,dq_stages=3", "", ""},
           {"head_dim=128,heads=16,kv_heads=4,softcap=30", keys + "0,dq_tile_kv=96", "", ""},
           {"head_dim=96,heads=16,dtype=f16", keys + "1,dq_tile_kv=96", "relative_bias", ""},
           {"head_dim=64,heads=32", "roles=keys,tile_q=128,stages=2,ahead=1,dq_tile_kv=128,dq_stages=3", "", ""}}) {
    Problem problem{"attention_backward", parse_fields("seq_q=4096," + fields, "fields")};
    if (!score_mod.empty()) problem.fields.set("score_mod", test::mod_example(score_mod));
    if (!mask_mod.empty()) problem.fields.set("mask_mod", mask_mod);
    problem = find_op(problem.op).normalize(problem);
    sources.push_back(
        source_of({problem, Config{parse_fields("variant=wgmma,kernels=2," + config, "config")}}, parse_arch("sm_90a")));
  }
  compile_covering(sources);
  const std::string ptx = ptx_of(sources[1]);
  for (const char* instruction :
       {"setmaxnreg.inc.sync.aligned.u32 240", "griddepcontrol.launch_dependents", "griddepcontrol.wait"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
  // dq is not summed in global memory: the result is deterministic.
  for (const char* instruction : {"\tred.", "\tatom.", "cp.reduce"})
    EXPECT_EQ(ptx.find(instruction), std::string::npos) << instruction;
}

// The same with user functions.
TEST_F(AttentionBackwardNvrtc, WgmmaWithUserFunctionsFitsIntoRegisters) {
  const std::string documents =
      "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q / 450 == k / 450; }";
  std::vector<Source> sources;
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  for (const auto& [fields, score_mod, mask_mod] : std::vector<std::array<std::string, 3>>{
           {"seq_q=4096,head_dim=64,heads=16", test::mod_example("relative_bias"), ""},
           {"seq_q=4096,head_dim=128,heads=16,causal=bottom-right", test::mod_example("alibi"), ""},
           {"seq_q=4096,head_dim=256,heads=8", test::mod_example("softcap"), ""},
           {"seq_q=4096,head_dim=64,heads=16", "", documents},
           {"seq_q=4096,head_dim=64,heads=16,causal=bottom-right,deterministic=1", "", documents},
           {"seq_q=4096,head_dim=64,heads=16,dtype=f16,deterministic=1", test::mod_example("softcap"), documents},
           {"seq_q=4096,head_dim=192,heads=8,deterministic=1", "", documents},
           {"seq_q=4096,head_dim=128,heads=16,kv_heads=4,deterministic=1", "", documents},
           {"seq_q=4096,head_dim=256,heads=8,causal=bottom-right", "", documents},
           {"seq_q=4096,head_dim=96,heads=16,causal=bottom-right,dtype=f16", test::mod_example("alibi"), documents},
           {"seq_q=4096,head_dim=64,heads=16,dropout=0.1", test::mod_example("softcap"), ""}}) {
    Problem problem{"attention_backward", parse_fields(fields, "fields")};
    if (!score_mod.empty()) problem.fields.set("score_mod", score_mod);
    if (!mask_mod.empty()) problem.fields.set("mask_mod", mask_mod);
    problem = find_op(problem.op).normalize(problem);
    for (const Config& config : find_op("attention_backward").parse(problem)->search_space(device, Effort::quick))
      if (config.variant() == "wgmma") sources.push_back(source_of({problem, config}, device.arch));
  }
  ASSERT_GT(sources.size(), 7U);
  compile_covering(sources);
}

// Multipliers of 200 registers of tiles keep 208; with fewer, ptxas would serialize their products.
TEST_F(AttentionBackwardNvrtc, MultipliersSpareRegistersForTheBlockMask) {
  const std::string documents =
      "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q / 450 == k / 450; }";
  for (const auto& [fields, multiplier] : {std::pair{"head_dim=64,heads=16,deterministic=1", "192"},
                                           {"head_dim=64,heads=16,dtype=f16,deterministic=1", "200"},
                                           {"head_dim=96,heads=16", "192"},
                                           {"head_dim=128,heads=16,deterministic=1", "208"}}) {
    Problem problem{"attention_backward", parse_fields("seq_q=4096," + std::string(fields), "fields")};
    problem.fields.set("mask_mod", documents);
    problem = find_op(problem.op).normalize(problem);
    const Config config = find_op(problem.op).parse(problem)->default_config(generic_device(parse_arch("sm_90a")));
    ASSERT_EQ(config.variant(), "wgmma") << fields;
    const std::string ptx = ptx_of(source_of({problem, config}, parse_arch("sm_90a")));
    EXPECT_NE(ptx.find("setmaxnreg.inc.sync.aligned.u32 " + std::string(multiplier)), std::string::npos) << fields;
  }
}

}  // namespace
}  // namespace tunesmith
