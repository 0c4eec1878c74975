// Split-KV attention (few queries, many keys): numerics on the host executor, like host_test.cpp, and the number of splits.

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "tests/support/host_kernels.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionSplit : public test::OptimizedHostKernels {
 protected:
  Case case_of(const std::string& fields, const std::string& config) {
    return test::case_of("attention", fields, device_.info(), "variant=split," + config);
  }
};

LaunchPlan plan_of(const Case& c, const DeviceInfo& device) {
  return c.op().parse(c.problem)->launch_plan(c.config, device);
}

// Queries and groups that fill less than a tile, one tile, or several; keys that do not fill a tile, all warps, or a split.
TEST_F(AttentionSplit, QueriesGroupsAndSplits) {
  std::vector<Case> cases;
  const char* const splits[] = {"splits=1", "splits=2", "splits=7", "splits=0"};
  std::size_t turn = 0;
  for (const char* queries : {"seq_q=1", "seq_q=3", "seq_q=16"})
    for (const char* heads : {"heads=2", "heads=4,kv_heads=1", "heads=5,kv_heads=1", "heads=16,kv_heads=2"})
      for (const char* keys : {"seq_kv=331", "seq_kv=9"}) {
        const std::string dtype = turn % 2 == 0 ? "bf16" : "f16", layout = turn % 3 == 0 ? "bhsd" : "bshd";
        cases.push_back(case_of(
            std::string(queries) + "," + heads + "," + keys + ",head_dim=32,batch=2,dtype=" + dtype + ",layout=" + layout,
            std::string("warps=2,tile_kv=16,") + splits[turn++ % std::size(splits)]));
      }
  // A single query with all numbers of splits.
  for (const char* parts : splits) cases.push_back(case_of("seq_q=1,seq_kv=300,head_dim=64,heads=4,kv_heads=2", parts));
  verify_covering(cases);
}

// Partials that the blocks of a cluster combine: keys for every block, only for the first ones, or fewer for the last ones;
// rows of several clusters; columns that the number of blocks does not divide, or fewer columns than blocks.
TEST_F(AttentionSplit, ClustersOfEverySize) {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const char* cluster : {"cluster=2", "cluster=4", "cluster=8", "cluster=16"})
    for (const char* fields :
         {"seq_q=1,seq_kv=331,heads=8,kv_heads=2,head_dim=32,batch=2", "seq_q=3,seq_kv=77,heads=4,kv_heads=1,head_dim=40",
          "seq_q=1,seq_kv=1,heads=4,kv_heads=2,head_dim=64", "seq_q=16,seq_kv=97,heads=5,kv_heads=1,head_dim=24,sinks=1",
          "seq_q=1,seq_kv=203,heads=6,kv_heads=2,head_dim=16,head_dim_v=8",
          "seq_q=30,seq_kv=19,heads=2,kv_heads=1,head_dim=16,causal=bottom-right",  // the first rows see nothing
          "seq_q=2,seq_kv=290,heads=4,kv_heads=1,head_dim=16,head_dim_v=104,window_left=40,causal=bottom-right",
          "seq_q=4,seq_kv=300,heads=4,kv_heads=2,head_dim=16,batch=7,varlen=1,total_q=11,total_kv=460,layout=bhsd"}) {
      const char* const tilings[] = {"warps=2,tile_kv=16", "warps=1,tile_kv=32,stages=1", "warps=4,tile_kv=16,stages=2",
                                     "warps=2,tile_kv=16,tile_q=32"};
      const std::string dtype = turn % 2 == 0 ? "bf16" : "f16";
      cases.push_back(case_of(std::string(fields) + ",dtype=" + dtype,
                              std::string(cluster) + "," + tilings[turn++ % std::size(tilings)]));
    }
  for (const Case& c : cases) {
    const LaunchPlan plan = plan_of(c, device_.info());
    ASSERT_EQ(plan.kernels.size(), 1U);
    EXPECT_EQ(plan.kernels[0].cluster.x, static_cast<std::uint32_t>(c.config.fields.integer("cluster")));
    EXPECT_EQ(plan.workspace_bytes, 0);
  }
  verify_covering(cases);
}

// The default configuration for decoding, on verification problems, with several splits.
TEST_F(AttentionSplit, DefaultForDecoding) {
  std::vector<Case> cases;
  for (const char* fields :
       {"seq_q=1,seq_kv=8192,head_dim=128,heads=32,kv_heads=8", "seq_q=1,seq_kv=8192,head_dim=64,heads=32,dtype=f16",
        "seq_q=4,seq_kv=2048,head_dim=128,heads=64,kv_heads=8,batch=64,causal=bottom-right"}) {
    const Problem large = test::normalized("attention", fields);
    const Config config = find_op("attention").parse(large)->default_config(device_.info());
    EXPECT_EQ(config.variant(), "split") << fields;
    cases.push_back({find_op("attention").parse(large)->verification_problem(), config});
    const std::size_t kernels = config.fields.integer("cluster") > 1 ? 1 : 2;  // a cluster combines its parts itself
    EXPECT_EQ(plan_of(cases.back(), device_.info()).kernels.size(), kernels) << cases.back().text();
  }
  EXPECT_GT(cases[0].config.fields.integer("cluster"), 1);
  EXPECT_EQ(cases[1].config.fields.integer("cluster"), 1) << "heads share no keys";
  verify_covering(cases);
}

TEST(AttentionSplitCount, FillsTheDevice) {
  DeviceInfo device = generic_device(parse_arch("sm_90a"));
  device.sm_count = 132;
  struct Launch {
    std::int64_t splits, blocks;
  };
  const auto launch = [&](const std::string& fields, const std::string& config = "splits=0") {
    const Case c = test::case_of("attention", fields, device, "variant=split," + config);
    const LaunchPlan plan = plan_of(c, device);
    const Problem& p = c.problem;
    const std::int64_t rows = p.fields.integer("batch") * p.fields.integer("heads") * p.fields.integer("seq_q");
    const std::int64_t part_bytes = 4 * (p.fields.integer("head_dim_v") + 2);
    const bool parts = plan.kernels.size() == 2;
    if (parts) {
      EXPECT_EQ(plan.kernels[1].entry, "attention_combine");
      EXPECT_EQ(plan.kernels[1].grid.x, static_cast<std::uint32_t>(rows));
    }
    EXPECT_EQ(plan.workspace_bytes > 0, parts);
    return Launch{parts ? plan.workspace_bytes / (rows * part_bytes) : 1, plan.kernels[0].grid.x};
  };
  const std::string dims = ",head_dim=128,seq_q=1";
  // Two blocks per multiprocessor (132): nearly all have work, in a single wave.
  for (const char* fields : {"heads=32,seq_kv=8192", "heads=32,kv_heads=8,seq_kv=8192", "heads=32,kv_heads=8,seq_kv=65536",
                             "heads=32,kv_heads=8,batch=8,seq_kv=8192"}) {
    const Launch found = launch(fields + dims);
    EXPECT_GT(found.splits, 1) << fields;
    EXPECT_GE(found.blocks, 264 * 85 / 100) << fields;
    EXPECT_LE(found.blocks, 264) << fields;
  }
  // Enough rows: one kernel without a workspace.
  EXPECT_EQ(launch("heads=32,batch=32,seq_kv=4096" + dims).splits, 1);
  EXPECT_EQ(launch("heads=64,kv_heads=8,batch=64,seq_kv=2048" + dims).splits, 1);
  // A split has a minimum size, even if the device is nearly idle.
  EXPECT_EQ(launch("heads=1,seq_kv=1024" + dims).splits, 8);
  EXPECT_EQ(launch("heads=1,seq_kv=100" + dims).splits, 1);
  // Only unmasked keys are split.
  EXPECT_EQ(launch("heads=1,seq_kv=65536,window_left=255,causal=bottom-right" + dims).splits, 2);
  EXPECT_EQ(launch("heads=1,seq_kv=65536,causal=top-left" + dims).splits, 1);
  // The requested number, but no more than tiles.
  EXPECT_EQ(launch("heads=1,seq_kv=65536" + dims, "splits=5").splits, 5);
  EXPECT_EQ(launch("heads=1,seq_kv=100" + dims, "splits=50,tile_kv=16").splits, 7);
  // One block of a cluster per split, regardless of the number of keys.
  EXPECT_EQ(launch("heads=32,kv_heads=8,batch=8,seq_kv=8192" + dims, "cluster=4").blocks, 256);
  EXPECT_EQ(launch("heads=1,seq_kv=20" + dims, "cluster=16").blocks, 16);
  // Rows fill a tile; more rows need several tiles.
  EXPECT_EQ(launch("heads=32,kv_heads=1,seq_kv=64,head_dim=128,seq_q=4", "splits=1,tile_q=32").blocks, 4);
  EXPECT_EQ(launch("heads=32,kv_heads=1,seq_kv=64,head_dim=64,seq_q=4", "splits=1").blocks, 2);
}

TEST(AttentionSplitCount, OfferedForFewQueries) {
  const auto variant = [](const std::string& fields, const char* arch) {
    return find_op("attention")
        .parse(test::normalized("attention", fields))
        ->default_config(generic_device(parse_arch(arch)))
        .variant();
  };
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"})
    for (const char* head_dim : {"64", "128", "192", "256"})
      EXPECT_EQ(variant(std::string("seq_q=1,seq_kv=8192,heads=32,kv_heads=4,head_dim=") + head_dim, arch), "split")
          << arch << " " << head_dim;
  EXPECT_EQ(variant("seq_q=16,seq_kv=8192,heads=32,kv_heads=8,head_dim=128", "sm_90a"), "split");
  EXPECT_NE(variant("seq_q=1,seq_kv=8192,head_dim=128", "sm_75"), "split");
  EXPECT_NE(variant("seq_q=1,seq_kv=8192,head_dim=128,dtype=f32", "sm_90a"), "split");
  EXPECT_NE(variant("seq_q=17,seq_kv=8192,head_dim=128", "sm_90a"), "split");
  EXPECT_NE(variant("seq_q=1,seq_kv=256,head_dim=128", "sm_90a"), "split");
  EXPECT_NE(variant("seq_q=16,seq_kv=8192,heads=8,kv_heads=1,head_dim=128", "sm_90a"), "split");

  const Op& op = find_op("attention");
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const Problem decoding = test::normalized("attention", "seq_q=1,seq_kv=8192,heads=32,kv_heads=8,head_dim=128");
  const std::vector<Config> space = op.parse(decoding)->search_space(device, Effort::quick);
  EXPECT_LE(space.size(), 16U);
  std::set<std::string> variants;
  for (const Config& config : space) variants.insert(config.variant());
  EXPECT_TRUE(variants.contains("mma"));
  EXPECT_TRUE(variants.contains("simt"));
  for (const char* config : {"variant=split,splits=1025", "variant=split,tile_q=80", "variant=split,q_in_registers=1",
                             "variant=split,cluster=3", "variant=split,cluster=32", "variant=split,cluster=4,splits=4"})
    EXPECT_THROW(op.parse(decoding)->complete_config(device, Config{parse_fields(config, "config")}), Error) << config;
  const Problem many = test::normalized("attention", "seq_q=65,seq_kv=8192,heads=2,kv_heads=1,head_dim=128");
  EXPECT_NE(op.parse(many)->why_invalid(device, op.parse(decoding)->default_config(device)), "");
}

// The search space has a few cluster sizes that fill the device in one wave, or in two with as little idle time.
TEST(AttentionSplitCount, TriesClustersThatFillTheDevice) {
  const Op& op = find_op("attention");
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto tried = [&](const std::string& fields, Effort effort) {
    std::set<std::pair<std::int64_t, std::int64_t>> found;  // warps and blocks
    for (const Config& config : op.parse(test::normalized("attention", fields))->search_space(device, effort))
      if (config.variant() == "split" && config.fields.integer("cluster") > 1)
        found.emplace(config.fields.integer("warps"), config.fields.integer("cluster"));
    return found;
  };
  using Sizes = std::set<std::pair<std::int64_t, std::int64_t>>;
  const std::string eight = "heads=32,kv_heads=8,seq_q=1,head_dim=128,";
  EXPECT_EQ(tried(eight + "batch=8,seq_kv=8192", Effort::quick), (Sizes{{4, 4}, {8, 2}}));
  EXPECT_EQ(tried(eight + "batch=1,seq_kv=65536", Effort::quick), (Sizes{{4, 8}, {4, 16}, {8, 8}, {8, 16}}));
  EXPECT_EQ(tried(eight + "batch=64,seq_kv=2048", Effort::quick), (Sizes{{4, 2}}));
  EXPECT_GT(tried(eight + "batch=8,seq_kv=8192", Effort::full).size(), 6U);
  // A split of a few keys does not justify a block.
  EXPECT_EQ(tried(eight + "batch=1,seq_kv=512", Effort::quick), (Sizes{{4, 4}, {8, 4}}));

  const auto reason = [&](const char* arch, std::int64_t cluster) {
    const DeviceInfo other = generic_device(parse_arch(arch));
    const Problem problem = test::normalized("attention", eight + "seq_kv=8192");
    Config config = op.parse(problem)->default_config(device);
    config.fields.set("cluster", cluster);
    return op.parse(problem)->why_invalid(other, config);
  };
  EXPECT_EQ(reason("sm_90", 16), "");
  EXPECT_EQ(reason("sm_100a", 8), "");
  EXPECT_EQ(reason("sm_100a", 16), "cluster is 16; the device's clusters have at most 8 blocks");
  EXPECT_EQ(reason("sm_89", 2), "cluster is 2, which needs sm_90 or later; the device is sm_89");
}

}  // namespace
}  // namespace tunesmith
