// The descriptor of attention: fields, arrays, keys, costs, launches.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/cases.h"
#include "tunesmith/attention.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

const Op& op() { return find_op("attention"); }
Problem normal(const std::string& fields) { return test::normalized("attention", fields); }
DeviceInfo hopper() { return generic_device(parse_arch("sm_90a")); }

ArrayInfo array(const std::string& fields, const std::string& name) {
  for (ArrayInfo& info : op().parse(normal(fields))->arrays())
    if (info.name == name) return std::move(info);
  ADD_FAILURE() << fields << " has no " << name;
  return {};
}

std::string shape_of(const ArrayInfo& info) {
  std::string text;
  for (const std::int64_t extent : info.shape) text += (text.empty() ? "(" : ",") + std::to_string(extent);
  return text + ")";
}

TEST(AttentionDescriptor, DefaultsAreFilledIn) {
  EXPECT_EQ(normal("seq_q=5,head_dim=64").text(),
            "attention batch=1,heads=1,kv_heads=1,seq_q=5,seq_kv=5,head_dim=64,head_dim_v=64,dtype=bf16,layout=bshd");
  // A causal mask makes the right side of a window irrelevant.
  EXPECT_EQ(normal("seq_q=5,head_dim=64,causal=top-left,window_right=2"), normal("seq_q=5,head_dim=64,causal=top-left"));
}

TEST(AttentionDescriptor, ZeroIsZero) {
  const Problem empty = normal("seq_q=5,seq_kv=0,head_dim=64");
  EXPECT_EQ(empty.fields.integer("seq_kv"), 0);
  EXPECT_EQ(array("batch=2,seq_q=5,seq_kv=0,head_dim=64", "k").elements(), 0);
  EXPECT_EQ(array("batch=2,seq_q=5,seq_kv=0,head_dim=64", "o").elements(), 2 * 5 * 64);
  EXPECT_EQ(normal("seq_q=5,head_dim=64,window_left=0").fields.integer("window_left"), 0);
  EXPECT_NE(normal("seq_q=5,head_dim=64,window_left=0"), normal("seq_q=5,head_dim=64"));

  // Strides of 0 broadcast inputs; elements of the output must be distinct.
  const std::string shape = "batch=3,seq_q=5,seq_kv=7,heads=4,head_dim=64";
  EXPECT_EQ(array(shape + ",k_batch_stride=0", "k").strides, (std::vector<std::int64_t>{0, 4 * 64, 64, 1}));
  EXPECT_EQ(array(shape + ",v_head_stride=0", "v").strides, (std::vector<std::int64_t>{7 * 4 * 64, 4 * 64, 0, 1}));
  EXPECT_EQ(array(shape + ",q_seq_stride=0", "q").strides, (std::vector<std::int64_t>{5 * 4 * 64, 0, 64, 1}));
  const Problem broadcast = normal(shape + ",k_batch_stride=0,v_head_stride=0");
  EXPECT_EQ(op().normalize(broadcast), broadcast);
  const Problem small = op().parse(broadcast)->verification_problem();
  EXPECT_EQ(small.fields.integer("k_batch_stride"), 0);
  EXPECT_EQ(small.fields.integer("v_head_stride"), 0);
  EXPECT_NE(small.fields.integer("v_seq_stride"), 0);
}

TEST(AttentionDescriptor, AbsentFieldsFollowOthers) {
  const AttentionProblem absent{.heads = 4, .seq_q = 9, .head_dim = 32};
  AttentionProblem explicit_problem = absent;
  explicit_problem.kv_heads = 4;
  explicit_problem.seq_kv = 9;
  explicit_problem.head_dim_v = 32;
  explicit_problem.scale = 1 / std::sqrt(32.0);
  explicit_problem.q_strides = {9 * 4 * 32, 4 * 32, 32};
  EXPECT_EQ(op().normalize(to_problem(absent)), op().normalize(to_problem(explicit_problem)));
  EXPECT_EQ(to_problem(absent).text(), "attention batch=1,heads=4,seq_q=9,head_dim=32,dtype=bf16,layout=bshd");
}

TEST(AttentionDescriptor, ShapesOfFilesGiveFields) {
  const auto infer = [](const std::string& known, std::string_view name, const std::vector<std::int64_t>& shape) {
    return op().infer_fields(parse_fields(known, "known"), name, shape).text();
  };
  EXPECT_EQ(infer("", "q", {2, 5, 6, 64}), "batch=2,seq_q=5,heads=6,head_dim=64");
  EXPECT_EQ(infer("layout=bhsd", "v", {2, 3, 7, 32}), "batch=2,kv_heads=3,seq_kv=7,head_dim_v=32");
  EXPECT_EQ(infer("varlen=1", "k", {9, 2, 8}), "total_kv=9,kv_heads=2,head_dim=8");
  EXPECT_EQ(infer("varlen=1", "cu_seqlens_q", {4}), "batch=3");
  std::string present;
  Fields known = parse_fields("seq_q=5,head_dim=8,block_mask=write", "known");
  known.set("mask_mod", std::string("// aux: open:u8[seq_kv]; w:i32=3\n__device__ bool mask_mod(int b, int h, int q, int k, "
                                    "const Aux& aux) { return aux.open[k] != 0; }"));
  for (const ArrayInfo& info : op().describe_arrays(known))
    if (info.present) present += info.name + shape_of(info) + " ";
  EXPECT_EQ(present, "q(1,5,1,8) k(1,5,1,8) v(1,5,1,8) open(5) block_mask(1,1,1,2,1) o(1,5,1,8) lse(1,1,5) ");
}

TEST(AttentionDescriptor, LayoutDeterminesStrides) {
  using Numbers = std::vector<std::int64_t>;
  const std::string shape = "batch=2,seq_q=5,seq_kv=7,heads=6,kv_heads=3,head_dim=64,head_dim_v=32";
  EXPECT_EQ(array(shape, "q").shape, (Numbers{2, 5, 6, 64}));
  EXPECT_EQ(array(shape, "k").shape, (Numbers{2, 7, 3, 64}));
  EXPECT_EQ(array(shape, "v").strides, (Numbers{7 * 3 * 32, 3 * 32, 32, 1}));
  EXPECT_EQ(array(shape, "o").shape, (Numbers{2, 5, 6, 32}));
  EXPECT_EQ(array(shape, "lse").shape, (Numbers{2, 6, 5}));
  EXPECT_TRUE(array(shape, "lse").optional);
  EXPECT_EQ(array(shape + ",layout=bhsd", "k").shape, (Numbers{2, 3, 7, 64}));
  EXPECT_EQ(array(shape + ",layout=bhsd", "k").strides, (Numbers{3 * 7 * 64, 7 * 64, 64, 1}));
  EXPECT_EQ(array(shape + ",varlen=1,total_q=8,total_kv=9", "q").shape, (Numbers{8, 6, 64}));
  EXPECT_EQ(array(shape + ",varlen=1,total_q=8,total_kv=9", "lse").shape, (Numbers{6, 8}));
  EXPECT_EQ(array(shape + ",varlen=1,total_q=8,total_kv=9", "cu_seqlens_kv").shape, (Numbers{3}));
  EXPECT_EQ(array(shape + ",k_seq_stride=1000,k_alignment=8", "k").strides, (Numbers{7 * 3 * 64, 1000, 64, 1}));
}

TEST(AttentionDescriptor, KeysDistinguishProblemClasses) {
  const auto key = [](const std::string& fields) { return op().parse(normal(fields))->key().problem_class; };
  const std::string shape = "seq_q=512,seq_kv=2048,head_dim=64,heads=8";
  for (const char* other :
       {",dtype=f16", ",kv_heads=2", ",causal=top-left", ",causal=bottom-right", ",window_left=7", ",softcap=3", ",alibi=1",
        ",sinks=1", ",varlen=1,total_q=512,total_kv=2048", ",head_dim_v=128", ",k_alignment=8"})
    EXPECT_NE(key(shape), key(shape + other)) << other;
  EXPECT_NE(key(shape), key("seq_q=1,seq_kv=2048,head_dim=64,heads=8"));
  EXPECT_EQ(key(shape + ",softcap=3"), key(shape + ",softcap=4"));
  EXPECT_EQ(op().parse(normal(shape))->key().n_cols, 2048);
}

TEST(AttentionDescriptor, LengthsOfOneKeyWasteAsMuchOfAQTile) {
  const auto key = [](std::int64_t seq) {
    return op().parse(normal("head_dim=128,heads=16,seq_q=" + std::to_string(seq)))->key().problem_class;
  };
  const auto ratio = [](std::int64_t seq) {
    const auto padded = [&](std::int64_t tile) { return static_cast<double>((seq + tile - 1) / tile * tile); };
    return padded(192) / padded(128);
  };
  std::map<std::string, std::pair<double, double>> ratios;  // least and largest of a key in lengths of 1025 and more
  for (std::int64_t seq = 1025; seq <= 9000; ++seq) {
    auto& [least, most] = ratios.try_emplace(key(seq), 10.0, 0.0).first->second;
    if (seq > 4096) {
      EXPECT_EQ(key(seq), key(8192)) << seq;
    }
    least = std::min(least, ratio(seq));
    most = std::max(most, ratio(seq));
  }
  EXPECT_EQ(ratios.size(), 3u);
  for (const auto& [text, range] : ratios) {
    const auto [least, most] = range;
    EXPECT_TRUE(most < 1 / 1.03 + 1e-9 || least > 0.97 - 1e-9) << text << ": " << least << " to " << most;
  }
  for (std::int64_t seq = 256; seq <= 16384; seq *= 2) EXPECT_EQ(key(seq).find("pads"), std::string::npos) << seq;
  EXPECT_EQ(key(128).find("pads"), std::string::npos);
}

TEST(AttentionDescriptor, CostsCountUnmaskedPairs) {
  const auto flops = [](const std::string& fields) { return op().parse(normal(fields))->cost().flops; };
  EXPECT_DOUBLE_EQ(flops("batch=2,heads=4,seq_q=100,seq_kv=50,head_dim=64,head_dim_v=32"), 2.0 * 2 * 4 * 100 * 50 * 96);
  EXPECT_DOUBLE_EQ(flops("seq_q=100,head_dim=64,causal=top-left"), 4.0 * 64 * (100 * 101 / 2));
  EXPECT_DOUBLE_EQ(flops("seq_q=100,head_dim=64,window_left=0,window_right=0"), 4.0 * 64 * 100);
}

// The pairs that a mask_mod keeps are not known before it runs.
// Counted in closed form, because 2^30 queries are a valid bound of packed sequences.
TEST(AttentionDescriptor, VisiblePairsAreThoseThatALoopCounts) {
  for (const char* causal : {"none", "top-left", "bottom-right"})
    for (const int queries : {1, 4, 9})
      for (const int keys : {1, 5, 12})
        for (const int left : {-1, 0, 2, 20})
          for (const int right : {-1, 0, 3, 20}) {
            std::string fields =
                "seq_q=" + std::to_string(queries) + ",seq_kv=" + std::to_string(keys) + ",head_dim=8,causal=" + causal;
            if (left >= 0) fields += ",window_left=" + std::to_string(left);
            if (right >= 0) fields += ",window_right=" + std::to_string(right);
            const std::string is_causal = causal;
            const int offset = is_causal == "top-left" ? 0 : keys - queries;
            int pairs = 0;
            for (int i = 0; i < queries; ++i)
              for (int j = 0; j < keys; ++j) {
                const int ahead = j - i - offset;
                const bool hidden = (left >= 0 && -ahead > left) || (is_causal == "none" && right >= 0 && ahead > right) ||
                                    (is_causal != "none" && ahead > 0);
                pairs += hidden ? 0 : 1;
              }
            EXPECT_EQ(op().parse(normal(fields))->cost().flops, 32.0 * pairs) << fields;
          }
  EXPECT_EQ(op().parse(normal("seq_q=1073741824,head_dim=8,causal=top-left"))->cost().flops, 32 * (0x1p59 + 0x1p29));
}

TEST(AttentionDescriptor, CostsWithAMaskModAreUpperBounds) {
  const auto cost = [](const char* field, const char* text) {
    Problem problem = normal("seq_q=100,head_dim=64,causal=top-left");
    if (field != nullptr) problem.fields.set(field, std::string(text));
    return op().parse(op().normalize(problem))->cost();
  };
  const Cost plain = cost(nullptr, "");
  const Cost masked = cost("mask_mod", "__device__ bool mask_mod(int, int, int q, int k, const Aux&) { return q == k; }");
  EXPECT_EQ(plain.overcounted, "");
  EXPECT_EQ(
      cost("score_mod", "__device__ float score_mod(float s, int, int, int, int, const Aux&) { return s; }").overcounted,
      "");
  EXPECT_EQ(masked.overcounted, "pairs that mask_mod hides");
  EXPECT_EQ(masked.flops, plain.flops);
  EXPECT_EQ(masked.bytes(), plain.bytes());
}

TEST(AttentionDescriptor, EmptyProblemLaunchesNothing) {
  for (const char* fields : {"batch=0,seq_q=5,head_dim=64", "seq_q=0,seq_kv=5,head_dim=64",
                             "seq_q=5,head_dim=64,varlen=1,total_q=0,total_kv=0"}) {
    const Problem problem = normal(fields);
    EXPECT_TRUE(op().parse(problem)->launch_plan(op().parse(problem)->default_config(hopper()), hopper()).kernels.empty())
        << fields;
  }
}

// The fastest configurations of the shipped records.
TEST(AttentionDescriptor, DefaultsAreThoseOfTuningOnAnH200) {
  const std::string decoding = "head_dim=128,heads=32,kv_heads=8,seq_q=1,", f32 = "dtype=f32,batch=4,";
  for (const auto& [fields, config] :
       {std::pair{decoding + "seq_kv=8192,batch=1",
                  "variant=split,warps=8,tile_q=16,tile_kv=16,stages=3,splits=0,cluster=8"},
        {decoding + "seq_kv=8192,batch=8", "variant=split,warps=8,tile_q=16,tile_kv=16,stages=3,splits=0,cluster=2"},
        {decoding + "seq_kv=65536,batch=1", "variant=split,warps=8,tile_q=16,tile_kv=16,stages=3,splits=0,cluster=8"},
        {decoding + "seq_kv=2048,batch=64", "variant=split,warps=4,tile_q=16,tile_kv=16,stages=3,splits=0,cluster=1"},
        {"head_dim=128,heads=32,seq_q=1,seq_kv=8192",
         "variant=split,warps=4,tile_q=16,tile_kv=16,stages=3,splits=0,cluster=1"},
        {f32 + "seq_q=4096,heads=32,head_dim=64", "variant=simt,threads=128,tile_q=128,tile_kv=64"},
        {f32 + "seq_q=4096,heads=16,head_dim=128", "variant=simt,threads=128,tile_q=64,tile_kv=64"},
        {f32 + "seq_q=256,heads=8,head_dim=64", "variant=simt,threads=256,tile_q=64,tile_kv=64"}}) {
    EXPECT_EQ(op().parse(normal(fields))->default_config(hopper()).text(), config) << fields;
  }
}

// Records of earlier versions name options that are constants now.
TEST(AttentionDescriptor, ReadsConfigurationsWithTheValuesOfConstants) {
  const ParsedProblemPtr problem = op().parse(normal("seq_q=4096,head_dim=128"));
  const std::string now = problem->default_config(hopper()).text(), rescale = ",rescale=8";
  std::string before = now + rescale;
  before.insert(before.find(",ping_pong"), ",order=counter");
  EXPECT_EQ(problem->configure({parse_fields(before, "config")}).text(), now);
  EXPECT_EQ(problem->complete_config(hopper(), {parse_fields(before, "config")}).text(), now);
  for (const char* other : {",order=fixed", ",rescale=0"})
    EXPECT_NE(problem->why_invalid(hopper(), Config{parse_fields(now + other, "config")}), "") << other;
}

// Tensor maps hold the strides and sizes of the arrays and the size of a box.
TEST(AttentionDescriptor, TensorMapsDescribeTheArrays) {
  const test::Case c = test::case_of("attention",
                                     "batch=3,heads=6,kv_heads=2,seq_q=1000,seq_kv=777,head_dim=96,head_dim_v=64,"
                                     "q_seq_stride=1000,q_batch_stride=2000000,layout=bshd",
                                     hopper(), "variant=wgmma,tile_q=128,tile_kv=112");
  const LaunchPlan plan = op().parse(c.problem)->launch_plan(c.config, hopper());
  ASSERT_EQ(plan.tensor_maps.size(), 4U);
  const auto sizes = [](const LaunchPlan::TensorMap& map) {
    return std::vector<std::int64_t>(map.sizes.begin(), map.sizes.begin() + map.rank);
  };
  using Numbers = std::vector<std::int64_t>;
  EXPECT_EQ(sizes(plan.tensor_maps[0]), (Numbers{96, 1000, 6, 3}));
  EXPECT_EQ(sizes(plan.tensor_maps[2]), (Numbers{64, 777, 2, 3}));
  const auto& q = plan.tensor_maps[0];
  EXPECT_EQ((Numbers{q.strides_bytes.begin(), q.strides_bytes.begin() + 3}), (Numbers{2000, 192, 4000000}));
  EXPECT_EQ(q.box[0], 64);
  EXPECT_EQ(q.box[1], 128);
  EXPECT_EQ(plan.tensor_maps[1].box[1], 112);
  EXPECT_EQ(plan.tensor_maps[3].box[1], 16);  // rows of one warp
  for (const LaunchPlan::TensorMap& map : plan.tensor_maps) {
    EXPECT_EQ(map.swizzle_bytes, 128);
    EXPECT_EQ(map.offset % LaunchPlan::TensorMap::alignment, 0U);
    EXPECT_LE(map.offset + LaunchPlan::TensorMap::bytes, plan.params.size());
  }
  EXPECT_EQ(plan.pointers[static_cast<std::size_t>(plan.tensor_maps[3].array)].array, "o");
  // Blocks are persistent: they process one tile after the other.
  EXPECT_EQ(plan.kernels.at(0).grid.x, static_cast<std::uint32_t>(hopper().sm_count));
  EXPECT_EQ(plan.kernels.at(0).block.x, 384U);
}

TEST(AttentionDescriptor, OffersWgmmaOnlyWhereItRuns) {
  const auto has = [](const std::string& fields, const char* arch) {
    const DeviceInfo device = generic_device(parse_arch(arch));
    const Problem problem = normal(fields);
    for (const Config& config : op().parse(problem)->search_space(device, Effort::quick))
      if (config.variant() == "wgmma") return true;
    return false;
  };
  EXPECT_TRUE(has("seq_q=4096,head_dim=128", "sm_90a"));
  EXPECT_TRUE(has("seq_q=4096,head_dim=256,dtype=f16,causal=top-left", "sm_90a"));
  EXPECT_FALSE(has("seq_q=4096,head_dim=128", "sm_100a"));
  EXPECT_FALSE(has("seq_q=4096,head_dim=128", "sm_80"));
  EXPECT_FALSE(has("seq_q=4096,head_dim=128,dtype=f32", "sm_90a"));
  EXPECT_FALSE(has("seq_q=4096,head_dim=128,k_alignment=8", "sm_90a"));
  EXPECT_FALSE(has("seq_q=4096,head_dim=128,v_seq_stride=132", "sm_90a"));
  EXPECT_FALSE(has("seq_q=4096,head_dim=128,batch=2,k_batch_stride=0", "sm_90a"));
  EXPECT_FALSE(has("seq_q=4096,seq_kv=0,head_dim=128", "sm_90a"));
  EXPECT_TRUE(has("seq_q=4096,head_dim=128,batch=3,varlen=1,total_q=9000,total_kv=9000", "sm_90a"));
  EXPECT_FALSE(has("seq_q=4096,head_dim=128,batch=3,varlen=1,total_q=9000,total_kv=0", "sm_90a"));
}

TEST(AttentionDescriptor, PackedSequencesHaveOneTensorMapPerArray) {
  const test::Case c = test::case_of("attention", "batch=5,heads=4,seq_q=300,head_dim=64,varlen=1,total_q=1000,total_kv=900",
                                     hopper(), "variant=wgmma,tile_q=64");
  const LaunchPlan plan = op().parse(c.problem)->launch_plan(c.config, hopper());
  ASSERT_EQ(plan.tensor_maps.size(), 4U);
  const auto& sizes = plan.tensor_maps[1].sizes;
  EXPECT_EQ((std::vector<std::int64_t>{sizes.begin(), sizes.begin() + 4}), (std::vector<std::int64_t>{64, 900, 4, 1}));
  // One work item per full Q tile of 64 and one per sequence; no more blocks than work items.
  EXPECT_EQ(plan.kernels.at(0).grid.x, std::min<std::uint32_t>((1000 / 64 + 5) * 4, hopper().sm_count));
}

TEST(AttentionDescriptor, CombineKernelOverlapsWhereSupported) {
  for (const char* arch : {"sm_80", "sm_90a", "sm_120a"}) {
    const DeviceInfo device = generic_device(parse_arch(arch));
    const test::Case c = test::case_of("attention", "seq_q=1,seq_kv=65536,heads=8,head_dim=128", device, "variant=split");
    const LaunchPlan plan = op().parse(c.problem)->launch_plan(c.config, device);
    ASSERT_EQ(plan.kernels.size(), 2U);
    EXPECT_FALSE(plan.kernels[0].overlaps);
    EXPECT_EQ(plan.kernels[1].overlaps, device.arch.number() >= 90) << arch;
  }
}

TEST(AttentionDescriptor, TypedProblemsHaveTheSameFields) {
  AttentionProblem typed;
  typed.batch = 2;
  typed.heads = 4;
  typed.kv_heads = 2;
  typed.seq_q = 100;
  typed.seq_kv = 200;
  typed.head_dim = 64;
  typed.dtype = DType::f16;
  typed.layout = AttentionLayout::bhsd;
  typed.causal = Causal::bottom_right;
  typed.window_left = 9;
  typed.softcap = 5;
  typed.k_strides.seq = 128;
  typed.v_alignment = 4;
  EXPECT_EQ(op().normalize(to_problem(typed)),
            normal("batch=2,heads=4,kv_heads=2,seq_q=100,seq_kv=200,head_dim=64,dtype=f16,layout=bhsd,causal=bottom-right,"
                   "window_left=9,softcap=5,k_seq_stride=128,v_alignment=4"));
}

}  // namespace
}  // namespace tunesmith
