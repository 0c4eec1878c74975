// Configurations of attention's backward pass: defaults, completion of pinned ones, search spaces.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/cases.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

const Op& op() { return find_op("attention_backward"); }
Problem normal(const std::string& fields) { return test::normalized("attention_backward", fields); }
DeviceInfo hopper() { return generic_device(parse_arch("sm_90a")); }

// Two kernels are the default where they were measured to be faster.
TEST(AttentionBackwardConfig, TwoKernelsAreTheDefaultOfWideHeadsAndOfFewBlocks) {
  const auto default_of = [](const std::string& fields) {
    return op().parse(normal(fields))->default_config(hopper()).text();
  };
  const std::string two = "variant=wgmma,roles=gradients,tile_q=64,stages=2,ahead=1,kernels=2",
                    one = "variant=wgmma,roles=gradients,tile_q=64,stages=2,ahead=1";
  EXPECT_EQ(default_of("batch=2,heads=8,seq_q=8192,head_dim=256"), two);
  EXPECT_EQ(default_of("batch=2,heads=8,seq_q=8192,head_dim=256,deterministic=1,causal=bottom-right"), two);
  EXPECT_EQ(default_of("batch=2,heads=8,seq_q=8192,head_dim=192"),
            "variant=wgmma,roles=gradients,tile_q=64,stages=3,ahead=1,kernels=2,dq_stages=3");
  // Smaller blocks for dq where blocks are few.
  EXPECT_EQ(default_of("heads=8,seq_q=1024,head_dim=256"), two + ",dq_tile_q=64");
  EXPECT_EQ(default_of("heads=16,seq_q=1024,head_dim=256"), two);
  EXPECT_EQ(default_of("heads=16,seq_q=1024,head_dim=256,causal=top-left"), two + ",dq_tile_q=64");
  // Two kernels compute the numbers of dropout twice.
  EXPECT_EQ(default_of("batch=2,heads=8,seq_q=8192,head_dim=256,dropout=0.1"), one);
  EXPECT_EQ(default_of("batch=2,heads=8,seq_q=8192,head_dim=256,dropout=0.1,deterministic=1"), two);
  EXPECT_EQ(default_of("heads=8,seq_q=1024,head_dim=256,dropout=0.1"), two + ",dq_tile_q=64");
  // Up to head_dim 128: where the blocks of both kernels run at the same time, or under a causal mask the blocks of the
  // first kernel.
  const auto are_two = [&](const std::string& fields) { return default_of(fields).find("kernels=2") != std::string::npos; };
  const std::string causal = ",causal=bottom-right";
  EXPECT_TRUE(are_two("heads=8,seq_q=1024,head_dim=128"));
  EXPECT_FALSE(are_two("heads=16,seq_q=1024,head_dim=128"));
  EXPECT_TRUE(are_two("heads=16,seq_q=1024,head_dim=128" + causal));
  EXPECT_TRUE(are_two("heads=8,seq_q=2048,head_dim=64" + causal));
  EXPECT_FALSE(are_two("heads=8,seq_q=4096,head_dim=64" + causal));
  EXPECT_FALSE(are_two("heads=8,kv_heads=2,seq_q=512,head_dim=128" + causal));
}

// A configuration's text omits cluster=0, so one that has all other fields gets no default's cluster.
TEST(AttentionBackwardConfig, CompleteConfigurationsStayAsTheyAre) {
  const ParsedProblemPtr parsed = op().parse(normal("seq_q=256,head_dim=64,heads=2"));
  const auto completed = [&](const char* config) {
    return parsed->complete_config(hopper(), Config{parse_fields(config, "config")}).text();
  };
  const std::string all = "variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=0";
  EXPECT_EQ(completed(all.c_str()), all);
  EXPECT_EQ(completed("variant=wgmma"), all + ",cluster=2");
  EXPECT_EQ(completed("variant=wgmma,cluster=0"), all);
}

// The default's fourth warpgroup is left out where what is asked for rules it out.
TEST(AttentionBackwardConfig, ConfigurationsWithoutAddersAreCompletedWithoutThem) {
  const ParsedProblemPtr parsed = op().parse(normal("seq_q=512,head_dim=128,heads=64"));
  const auto completed = [&](const char* config) {
    return parsed->complete_config(hopper(), Config{parse_fields(config, "config")}).text();
  };
  const std::string keys = "variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=";
  EXPECT_EQ(completed("variant=wgmma"), keys + "0,adders=1");
  EXPECT_EQ(completed("ahead=1"), keys + "1");
  EXPECT_EQ(completed("cluster=4"), keys + "0,cluster=4");
  EXPECT_EQ(completed("adders=0"), keys + "0");
  EXPECT_THROW(completed("adders=1,ahead=1"), Error);
}

// Few key heads make few blocks. Then the blocks of a cluster share the query heads of a key head.
TEST(AttentionBackwardConfig, HeadSplitsFillTheDevice) {
  const auto split_of = [](const std::string& fields) {
    const Config config = op().parse(normal(fields + ",head_dim=128"))->default_config(hopper());
    const Value* const split = config.fields.find("head_split");
    return split == nullptr ? std::int64_t{0} : std::get<std::int64_t>(*split);
  };
  const std::string causal = ",causal=bottom-right";
  EXPECT_EQ(split_of("heads=64,kv_heads=8,seq_q=4096" + causal), 2);          // 256 blocks
  EXPECT_EQ(split_of("batch=4,heads=16,kv_heads=2,seq_q=4096" + causal), 2);  // 256 blocks
  EXPECT_EQ(split_of("heads=32,kv_heads=8,seq_q=2048" + causal), 2);          // 128 blocks
  EXPECT_EQ(split_of("heads=32,kv_heads=4,seq_q=2048" + causal), 4);          // 64 blocks
  EXPECT_EQ(split_of("heads=32,kv_heads=1,seq_q=4096" + causal), 8);          // 32 blocks
  EXPECT_EQ(split_of("heads=32,kv_heads=1,seq_q=4096"), 8);
  EXPECT_EQ(split_of("heads=32,kv_heads=8,seq_q=8192" + causal), 0);  // 512 blocks
  EXPECT_EQ(split_of("heads=64,kv_heads=8,seq_q=4096"), 0);           // 256 blocks of the same length
  EXPECT_EQ(split_of("heads=28,kv_heads=4,seq_q=3000" + causal), 4);  // of 1 and 2 heads
  EXPECT_EQ(split_of("batch=4,heads=16,seq_q=1024" + causal), 0);     // nothing to share
  EXPECT_EQ(split_of("heads=32,kv_heads=1,seq_q=4096,deterministic=1" + causal), 0);
  const test::Case c = test::case_of("attention_backward", "batch=3,heads=8,kv_heads=2,seq_q=700,seq_kv=500,head_dim=64",
                                     hopper(), "head_split=4");
  const LaunchPlan plan = op().parse(c.problem)->launch_plan(c.config, hopper());
  EXPECT_EQ(plan.kernels[plan.main_kernel].cluster.x, 4U);
  EXPECT_EQ(plan.kernels[plan.main_kernel].grid.x, 3U * 2 * 4 * 4);
  EXPECT_EQ(plan.sums_in_any_order, std::vector<std::string>{"dq"});
}

// Persistent blocks: one for each multiprocessor, or one for each K/V tile if there are fewer.
TEST(AttentionBackwardConfig, PersistentBlocksFillTheDevice) {
  const auto blocks_of = [](const char* fields) {
    const test::Case c =
        test::case_of("attention_backward", fields, hopper(), "kernels=1,tile_q=64,stages=2,ahead=0,adders=1,persistent=1");
    const LaunchPlan plan = op().parse(c.problem)->launch_plan(c.config, hopper());
    return plan.kernels[plan.main_kernel].grid.x;
  };
  EXPECT_EQ(blocks_of("batch=4,heads=16,seq_q=2048,head_dim=128"), 132U);
  EXPECT_EQ(blocks_of("heads=8,seq_q=700,seq_kv=500,head_dim=64"), 8U * 4);
}

// The defaults that follow from measurements.
TEST(AttentionBackwardConfig, DefaultsOfShortAndOfLongSequences) {
  const auto config_of = [](const std::string& fields) {
    return op().parse(normal(fields))->default_config(hopper()).text();
  };
  const std::string tiles = "variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=0",
                    narrow = "head_dim=64,heads=32,dtype=bf16,", causal = ",causal=bottom-right", stays = ",persistent=1";
  EXPECT_EQ(config_of(narrow + "batch=32,seq_q=512"), tiles + ",adders=1" + stays);
  EXPECT_EQ(config_of(narrow + "batch=8,seq_q=2048"), tiles + ",adders=1" + stays);
  EXPECT_EQ(config_of(narrow + "batch=4,seq_q=4096"), tiles + ",adders=1");
  EXPECT_EQ(config_of(narrow + "batch=4,seq_q=4096" + causal), tiles + ",adders=1" + stays);
  EXPECT_EQ(config_of(narrow + "batch=2,seq_q=8192" + causal), tiles);
  EXPECT_EQ(config_of(narrow + "batch=2,seq_q=8192,deterministic=1" + causal), tiles + stays);
  EXPECT_EQ(config_of(narrow + "batch=2,seq_q=8192,deterministic=1"), tiles);
  // Two blocks share the heads of a key head.
  EXPECT_NE(config_of("head_dim=128,heads=64,kv_heads=8,dtype=bf16,seq_q=4096" + causal).find("head_split=2,adders=1"),
            std::string::npos);
  EXPECT_EQ(config_of(narrow + "batch=8,seq_q=2048,kv_heads=8"), tiles + ",adders=1");             // grouped heads
  EXPECT_EQ(config_of("head_dim=64,heads=4,dtype=bf16,batch=2,seq_q=2048"), tiles + ",adders=1");  // 128 blocks
  // Two blocks for each multiprocessor are many: 240 blocks are, on a device of 114.
  DeviceInfo fewer = hopper();
  fewer.sm_count = 114;
  const std::string some = "head_dim=64,heads=30,dtype=bf16,seq_q=1024";
  EXPECT_EQ(config_of(some), tiles + ",adders=1");
  EXPECT_EQ(op().parse(normal(some))->default_config(fewer).text(), tiles + ",adders=1" + stays);
  const std::string wide = "variant=wgmma,roles=keys,tile_q=64,stages=";
  EXPECT_EQ(config_of("head_dim=96,heads=21,batch=2,seq_q=8192" + causal), wide + "3,ahead=1");
  EXPECT_EQ(config_of("head_dim=96,heads=21,batch=8,seq_q=2048" + causal), wide + "2,ahead=0,adders=1");
  EXPECT_EQ(config_of("head_dim=128,heads=16,batch=2,seq_q=8192"), wide + "3,ahead=1");
  EXPECT_EQ(config_of("head_dim=128,heads=16,batch=2,seq_q=8192" + causal), wide + "3,ahead=1");
  EXPECT_EQ(config_of("head_dim=128,heads=16,batch=4,seq_q=4096" + causal), wide + "2,ahead=0,adders=1");
  EXPECT_EQ(config_of("head_dim=96,heads=21,batch=4,seq_q=4096"), wide + "3,ahead=1");
  // User functions at head_dim 64.
  const auto with = [&](const char* function, const char* source, const std::string& fields) {
    Problem problem{"attention_backward", parse_fields(narrow + fields, "fields")};
    problem.fields.set(function, std::string(source));
    return op().parse(op().normalize(problem))->default_config(hopper()).text();
  };
  constexpr const char* mask =
      "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) { return q / 64 == k / 64; }";
  constexpr const char* score =
      "__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) { return score * score; }";
  EXPECT_EQ(with("mask_mod", mask, "batch=4,seq_q=4096"), tiles + ",adders=1" + stays);
  EXPECT_EQ(with("mask_mod", mask, "batch=4,seq_q=4096,kv_heads=8"), tiles + ",adders=1");
  EXPECT_EQ(with("score_mod", score, "batch=4,seq_q=4096" + causal), tiles);
}

TEST(AttentionBackwardConfig, TensorCoresAreTheDefaultWhereTheyAreFaster) {
  for (const auto& [arch, fields, variant] : {std::tuple{"sm_75", "seq_q=4096,head_dim=128", "simt"},
                                              {"sm_80", "seq_q=4096,head_dim=128", "mma"},
                                              {"sm_120a", "seq_q=999,head_dim=256", "mma"},
                                              {"sm_90a", "seq_q=4096,head_dim=128", "wgmma"},
                                              {"sm_90a", "seq_q=999,head_dim=192,head_dim_v=128", "wgmma"},
                                              {"sm_90a", "seq_q=77,head_dim=8,heads=4,kv_heads=1", "mma"},
                                              {"sm_90a", "seq_q=1,seq_kv=999,head_dim=256,dtype=f32", "simt"}})
    EXPECT_EQ(op().parse(normal(fields))->default_config(generic_device(parse_arch(arch))).variant(), variant)
        << arch << fields;
}

}  // namespace
}  // namespace tunesmith
