// The descriptor of attention's backward pass: fields, arrays, costs, launches.

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "templates/attention_backward/search/config.h"
#include "tests/support/cases.h"
#include "tunesmith/attention_backward.h"
#include "tunesmith/dispatch.h"

namespace tunesmith {
namespace {

const Op& backward_op() { return find_op("attention_backward"); }
Problem normal_backward(const std::string& fields) { return test::normalized("attention_backward", fields); }
DeviceInfo backward_hopper() { return generic_device(parse_arch("sm_90a")); }

std::string arrays_of(const std::string& fields) {
  std::string text;
  for (const ArrayInfo& info : backward_op().parse(normal_backward(fields))->arrays()) {
    text += (info.output ? "-> " : "") + info.name + "(";
    for (const std::int64_t extent : info.shape) text += std::to_string(extent) + ",";
    text.back() = ')';
    text += " ";
  }
  return text;
}

std::vector<std::string> kernels_of(const std::string& fields, const std::string& config = "") {
  const test::Case c = test::case_of("attention_backward", fields, backward_hopper(), config);
  std::vector<std::string> entries;
  for (const KernelLaunch& kernel : backward_op().parse(c.problem)->launch_plan(c.config, backward_hopper()).kernels)
    entries.push_back(kernel.entry);
  return entries;
}

TEST(AttentionBackwardDescriptor, HasTheArraysOfTheForwardPassAndTheirGradients) {
  EXPECT_EQ(arrays_of("batch=2,seq_q=5,seq_kv=7,heads=6,kv_heads=3,head_dim=64,head_dim_v=32"),
            "q(2,5,6,64) k(2,7,3,64) v(2,7,3,32) o(2,5,6,32) lse(2,6,5) dout(2,5,6,32) -> dq(2,5,6,64) -> dk(2,7,3,64) "
            "-> dv(2,7,3,32) ");
  EXPECT_EQ(arrays_of("seq_q=5,heads=2,head_dim=8,sinks=1,dsinks=1,alibi=1,dslopes=1,dlse=1,varlen=1,total_q=4,total_kv=3"),
            "q(4,2,8) k(3,2,8) v(3,2,8) alibi_slopes(2) sinks(2) cu_seqlens_q(2) cu_seqlens_kv(2) o(4,2,8) lse(2,4) "
            "dout(4,2,8) dlse(2,4) -> dq(4,2,8) -> dk(3,2,8) -> dv(3,2,8) -> dsinks(2) -> dslopes(2) ");
}

TEST(AttentionBackwardDescriptor, UserFunctionsRunOnWgmma) {
  for (const auto& [function, text] : std::vector<std::pair<std::string, std::string>>{
           {"score_mod", "__device__ float score_mod(float s, int, int, int, int, const Aux&) { return 2 * s; }"},
           {"mask_mod", "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q % 3 != k % 3; }"}}) {
    Problem problem = normal_backward("seq_q=512,head_dim=128");
    problem.fields.set(function, text);
    EXPECT_EQ(backward_op().parse(problem)->default_config(backward_hopper()).variant(), "wgmma") << function;
  }
}

TEST(AttentionBackwardDescriptor, AForwardProblemBecomesABackwardProblem) {
  const AttentionProblem forward{.heads = 4, .kv_heads = 2, .seq_q = 100, .head_dim = 64, .causal = Causal::top_left};
  AttentionBackwardProblem backward{forward};
  backward.dlse = true;
  backward.dq_strides.seq = 512;
  EXPECT_EQ(backward_op().normalize(to_problem(backward)),
            normal_backward("heads=4,kv_heads=2,seq_q=100,head_dim=64,causal=top-left,dlse=1,dq_seq_stride=512,dtype=bf16"));
}

TEST(AttentionBackwardDescriptor, AddressesEnableOptions) {
  AttentionBackwardArrays arrays;
  float floats[4] = {};
  arrays.sinks = arrays.alibi_slopes = arrays.dlse = floats;
  arrays.dsinks = arrays.dslopes = floats;
  const AttentionBackwardProblem asked{{.seq_q = 5, .head_dim = 64}};
  const AttentionBackwardProblem problem = with_addresses(asked, arrays);
  EXPECT_TRUE(problem.sinks && problem.alibi && problem.dlse && problem.dsinks && problem.dslopes);
}

TEST(AttentionBackwardDescriptor, KeysDistinguishProblemClasses) {
  const auto key = [](const std::string& fields) {
    return backward_op().parse(normal_backward(fields))->key().problem_class;
  };
  const std::string shape = "seq_q=512,seq_kv=2048,head_dim=64,heads=8";
  for (const char* other :
       {",dtype=f16", ",kv_heads=2", ",causal=top-left", ",softcap=3", ",alibi=1", ",dlse=1", ",dk_alignment=8"})
    EXPECT_NE(key(shape), key(shape + other)) << other;
  for (const char* other : {",accumulate=1", ",dropout=0.1", ",deterministic=1"})
    EXPECT_NE(key(shape), key(shape + other)) << other;
  EXPECT_NE(key(shape + ",sinks=1"), key(shape + ",sinks=1,dsinks=1"));
  EXPECT_NE(key(shape + ",alibi=1"), key(shape + ",alibi=1,dslopes=1"));
}

TEST(AttentionBackwardDescriptor, AccumulationReadsTheGradients) {
  const ParsedProblemPtr adds = backward_op().parse(normal_backward("seq_q=20,head_dim=16,dtype=f32,accumulate=1")),
                         replaces = backward_op().parse(normal_backward("seq_q=20,head_dim=16,dtype=f32"));
  EXPECT_DOUBLE_EQ(adds->cost().bytes_written, replaces->cost().bytes_written);
  EXPECT_DOUBLE_EQ(adds->cost().bytes_read, replaces->cost().bytes_read + replaces->cost().bytes_written);
  std::vector<std::vector<std::byte>> memory;
  std::vector<HostArray> arrays;
  for (const ArrayInfo& info : adds->arrays()) {
    EXPECT_TRUE(info.input) << info.name;  // the gradients, too
    memory.emplace_back(static_cast<std::size_t>(info.extent_bytes()));
    arrays.push_back({info, memory.back().data()});
  }
  adds->fill_inputs(3, InputKind::random, arrays);
  try {
    (void)adds->check(arrays, 1 << 20);
    FAIL() << "the values from before the run are needed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("values from before the run"), std::string::npos) << error.what();
  }
}

TEST(AttentionBackwardDescriptor, CostsCountFiveProducts) {
  const auto flops = [](const std::string& fields) { return backward_op().parse(normal_backward(fields))->cost().flops; };
  EXPECT_DOUBLE_EQ(flops("batch=2,heads=4,seq_q=100,seq_kv=50,head_dim=64,head_dim_v=32"),
                   2.0 * 2 * 4 * 100 * 50 * (3 * 64 + 2 * 32));
  EXPECT_DOUBLE_EQ(flops("seq_q=100,head_dim=64,causal=top-left"), 10.0 * 64 * (100 * 101 / 2));
}

TEST(AttentionBackwardDescriptor, LaunchesOnlyWhatIsNeeded) {
  using Names = std::vector<std::string>;
  const std::string prepare = "attention_backward_prepare", keys = "attention_backward_keys",
                    queries = "attention_backward_queries", heads = "attention_backward_heads";
  const std::string one = "attention_backward", dq = "attention_backward_dq", mma = "variant=mma";
  EXPECT_EQ(kernels_of("seq_q=100,head_dim=64", mma), (Names{prepare, keys, queries}));
  EXPECT_EQ(kernels_of("seq_q=100,head_dim=64,sinks=1", mma), (Names{prepare, keys, queries}));
  EXPECT_EQ(kernels_of("seq_q=100,head_dim=64,sinks=1,dsinks=1", mma), (Names{prepare, keys, queries, heads}));
  EXPECT_EQ(kernels_of("seq_q=100,head_dim=64"), (Names{prepare, keys, queries}));
  EXPECT_EQ(kernels_of("seq_q=100,head_dim=64", "kernels=1"), (Names{prepare, one, dq}));
  EXPECT_EQ(kernels_of("seq_q=200,head_dim=64"), (Names{prepare, one}));
  EXPECT_EQ(kernels_of("seq_q=200,head_dim=64", "cluster=0"), (Names{prepare, one, dq}));
  EXPECT_EQ(kernels_of("seq_q=100,head_dim=64,sinks=1,dsinks=1", "kernels=1"), (Names{prepare, one, dq, heads}));
  EXPECT_EQ(kernels_of("seq_q=0,seq_kv=9,head_dim=64,sinks=1,dsinks=1"), (Names{keys, heads}));
  EXPECT_EQ(kernels_of("seq_q=9,seq_kv=0,head_dim=64"), (Names{prepare, queries}));
  EXPECT_EQ(kernels_of("batch=0,seq_q=9,head_dim=64"), Names{});
}

// With two kernels nothing is summed in the workspace, so each run gives the same bits; the second kernel begins while the
// first one ends.
TEST(AttentionBackwardDescriptor, TwoKernelsSumNothingInTheWorkspace) {
  const auto plan_of = [](const std::string& fields, const std::string& config) {
    const test::Case c = test::case_of("attention_backward", fields, backward_hopper(), config);
    return backward_op().parse(c.problem)->launch_plan(c.config, backward_hopper());
  };
  const std::string fields = "batch=3,heads=4,kv_heads=2,seq_q=700,seq_kv=500,head_dim=256";
  const LaunchPlan one = plan_of(fields, "kernels=1"), two = plan_of(fields, "kernels=2,dq_tile_q=64"),
                   wide = plan_of(fields, "kernels=2,dq_tile_q=128,dq_stages=2");
  EXPECT_EQ(one.workspace_bytes - two.workspace_bytes, 3 * 4 * 768 * 256 * 4);
  EXPECT_EQ(one.sums_in_any_order, std::vector<std::string>{"dq"});
  EXPECT_TRUE(two.sums_in_any_order.empty());
  ASSERT_EQ(two.kernels.size(), 3U);
  EXPECT_EQ(two.kernels[1].entry, "attention_backward_keys");
  EXPECT_EQ(two.kernels[1].grid.x, 3U * 2 * 8);
  EXPECT_EQ(two.kernels[2].entry, "attention_backward_queries");
  EXPECT_EQ(two.kernels[2].grid.x, 3U * 4 * 11);
  EXPECT_EQ(two.kernels[2].block.x, 256U);
  for (const LaunchPlan* const plan : {&one, &two}) {  // each kernel but the first one starts while the one before it ends
    ASSERT_EQ(plan->kernels.size(), 3U);
    EXPECT_TRUE(!plan->kernels[0].overlaps && plan->kernels[1].overlaps && plan->kernels[2].overlaps);
  }
  EXPECT_EQ(wide.kernels[2].grid.x, 3U * 4 * 6);
  EXPECT_EQ(wide.kernels[2].block.x, 384U);
}

// A cluster of up to 8 blocks holds all keys: nothing is summed in the workspace, so each run gives the same bits.
TEST(AttentionBackwardDescriptor, ClustersAddDqThemselves) {
  const auto plan_of = [](const std::string& fields, const std::string& config) {
    const test::Case c = test::case_of("attention_backward", fields, backward_hopper(), config);
    return backward_op().parse(c.problem)->launch_plan(c.config, backward_hopper());
  };
  const std::string fields = "batch=3,heads=4,kv_heads=2,seq_q=700,seq_kv=500,head_dim=64";
  const LaunchPlan sums = plan_of(fields, "cluster=0,adders=0"), cluster = plan_of(fields, "cluster=4"),
                   wide = plan_of(fields, "cluster=8");
  EXPECT_EQ(cluster.kernels[cluster.main_kernel].cluster.x, 4U);
  EXPECT_EQ(cluster.kernels[cluster.main_kernel].grid.x, 3U * 2 * 4);
  EXPECT_EQ(wide.kernels[wide.main_kernel].grid.x, 3U * 2 * 8);
  EXPECT_EQ(sums.workspace_bytes - cluster.workspace_bytes, 3 * 4 * 768 * 64 * 4);
  EXPECT_EQ(sums.sums_in_any_order, std::vector<std::string>{"dq"});
  EXPECT_TRUE(cluster.sums_in_any_order.empty());
  // The default where they were measured to be faster: two blocks with keys each.
  for (const auto& [seq_kv, expected] : {std::pair(128, false), {129, true}, {256, true}, {257, false}}) {
    const ParsedProblemPtr parsed =
        backward_op().parse(normal_backward("seq_q=700,head_dim=64,heads=2,seq_kv=" + std::to_string(seq_kv)));
    EXPECT_EQ(parsed->default_config(backward_hopper()).fields.contains("cluster"), expected) << seq_kv;
  }
}

// Sections that fit into L2, but at least 1.5 times the blocks that run at once, all of about the same size.
TEST(AttentionBackwardDescriptor, SectionsOfKeyHeadsFillTheDevice) {
  const auto heads_per_section = [](const char* fields, std::int64_t kv_tiles) {
    const auto problem = read_problem(AttentionBackwardProblem{}, normal_backward(fields).fields);
    return attention_backward::heads_per_section(kv_tiles, attention_backward::Settings::of(problem), backward_hopper());
  };
  ASSERT_EQ(backward_hopper().sm_count, 132);
  EXPECT_EQ(heads_per_section("batch=2,heads=16,seq_q=8192,head_dim=128", 64), 4);
  EXPECT_EQ(heads_per_section("batch=1,heads=64,kv_heads=8,seq_q=4096,head_dim=128", 32), 8);
  EXPECT_EQ(heads_per_section("batch=2,heads=64,kv_heads=8,seq_q=8192,head_dim=128", 64), 4);
  EXPECT_EQ(heads_per_section("batch=1,heads=1,seq_q=1024,head_dim=128", 8), 1);
}

TEST(AttentionBackwardDescriptor, WgmmaSaysWhatItLacks) {
  const auto reason = [](const std::string& fields, const std::string& config) {
    return backward_op()
        .parse(normal_backward(fields))
        ->why_invalid(backward_hopper(), Config{parse_fields(config, "config")});
  };
  const std::string narrow = "variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=0",
                    wide = "variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=1",
                    apart = "variant=wgmma,roles=gradients,tile_q=64,stages=2,ahead=1",
                    shape = "seq_q=512,heads=4,head_dim=64";
  EXPECT_EQ(reason(shape, narrow), "");
  EXPECT_EQ(reason("seq_q=512,heads=4,kv_heads=2,head_dim=128,causal=top-left,alibi=1,sinks=1,dsinks=1,dlse=1",
                   "variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0"),
            "");
  EXPECT_EQ(reason(shape + ",deterministic=1", narrow), "");
  EXPECT_EQ(reason(shape, narrow + ",adders=1"), "");
  for (const char* options :
       {",softcap=30", ",alibi=1,dslopes=1", ",batch=2,varlen=1,total_q=600,total_kv=600", ",accumulate=1"})
    EXPECT_EQ(reason(shape + options, narrow), "") << options;
  for (const char* options : {",dropout=0.1", ",alibi=1,dslopes=1,softcap=30,dropout=0.1"})
    EXPECT_EQ(reason(shape + options, "variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0"), "") << options;
  EXPECT_EQ(reason("seq_q=512,heads=4,head_dim=256,alibi=1,dslopes=1,softcap=30", apart), "");
  EXPECT_EQ(reason("seq_q=512,heads=4,head_dim=256", apart + ",kernels=2"), "");
  EXPECT_EQ(reason("seq_q=512,heads=4,kv_heads=1,head_dim=128,deterministic=1", wide + ",kernels=2,head_split=2"), "");
  for (const auto& [fields, config, part] : std::vector<std::array<std::string, 3>>{
           {"seq_q=512,heads=4,head_dim=128", narrow, "registers"},
           {shape, "variant=wgmma,roles=keys,tile_q=128,stages=3,ahead=0", "shared memory"},
           {"seq_q=512,heads=4,head_dim=72", wide, "multiples of 16"},
           {"seq_q=512,heads=4,head_dim=256", wide, "registers"},
           {shape, "variant=wgmma,roles=gradients,tile_q=64,stages=2,ahead=0", "ahead=1"},
           {"seq_q=512,heads=4,head_dim=256", "variant=wgmma,roles=gradients,tile_q=64,stages=3,ahead=1", "shared memory"},
           {shape + ",dtype=f32", narrow, "dtype is f32"},
           {shape + ",alibi=1,dslopes=1", "variant=wgmma,roles=keys,tile_q=128,stages=2,ahead=1", "registers"},
           {shape + ",dropout=0.1", narrow, "registers"},
           {"seq_q=512,heads=4,head_dim=256,alibi=1,dslopes=1,softcap=30,dropout=0.1", apart, "dslopes"},
           {shape + ",deterministic=1", narrow + ",adders=1", "with deterministic=1 all kernels of roles=keys have"},
           {"seq_q=512,heads=4,head_dim=256", apart + ",adders=1", "only with roles=keys and cluster=0"},
           {"seq_q=256,heads=4,head_dim=64", narrow + ",cluster=2,adders=1", "only with roles=keys and cluster=0"},
           {"seq_q=512,heads=4,head_dim=128", wide + ",adders=1", "registers"},
           {shape, narrow + ",cluster=2", "holds 256 keys; seq_kv is 512"},
           {"seq_q=512,heads=4,head_dim=80", wide + ",cluster=8", "multiples of 32 columns"},
           {"seq_q=64,heads=4,head_dim=256", apart + ",cluster=2", "cluster is 2; allowed with roles=gradients: 0"},
           {"seq_q=512,heads=4,head_dim=128", "variant=wgmma,roles=keys,tile_q=64,stages=3,ahead=1,cluster=4",
            "shared memory"},
           {shape, narrow + ",persistent=1", "persistent is 1; allowed: only with a fourth warpgroup"},
           {shape + ",kv_heads=2", narrow + ",adders=1,head_split=2,persistent=1", "persistent is 1; allowed: only with"},
           {shape, narrow + ",head_split=2", "head_split is 2; allowed: at most 1"},
           {shape + ",kv_heads=2,deterministic=1", narrow + ",head_split=2", "has all query heads"},
           {shape + ",kv_heads=2", narrow + ",cluster=4,head_split=2", "only with roles=keys and cluster=0"},
           {"seq_q=512,heads=4,kv_heads=2,head_dim=256", apart + ",head_split=2", "only with roles=keys and cluster=0"},
           {"seq_q=512,heads=4,kv_heads=2,head_dim=128,head_dim_v=64",
            "variant=wgmma,roles=keys,tile_q=64,stages=2,ahead=0,head_split=2", "in the place of Q and dO"},
           {shape, narrow + ",kernels=2,adders=1", "only with cluster=0 and adders=0"},
           {shape, narrow + ",dq_tile_kv=96", "kernels is 1; allowed: only with kernels=2"},
           {"seq_q=512,heads=4,head_dim=192", apart + ",kernels=2,dq_tile_kv=128", "registers a thread for dq"},
           {"seq_q=512,heads=4,head_dim=256", apart + ",kernels=2,dq_stages=3", "shared memory for dq"},
           {shape + ",dq_alignment=8", narrow, "dq"},
           {shape + ",dout_seq_stride=0", narrow, "dout"},
           {"seq_q=0,seq_kv=9,head_dim=64", narrow, "empty"}})
    EXPECT_NE(reason(fields, config).find(part), std::string::npos) << fields << ": " << reason(fields, config);
}

}  // namespace
}  // namespace tunesmith
