// Numerics of the wgmma kernels of attention's backward pass on the host executor, which emulates Hopper's tensor cores, TMA
// and barriers: a kernel that waits too late reads NaN (jit/host/bulk_copy.cpp).

#include <gtest/gtest.h>

#include "tests/support/host_kernels.h"
#include "tests/support/mutations.h"
#include "tests/templates/attention/mods.h"
#include "tests/templates/attention_backward/cases.h"

namespace tunesmith {
namespace {

using test::Case;

class AttentionBackwardWgmmaHost : public test::HostKernels {
 protected:
  /// The host executor's own search spaces have no wgmma.
  const DeviceInfo hopper_ = generic_device(parse_arch("sm_90a"));

  /// Adds the default configuration with wgmma, if the problem has one, and up to `more` others.
  void add_cases(const Problem& problem, std::size_t more, std::vector<Case>& cases) {
    std::size_t count = 0;
    for (Config& config : find_op("attention_backward").parse(problem)->search_space(hopper_, Effort::full))
      if (config.variant() == "wgmma" && count++ <= more) cases.push_back({problem, std::move(config)});
  }

  /// Returns a problem with wgmma and the other fields of a configuration. `mask_mod`: source; `score_mod`: the name of an
  /// example; empty: none.
  static Case case_of(const std::string& fields, const std::string& config, const std::string& mask_mod,
                      const std::string& score_mod = {}) {
    Problem problem{"attention_backward", parse_fields(fields, "fields")};
    if (!mask_mod.empty()) problem.fields.set("mask_mod", mask_mod);
    if (!score_mod.empty()) problem.fields.set("score_mod", test::mod_example(score_mod));
    return {find_op("attention_backward").normalize(problem), Config{parse_fields("variant=wgmma," + config, "config")}};
  }
};

TEST_F(AttentionBackwardWgmmaHost, DetectsMissingAndLateWaitsOfOrderedSums) {
  const Case ordered =
      test::case_of("attention_backward", "seq_q=500,seq_kv=400,head_dim=128,deterministic=1", hopper_, "kernels=1");
  test::expect_detected(ordered,
                        {
                            {"barrier_wait(barriers.sums_full(stage), parity);", ""},
                            {"barrier_arrive(barriers.sums_empty(stage));", ""},
                            {"if (lane == 0) barrier_arrive(barriers.sums_full(sums.index));", ""},
                            {"store_wait_read<0>();", ""},
                            {"barrier_wait(barriers.dout_empty(stage.index), stage.parity);", ""},
                            {"barrier_wait(barriers.q_empty(stage.index), stage.parity);", ""},
                            {"add_relaxed(this->counter(part), 1);", ""},
                        },
                        device_, compiler_);
}

// Sums that are not zeroed: each part must be stored once, and before any addition.
TEST_F(AttentionBackwardWgmmaHost, DetectsWrongFirstAdditions) {
  const Case helped = test::case_of("attention_backward", "seq_q=300,seq_kv=400,head_dim=64", hopper_, "kernels=1");
  ASSERT_EQ(helped.config.fields.integer("adders"), 1);
  test::expect_detected(helped,
                        {
                            {"== untouched) return true;", "== untouched) return false;"},
                            {"if (target.seen == stored) return false;", "return true;"},
                            {"announces = config.ordered || first;", ""},
                            {"store_wait_read<0>();", ""},
                        },
                        device_, compiler_);
}

/// A mask_mod that depends on batch, head, query and key.
constexpr const char* tree =
    "__device__ bool mask_mod(int b, int h, int q, int k, const Aux&) { return k <= q && (q / 16 == k / 16 || (k + h + b) "
    "% 5 == 0); }";

// Clusters that add dq in shared memory: of all sizes, with blocks that have no keys, Q tiles that see no keys,
// several heads of a key head, and every option that the other kernels have.
TEST_F(AttentionBackwardWgmmaHost, Clusters) {
  constexpr const char* blocks =
      "__device__ bool mask_mod(int, int h, int q, int k, const Aux&) { return q / 128 == k / 128 + h; }";
  struct Clustered {
    const char *fields, *config, *mask_mod, *score_mod;
  };
  std::vector<Case> cases;
  for (const auto& [fields, config, mask_mod, score_mod] : std::vector<Clustered>{
           {"seq_q=300,seq_kv=250,head_dim=128,heads=4,kv_heads=2", "tile_q=64,ahead=1,cluster=2", "", ""},
           {"seq_q=130,seq_kv=250,head_dim=64,heads=2,batch=2,dtype=f16", "tile_q=128,ahead=0,cluster=4", "", ""},
           {"seq_q=200,seq_kv=1000,head_dim=64,heads=2", "tile_q=128,ahead=0,cluster=8", "", ""},
           {"seq_q=500,seq_kv=300,head_dim=96,heads=2,causal=bottom-right,accumulate=1", "tile_q=64,ahead=1,cluster=4", "",
            ""},
           {"seq_q=200,seq_kv=600,head_dim=128,heads=2,causal=top-left,alibi=1,dslopes=1,dlse=1",
            "tile_q=64,ahead=0,cluster=8", "", ""},
           {"seq_q=300,seq_kv=400,head_dim=64,window_left=70,window_right=20,deterministic=1",
            "tile_q=64,stages=3,ahead=1,cluster=4", "", ""},
           {"seq_q=200,seq_kv=300,head_dim=64,head_dim_v=128,heads=2,batch=4,varlen=1,total_q=330,total_kv=410,accumulate=1,"
            "causal=bottom-right",
            "tile_q=64,ahead=0,cluster=4", "", ""},
           {"seq_q=150,seq_kv=200,head_dim=80,softcap=20,dropout=0.3,dropout_seed=4", "tile_q=64,ahead=0,cluster=2", "", ""},
           {"seq_q=300,seq_kv=400,head_dim=64,heads=4,kv_heads=2,batch=2", "tile_q=128,ahead=0,cluster=4", tree, ""},
           {"seq_q=300,seq_kv=500,head_dim=32,heads=2,varlen=1,batch=3,total_q=500,total_kv=700",
            "tile_q=64,ahead=0,cluster=8", blocks, ""},
           {"seq_q=137,seq_kv=253,head_dim=64,heads=2,kv_heads=1", "tile_q=64,ahead=0,cluster=2", "", "relative_bias"}}) {
    std::string all = std::string("roles=keys,") + config;
    if (all.find("stages") == std::string::npos) all.insert(all.find(",ahead"), ",stages=2");
    cases.push_back(case_of(fields, all, mask_mod, score_mod));
  }
  verify_covering(cases);
}

// Two kernels, with dq in the second one: all tiles, K/V tiles that one of a block's warpgroups does not see, queries that
// see no keys, sequences that end within a tile, and every option that the other kernels have.
TEST_F(AttentionBackwardWgmmaHost, TwoKernels) {
  constexpr const char* blocks =
      "__device__ bool mask_mod(int, int h, int q, int k, const Aux&) { return q / 128 == k / 128 + h; }";
  const std::string keys = "roles=keys,tile_q=64,stages=2,", wide = "roles=keys,tile_q=128,stages=2,",
                    gradients = "roles=gradients,tile_q=64,stages=2,ahead=1";
  struct Pair {
    std::string fields, config, mask_mod, score_mod;
  };
  std::vector<Case> cases;
  for (const auto& [fields, config, mask_mod, score_mod] : std::vector<Pair>{
           {"seq_q=300,seq_kv=250,head_dim=128,heads=4,kv_heads=2", keys + "ahead=1,dq_tile_kv=96", "", ""},
           {"seq_q=130,seq_kv=350,head_dim=64,heads=2,batch=2,dtype=f16", wide + "ahead=1,dq_tile_kv=128,dq_stages=3", "",
            ""},
           {"seq_q=200,seq_kv=170,head_dim=256,heads=2,causal=bottom-right", gradients, "", ""},
           {"seq_q=170,seq_kv=300,head_dim=256,heads=4,kv_heads=2,causal=top-left,deterministic=1,dtype=f16",
            gradients + ",dq_tile_q=64,dq_stages=3", "", ""},
           {"seq_q=150,seq_kv=200,head_dim=192,head_dim_v=128,softcap=20,deterministic=1", gradients + ",dq_tile_kv=96", "",
            ""},
           {"seq_q=500,seq_kv=300,head_dim=96,heads=2,causal=bottom-right,accumulate=1", keys + "ahead=1,dq_stages=3", "",
            ""},
           {"seq_q=200,seq_kv=600,head_dim=128,heads=2,causal=top-left,alibi=1,dslopes=1,dlse=1", keys + "ahead=0", "", ""},
           {"seq_q=300,seq_kv=400,head_dim=64,window_left=70,window_right=20,deterministic=1",
            wide + "ahead=0,dq_tile_q=64,dq_tile_kv=128", "", ""},
           {"seq_q=300,seq_kv=400,head_dim=80,head_dim_v=48,window_left=20,window_right=150", keys + "ahead=1", "", ""},
           {"seq_q=200,seq_kv=300,head_dim=64,head_dim_v=128,heads=2,batch=4,varlen=1,total_q=330,total_kv=410,accumulate=1,"
            "causal=bottom-right",
            keys + "ahead=0", "", ""},
           {"seq_q=200,seq_kv=300,head_dim=256,heads=2,kv_heads=1,batch=4,varlen=1,total_q=330,total_kv=410,window_left=90",
            gradients, "", ""},
           {"seq_q=150,seq_kv=200,head_dim=80,softcap=20,dropout=0.3,dropout_seed=4", keys + "ahead=0,dq_tile_kv=96", "",
            ""},
           {"seq_q=150,seq_kv=180,head_dim=256,dropout=0.3,dropout_seed=4,alibi=1,dslopes=1", gradients, "", ""},
           {"seq_q=300,seq_kv=400,head_dim=64,heads=4,kv_heads=2,batch=2", wide + "ahead=0,dq_tile_kv=128", tree, ""},
           {"seq_q=300,seq_kv=500,head_dim=32,heads=2,varlen=1,batch=3,total_q=500,total_kv=700",
            keys + "ahead=1,dq_tile_kv=96,dq_stages=3", blocks, ""},
           {"seq_q=200,seq_kv=250,head_dim=256,heads=2,causal=bottom-right", gradients, tree, ""},
           {"seq_q=137,seq_kv=253,head_dim=64,heads=2,kv_heads=1", keys + "ahead=0", "", "relative_bias"},
           {"seq_q=137,seq_kv=153,head_dim=192,dropout=0.2,causal=bottom-right", gradients, "", "softcap"},
           {"seq_q=200,seq_kv=300,head_dim=128,heads=4,kv_heads=1,causal=bottom-right,deterministic=1",
            keys + "ahead=0,head_split=2", "", ""}}) {
    cases.push_back(case_of(fields, config + ",kernels=2", mask_mod, score_mod));
  }
  verify_covering(cases);
}

// Each wait of the kernel for dq is necessary.
TEST_F(AttentionBackwardWgmmaHost, DetectsMissingAndLateWaitsOfTheKernelForDq) {
  const Case two{test::normalized("attention_backward", "seq_q=200,seq_kv=500,head_dim=64,causal=bottom-right"),
                 Config{parse_fields("variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,kernels=2", "config")}};
  test::expect_detected(two,
                        {
                            {"barrier_wait(barriers.q_full(), 0);", ""},
                            {"barrier_wait(barriers.dout_full(), 0);", ""},
                            {"barrier_wait(barriers.v_empty(v_stage.index), v_stage.parity ^ 1);", ""},
                            {"barrier_wait(barriers.k_empty(k_stage.index), k_stage.parity ^ 1);", ""},
                            {"if (more) now = await_keys(tiles, now.index - 1);", "--now.index;"},
                            {"wgmma_wait<1>(dq);", ""},
                            {"wgmma_wait<0>(gradients);", ""},
                            {"own_q(this->first_q() + 64 * group)", "own_q(this->first_q())"},
                        },
                        device_, compiler_);
}

// Clusters whose blocks share the query heads of a key head: of all sizes, with every option, with sequences that end within
// a tile, and with keys that no query sees.
TEST_F(AttentionBackwardWgmmaHost, HeadSplits) {
  struct Split {
    const char *fields, *config, *mask_mod;
  };
  std::vector<Case> cases;
  for (const auto& [fields, config, mask_mod] : std::vector<Split>{
           {"seq_q=200,seq_kv=300,head_dim=128,heads=4,kv_heads=2,causal=bottom-right",
            "tile_q=64,stages=2,ahead=0,adders=1,head_split=2", ""},
           {"seq_q=100,seq_kv=150,head_dim=64,heads=8,kv_heads=2,dtype=f16",
            "tile_q=128,stages=2,ahead=0,adders=1,head_split=4", ""},
           {"seq_q=70,seq_kv=130,head_dim=64,heads=8,causal=top-left,batch=2,kv_heads=1",
            "tile_q=64,stages=2,ahead=1,head_split=8", ""},
           {"seq_q=100,seq_kv=300,head_dim=96,heads=4,kv_heads=1,causal=top-left,accumulate=1",
            "tile_q=64,stages=2,ahead=1,head_split=2", ""},
           {"seq_q=150,seq_kv=200,head_dim=128,heads=5,kv_heads=1,alibi=1,dslopes=1,softcap=20",
            "tile_q=64,stages=2,ahead=0,head_split=2", ""},
           {"seq_q=150,seq_kv=200,head_dim=80,heads=4,kv_heads=1,window_left=70,window_right=20,dropout=0.3,dropout_seed=4",
            "tile_q=64,stages=3,ahead=0,head_split=4", ""},
           {"seq_q=200,seq_kv=300,head_dim=64,heads=4,kv_heads=2,batch=4,varlen=1,total_q=330,total_kv=410,causal=bottom-"
            "right",
            "tile_q=64,stages=2,ahead=0,adders=1,head_split=2", ""},
           {"seq_q=200,seq_kv=300,head_dim=64,heads=4,kv_heads=1,batch=2", "tile_q=64,stages=2,ahead=0,head_split=4",
            tree}}) {
    cases.push_back(case_of(fields, std::string("roles=keys,") + config, mask_mod));
  }
  verify_covering(cases);
}

// The exchange of a head split: a missing barrier or a wrong rank changes dk or dv.
TEST_F(AttentionBackwardWgmmaHost, DetectsWrongHeadSplits) {
  const Case split{test::normalized("attention_backward", "seq_q=100,seq_kv=150,head_dim=64,heads=4,kv_heads=1"),
                   Config{parse_fields("variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,head_split=4", "config")}};
  test::expect_detected(split,
                        {
                            {"send(dv, rank - 1);", "send(dv, rank);"},
                            {"takes_part && (rank & distance) == 0", "false"},
                            {"takes_part && (rank & distance) != 0", "false"},
                            {"sync_cluster();  // earlier sums have been read", ""},
                            {"kv_head * group + cluster_rank() * group / head_split", "kv_head * group"},
                        },
                        device_, compiler_);
}

// Blocks that go through many keys: with every option, with keys that no query sees, with sequences that end within a tile,
// and with a second K and V (d64) and without.
TEST_F(AttentionBackwardWgmmaHost, PersistentBlocks) {
  struct Persistent {
    const char *fields, *config, *mask_mod, *score_mod;
  };
  std::vector<Case> cases;
  for (const auto& [fields, config, mask_mod, score_mod] : std::vector<Persistent>{
           {"seq_q=300,seq_kv=500,head_dim=64,heads=4,kv_heads=2", "tile_q=128,stages=2,adders=1", "", ""},
           {"seq_q=400,seq_kv=900,head_dim=64,heads=2,causal=bottom-right", "tile_q=128,stages=2,adders=1", "", ""},
           {"seq_q=300,seq_kv=700,head_dim=64,heads=3,causal=top-left,dtype=f16", "tile_q=64,stages=3,adders=1", "", ""},
           {"seq_q=700,seq_kv=300,head_dim=64,heads=2,causal=bottom-right", "tile_q=128,stages=2,adders=1", "", ""},
           {"seq_q=200,seq_kv=600,head_dim=128,heads=2,batch=2,causal=bottom-right,dlse=1", "tile_q=64,stages=2,adders=1",
            "", ""},
           {"seq_q=300,seq_kv=500,head_dim=96,heads=2,accumulate=1", "tile_q=64,stages=2,adders=1", "", ""},
           {"seq_q=300,seq_kv=500,head_dim=64,head_dim_v=128,heads=2,dtype=f16", "tile_q=64,stages=2,adders=1", "", ""},
           {"seq_q=300,seq_kv=500,head_dim=64,heads=4,kv_heads=2,deterministic=1,causal=bottom-right", "tile_q=128,stages=2",
            "", ""},
           {"seq_q=300,seq_kv=500,head_dim=128,heads=2,deterministic=1,accumulate=1", "tile_q=64,stages=3", "", ""},
           {"seq_q=200,seq_kv=400,head_dim=64,heads=2,causal=top-left,alibi=1,dslopes=1,softcap=20",
            "tile_q=64,stages=2,adders=1", "", ""},
           {"seq_q=300,seq_kv=400,head_dim=80,heads=2,window_left=70,window_right=20,dropout=0.3,dropout_seed=4",
            "tile_q=64,stages=2,adders=1", "", ""},
           {"seq_q=200,seq_kv=300,head_dim=64,heads=4,kv_heads=2,batch=4,varlen=1,total_q=330,total_kv=410,accumulate=1,"
            "causal=bottom-right",
            "tile_q=64,stages=2,adders=1", "", ""},
           {"seq_q=300,seq_kv=400,head_dim=64,heads=4,kv_heads=2,batch=2", "tile_q=128,stages=2,adders=1", tree, ""},
           {"seq_q=137,seq_kv=453,head_dim=64,heads=2,kv_heads=1", "tile_q=64,stages=2,adders=1", "", "relative_bias"}}) {
    cases.push_back(case_of(fields, std::string("roles=keys,ahead=0,persistent=1,") + config, mask_mod, score_mod));
  }
  verify_covering(cases);
}

TEST_F(AttentionBackwardWgmmaHost, DetectsMissingWaitsOfPersistentBlocks) {
  const Case persistent{
      test::normalized("attention_backward", "seq_q=500,seq_kv=1400,head_dim=64,heads=3,causal=bottom-right"),
      Config{parse_fields("variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=0,adders=1,persistent=1", "config")}};
  test::expect_detected(persistent,
                        {
                            {"barrier_wait(barriers.dv_staged(items.slot.index, group), items.slot.parity);", ""},
                            {"barrier_wait(barriers.dk_staged(items.slot.index, group), items.slot.parity);", ""},
                            {"barrier_wait(this->barriers.dq_done(this->item.index), this->item.parity);", ""},
                            {"work.kv_at = Tiles::kv_stage(items.slot) * Tiles::kv_bytes;", ""},
                        },
                        device_, compiler_);
}

TEST_F(AttentionBackwardWgmmaHost, UserFunctions) {
  std::vector<Case> cases;
  for (const char* name : {"relative_bias", "softcap", "alibi"}) {
    Problem problem{"attention_backward",
                    parse_fields("batch=2,heads=2,kv_heads=1,seq_q=137,seq_kv=153,head_dim=64,dtype=bf16", "fields")};
    problem.fields.set("score_mod", test::mod_example(name));
    add_cases(find_op("attention_backward").normalize(problem), 1, cases);
  }
  EXPECT_GE(cases.size(), 3U);
  verify_covering(cases);
}

}  // namespace
}  // namespace tunesmith
