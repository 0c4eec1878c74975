// Generated attention kernels: NVRTC compiles them for every architecture without spills.

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/source_compilation.h"
#include "tests/templates/attention/cases.h"

namespace tunesmith {
namespace {

using test::archs;

class AttentionNvrtc : public test::SourceCompilation {};

TEST_F(AttentionNvrtc, EveryProblemCompiles) {
  std::vector<Source> sources;
  std::size_t turn = 0;
  for (const Problem& problem : test::attention_problems(false)) {
    const Arch arch = parse_arch(archs[turn++ % std::size(archs)]);
    for (const Config& config : test::sample_space(problem, generic_device(arch), 1, turn))
      sources.push_back(source_of({problem, config}, arch));
  }
  compile_covering(sources);
}

TEST_F(AttentionNvrtc, EveryVariantCompilesForEveryArchitectureThatHasIt) {
  std::vector<Source> sources;
  std::map<std::string, std::set<std::string>> archs_of;
  for (const char* name : archs)
    for (const char* fields :
         {"seq_q=4096,head_dim=128,heads=16,causal=bottom-right", "seq_q=4096,head_dim=64,heads=16,dtype=f16",
          "seq_q=4096,head_dim=256,heads=16,dtype=f32", "seq_q=1,seq_kv=8192,head_dim=128,heads=32,kv_heads=8"}) {
      const Problem problem = test::normalized("attention", fields);
      for (const Config& config : test::sample_space(problem, generic_device(parse_arch(name)), 1, sources.size())) {
        archs_of[config.variant()].insert(name);
        sources.push_back(source_of({problem, config}, parse_arch(name)));
      }
    }
  EXPECT_EQ(archs_of["simt"], (std::set<std::string>(std::begin(archs), std::end(archs))));
  EXPECT_EQ(archs_of["wgmma"], (std::set<std::string>{"sm_90a"}));
  EXPECT_EQ(archs_of["mma"], (std::set<std::string>(std::begin(archs) + 1, std::end(archs))));
  EXPECT_EQ(archs_of["split"], archs_of["mma"]);
  compile_covering(sources);
}

// ptxas does not serialize wgmma (warnings C75xx) for any tile that the tuner tries.
TEST_F(AttentionNvrtc, WgmmaIsNotSerialized) {
  std::vector<Source> sources;
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=16", "seq_q=4096,head_dim=128,heads=16,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=16,dtype=f16", "seq_q=4096,head_dim=192,head_dim_v=128,heads=16",
        "seq_q=4096,head_dim=72,heads=16,softcap=30,alibi=1,sinks=1,window_left=100",
        "seq_q=4096,head_dim=64,heads=16,dropout=0.1", "seq_q=4096,head_dim=128,heads=16,dropout=0.1,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=16,dropout=0.1"}) {
    const Problem problem = test::normalized("attention", fields);
    const DeviceInfo device = generic_device(parse_arch("sm_90a"));
    std::set<std::string> tiles;
    for (const Config& config : find_op("attention").parse(problem)->search_space(device, Effort::quick)) {
      if (config.variant() != "wgmma") continue;
      const std::string tile = text(*config.fields.find("tile_q")) + "x" + text(*config.fields.find("tile_kv"));
      if (tiles.insert(tile).second) sources.push_back(source_of({problem, config}, device.arch));
    }
  }
  ASSERT_GT(sources.size(), 10U);
  compile_covering(sources);
  const std::string ptx = ptx_of(sources.front());
  for (const char* instruction : {"wgmma.mma_async", "cp.async.bulk.tensor.4d", "mbarrier.try_wait", "setmaxnreg.inc"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
}

// Every tile that the tuner tries without wgmma, on devices with little and with much shared memory.
TEST_F(AttentionNvrtc, MmaFitsIntoRegisters) {
  std::vector<Source> sources;
  int turn = 0;
  for (const char* fields :
       {"seq_q=4096,head_dim=64,heads=16", "seq_q=4096,head_dim=128,heads=16,causal=bottom-right",
        "seq_q=4096,head_dim=256,heads=16,dtype=f16",
        "seq_q=4096,head_dim=192,head_dim_v=128,heads=16,varlen=1,"
        "total_q=4096,total_kv=4096",
        "seq_q=4096,head_dim=72,heads=16,softcap=30,alibi=1,sinks=1,window_left=100", "seq_q=40,seq_kv=4096,head_dim=128"}) {
    const Problem problem = test::normalized("attention", fields);
    const DeviceInfo device = generic_device(parse_arch(++turn % 2 == 0 ? "sm_80" : "sm_120a"));
    const std::vector<Config> space = find_op("attention").parse(problem)->search_space(device, Effort::quick);
    EXPECT_EQ(space.front().variant(), "mma");
    const std::size_t before = sources.size();
    for (const Config& config : space)
      if (config.variant() == "mma") sources.push_back(source_of({problem, config}, device.arch));
    EXPECT_LE(sources.size() - before, 12U);
  }
  ASSERT_GT(sources.size(), 20U);
  compile_covering(sources);
  const std::string ptx = ptx_of("attention", "seq_q=4096,head_dim=128", "variant=mma");
  for (const char* instruction :
       {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "ldmatrix.sync.aligned.m8n8.x4.shared",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared", "cp.async.cg.shared.global"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
}

// The same for the split kernel: one and two tiles of rows, and every width.
TEST_F(AttentionNvrtc, SplitFitsIntoRegisters) {
  std::vector<Source> sources;
  std::size_t turn = 0;
  for (const char* fields :
       {"seq_q=1,head_dim=64,heads=32", "seq_q=1,head_dim=128,heads=32,kv_heads=8",
        "seq_q=8,head_dim=128,heads=32,kv_heads=8", "seq_q=1,head_dim=256,heads=8,kv_heads=1,dtype=f16",
        "seq_q=8,head_dim=192,head_dim_v=128,heads=16,kv_heads=4,varlen=1,total_q=8,total_kv=8192",
        "seq_q=6,head_dim=72,heads=16,kv_heads=4,softcap=30,alibi=1,sinks=1,causal=bottom-right,window_left=1000"}) {
    const Problem problem = test::normalized("attention", std::string(fields) + ",seq_kv=8192");
    const char* const some[] = {"sm_90a", "sm_80", "sm_120a"};
    const DeviceInfo device = generic_device(parse_arch(some[turn++ % std::size(some)]));
    for (const Config& config : find_op("attention").parse(problem)->search_space(device, Effort::quick))
      if (config.variant() == "split") sources.push_back(source_of({problem, config}, device.arch));
  }
  ASSERT_GT(sources.size(), 30U);
  compile_covering(sources);
}

// Clusters of every size, for every architecture with clusters.
TEST_F(AttentionNvrtc, SplitInClusters) {
  std::vector<Source> sources;
  for (const char* arch : {"sm_90", "sm_90a", "sm_100a", "sm_120a"})
    for (const char* config : {"cluster=2", "cluster=4,tile_q=32", "cluster=8,warps=2", "cluster=16"})
      for (const char* fields : {"seq_q=1,head_dim=128,heads=32,kv_heads=8",
                                 "seq_q=6,head_dim=72,heads=16,kv_heads=4,"
                                 "softcap=30,alibi=1,sinks=1,varlen=1,total_q=6,total_kv=8192,window_left=1000,dtype=f16"}) {
        const DeviceInfo device = generic_device(parse_arch(arch));
        if (std::string_view(config) == "cluster=16" && device.arch.number() != 90) continue;
        sources.push_back(source_of(
            test::case_of("attention", std::string(fields) + ",seq_kv=8192", device, std::string("variant=split,") + config),
            device.arch));
      }
  compile_covering(sources);
  // If the mbarrier counts bytes, no fence is needed.
  const std::string ptx =
      ptx_of("attention", "seq_q=1,seq_kv=8192,head_dim=128,heads=32,kv_heads=8", "variant=split,cluster=4");
  for (const char* instruction : {"barrier.cluster.arrive.relaxed", "barrier.cluster.wait", "st.async", "mbarrier.try_wait"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
  EXPECT_EQ(ptx.find("barrier.cluster.arrive.release"), std::string::npos);
}

// e4m3 keys and values: every tile that the tuner tries for decoding and for prefill, and every kind of scales.
TEST_F(AttentionNvrtc, E4m3FitsIntoRegisters) {
  std::vector<Source> sources;
  std::size_t turn = 0;
  std::set<std::string> variants;
  for (const char* fields : {"seq_q=1,head_dim=128,heads=32,kv_heads=8", "seq_q=8,head_dim=128,heads=32,kv_heads=8",
                             "seq_q=1,head_dim=64,heads=32", "seq_q=1,head_dim=256,heads=8,kv_heads=1",
                             "seq_q=4096,head_dim=128,heads=16,causal=bottom-right", "seq_q=4096,head_dim=64,heads=16",
                             "seq_q=300,head_dim=192,head_dim_v=128,heads=16,softcap=30,alibi=1,sinks=1,window_left=100"})
    for (const char* kind : {",kv_scales=head", ",kv_scales=token_head,dtype=f16", ",page_size=16,max_pages=512,pages=9"}) {
      const Problem problem = test::normalized("attention", std::string(fields) + ",kv_dtype=e4m3,seq_kv=8192" + kind);
      const char* const some[] = {"sm_90a", "sm_89", "sm_100a", "sm_120a"};
      const DeviceInfo device = generic_device(parse_arch(some[turn++ % std::size(some)]));
      for (const Config& config : find_op("attention").parse(problem)->search_space(device, Effort::quick)) {
        variants.insert(config.variant());
        if (config.variant() != "simt") sources.push_back(source_of({problem, config}, device.arch));
      }
    }
  EXPECT_EQ(variants, (std::set<std::string>{"mma", "simt", "split"}));
  // simt on all architectures: the type is in software before sm_89.
  for (const char* name : archs)
    for (const char* kind : {",kv_scales=head", ",kv_scales=token_head,dtype=f16", ",dtype=f32"}) {
      const DeviceInfo device = generic_device(parse_arch(name));
      const std::string fields = "seq_q=64,seq_kv=300,head_dim=128,heads=4,kv_dtype=e4m3" + std::string(kind);
      sources.push_back(source_of(test::case_of("attention", fields, device, "variant=simt"), device.arch));
    }
  // Tiles of 32 queries at d128 and of 256 columns spill up to 25 registers, which the tuner weighs against a second read.
  compile_covering(sources, 100);
  const std::string ptx = ptx_of("attention", "seq_q=1,seq_kv=8192,head_dim=128,kv_dtype=e4m3", "variant=split");
  for (const char* instruction : {"cvt.rn.f16x2.e4m3x2", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
                                  "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "prmt.b32"})
    EXPECT_NE(ptx.find(instruction), std::string::npos) << instruction;
}

}  // namespace
}  // namespace tunesmith
