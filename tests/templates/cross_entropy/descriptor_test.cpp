// The descriptors of the cross-entropy family: fields, arrays, keys, defaults, launches.

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "tests/support/cases.h"

namespace tunesmith {
namespace {

using test::normalized;

DeviceInfo hopper() { return generic_device(parse_arch("sm_90a")); }

std::string names(std::string_view op, const std::string& fields) {
  std::string text;
  for (const ArrayInfo& array : find_op(op).parse(normalized(op, fields))->arrays())
    text += (text.empty() ? "" : " ") + array.name + (array.input ? "<" : ">");
  return text;
}

std::vector<std::string> entries(std::string_view op, const std::string& fields, const std::string& config = "") {
  const test::Case c = test::case_of(op, fields, hopper(), config);
  std::vector<std::string> list;
  for (const KernelLaunch& kernel : c.op().parse(c.problem)->launch_plan(c.config, hopper()).kernels)
    list.push_back(kernel.entry);
  return list;
}

TEST(CrossEntropyDescriptor, DefaultsAreFilledIn) {
  EXPECT_EQ(normalized("cross_entropy", "rows=9,cols=100").text(),
            "cross_entropy rows=9,cols=100,dtype=f32,target_dtype=i64,out_dtype=f32,logits_row_stride=100,"
            "dlogits_row_stride=100,logits_alignment=16,dlogits_alignment=16,gradient=none");
}

TEST(CrossEntropyDescriptor, ArraysHaveTheDocumentedOrder) {
  EXPECT_EQ(names("cross_entropy", "rows=4,cols=4"), "logits< targets< loss> lse>");
  EXPECT_EQ(
      names("cross_entropy",
            "rows=4,cols=4,weight=1,dloss=scalar,z_loss=1,nll=1,argmax=1,num_correct=1,check_targets=1,gradient=separate"),
      "logits< targets< weight< dloss< loss> lse> z_loss> nll> argmax> num_correct> bad_targets> dlogits>");
  EXPECT_EQ(names("cross_entropy_backward", "rows=4,cols=4,dlse=1"), "logits< targets< lse< dloss< dlse< dlogits>");
  EXPECT_EQ(names("cross_entropy_backward", "rows=4,cols=4,nll=1,weight=1"),
            "logits< targets< lse< dloss< nll< weight< dlogits>");
  EXPECT_EQ(names("cross_entropy_shard", "rows=4,cols=4,weight=1"), "logits< targets< weight< partials>");
  EXPECT_EQ(names("cross_entropy_combine", "rows=4,shards=2,vocab_size=8"), "partials< targets< loss> lse>");
  const auto arrays =
      find_op("cross_entropy").parse(normalized("cross_entropy", "rows=4,cols=4,gradient=in_place"))->arrays();
  EXPECT_EQ(arrays.back().in_place_of, "logits");
  EXPECT_EQ(arrays[2].shape, (std::vector<std::int64_t>{1})) << "a mean";
}

// Problems with equal keys share a configuration. The kernel depends on which options are set, not on their values.
TEST(CrossEntropyDescriptor, KeysDistinguishKernels) {
  const auto problem_class = [](const std::string& fields) {
    return find_op("cross_entropy").parse(normalized("cross_entropy", "rows=64,cols=1000" + fields))->key().problem_class;
  };
  std::set<std::string> seen;
  for (const char* fields :
       {"", ",dtype=bf16", ",gradient=separate", ",gradient=in_place", ",label_smoothing=0.1", ",z_loss=1", ",softcap=30",
        ",scale=2", ",weight=1", ",reduction=none", ",target_dtype=i32", ",nll=1"})
    EXPECT_TRUE(seen.insert(problem_class(fields)).second) << fields;
  EXPECT_EQ(problem_class(",label_smoothing=0.1"), problem_class(",label_smoothing=0.2"));
  EXPECT_EQ(problem_class(",ignore_index=3"), problem_class(""));
}

TEST(CrossEntropyDescriptor, LossWithoutGradientReadsLogitsOnce) {
  for (const auto& [fields, variant] : {std::pair{"rows=8192,cols=32000,dtype=bf16", "two_pass"},
                                        {"rows=8192,cols=32000", "split"},
                                        {"rows=8192,cols=128256,dtype=bf16", "split"}}) {
    const Problem problem = normalized("cross_entropy", fields);
    EXPECT_EQ(find_op("cross_entropy").parse(problem)->default_config(hopper()).variant(), variant) << fields;
  }
}

/// Expects the default of each loss to begin with a text.
void expect_defaults(std::initializer_list<std::pair<const char*, const char*>> losses,
                     const DeviceInfo& device = hopper()) {
  for (const auto& [fields, start] : losses) {
    const Config config = find_op("cross_entropy").parse(normalized("cross_entropy", fields))->default_config(device);
    EXPECT_EQ(config.text().rfind(start, 0), 0U) << fields << ": " << config.text();
  }
}

// 1536 threads on a multiprocessor with bounded registers: one block for each of few rows, or several. 1024 threads where
// rows of 16 bits make several waves.
TEST(CrossEntropyDescriptor, DefaultsFillAMultiprocessor) {
  expect_defaults({{"rows=8192,cols=12288", "variant=two_pass,threads=256,unroll=4,min_blocks=6,"},
                   {"rows=400,cols=60000,dtype=bf16", "variant=two_pass,threads=256,unroll=4,min_blocks=6,"},
                   {"rows=200,cols=100000,dtype=bf16", "variant=two_pass,threads=512,unroll=4,min_blocks=3,"},
                   {"rows=100,cols=100000", "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,"},
                   {"rows=8192,cols=24576,dtype=bf16", "variant=two_pass,threads=256,unroll=4,min_blocks=4,"},
                   {"rows=8192,cols=32000,dtype=bf16", "variant=two_pass,threads=128,unroll=8,min_blocks=9,"}});
}

// Longer rows of losses that do not fit into L2 are split into tiles, so that all multiprocessors end together. Up to four
// times L2 (50 MB), rows of 16 bits have more and smaller tiles.
TEST(CrossEntropyDescriptor, DefaultsSplitLongRowsIntoTiles) {
  expect_defaults(
      {{"rows=8192,cols=32000", "variant=split,threads=128,unroll=4,blocks_per_row=16,load="},
       {"rows=400,cols=200000,dtype=bf16", "variant=split,threads=128,unroll=4,blocks_per_row=49,min_blocks=10,"},
       {"rows=800,cols=200000,dtype=bf16", "variant=split,threads=128,unroll=8,blocks_per_row=25,load="},
       {"rows=100,cols=250000", "variant=split,threads=128,unroll=4,blocks_per_row=123,load="},
       {"rows=100,cols=4000000", "variant=split,threads=128,unroll=4,blocks_per_row=1024,"},
       {"rows=4096,cols=262144,dtype=bf16", "variant=split,threads=128,unroll=8,blocks_per_row=32,"}});
}

// An H200's memory delivers 40 kB to each multiprocessor in its latency, an H100's 28 kB.
TEST(CrossEntropyDescriptor, FasterMemoryHasMoreBlocksInFlight) {
  DeviceInfo h200 = hopper();
  h200.memory_gb_per_s = 4800;
  h200.l2_bytes = 60 << 20;
  expect_defaults(
      {{"rows=8192,cols=32000", "variant=split,threads=128,unroll=4,blocks_per_row=16,min_blocks=10,"},
       {"rows=400,cols=200000,dtype=bf16", "variant=split,threads=128,unroll=4,blocks_per_row=25,min_blocks=10,"},
       {"rows=2963,cols=70456,dtype=bf16", "variant=split,threads=128,unroll=8,blocks_per_row=9,min_blocks=6,"},
       {"rows=2963,cols=70456,dtype=bf16,label_smoothing=0.1",
        "variant=split,threads=128,unroll=8,blocks_per_row=9,load="}},  // more registers would spill
      h200);
}

// Problems whose rows are all on the chip at once have few accesses for each thread.
TEST(CrossEntropyDescriptor, DefaultsOfSmallProblemsHaveFewAccessesForEachThread) {
  expect_defaults({{"rows=429,cols=348", "variant=warp,threads=128,lanes=32,"},
                   {"rows=35186,cols=40", "variant=warp,threads=128,lanes=4,"},
                   {"rows=28,cols=5108", "variant=block,threads=512,"},
                   {"rows=512,cols=4096,dtype=bf16", "variant=block,threads=128,"},
                   {"rows=100000,cols=40", "variant=warp,threads=128,lanes=2,"}});
}

// Rows of up to 32 KiB stay in the registers of a warp or a block, with all of a thread's loads in flight.
TEST(CrossEntropyDescriptor, DefaultsKeepRowsOf32KiBInRegisters) {
  expect_defaults(
      {{"rows=32768,cols=4096", "variant=block,threads=192,min_blocks=6,registers=float32,load=plain,"},
       {"rows=16384,cols=4160", "variant=block,threads=384,min_blocks=3,registers=float32,load=streaming,"},
       {"rows=16384,cols=2048", "variant=block,threads=96,min_blocks=12,registers=float32,load=streaming,"},
       {"rows=28223,cols=1006", "variant=warp,threads=128,lanes=32,load=streaming,"},
       {"rows=10646,cols=2944,dtype=bf16", "variant=warp,threads=64,lanes=32,load=streaming,"},
       {"rows=24191,cols=2886,dtype=bf16", "variant=block,threads=32,min_blocks=20,registers=packed,load=streaming,"},
       {"rows=16384,cols=16384,dtype=bf16", "variant=block,threads=256,min_blocks=4,registers=packed,load=plain,"},
       {"rows=32768,cols=8192,dtype=bf16", "variant=block,threads=128,min_blocks=5,registers=packed,load=plain,"}});
}

// Up to eight times the size of L2, loads are streaming.
TEST(CrossEntropyDescriptor, DefaultsOfMediumLossesStream) {
  for (const auto& [fields, hint] : {std::pair{"rows=32768,cols=4096,dtype=bf16", "load=streaming"},
                                     {"rows=65536,cols=400,dtype=bf16", "load=streaming"},
                                     {"rows=64,cols=128256", "load=streaming"},
                                     {"rows=8192,cols=128256", "load=plain"},
                                     {"rows=32768,cols=400,gradient=in_place", "load=plain"}}) {
    const Config config = find_op("cross_entropy").parse(normalized("cross_entropy", fields))->default_config(hopper());
    EXPECT_NE(config.text().find(hint), std::string::npos) << fields << ": " << config.text();
  }
}

// 132 multiprocessors: two blocks of a grid would share each of 64 rows, four each of 32 rows.
TEST(CrossEntropyDescriptor, OneBlockReadsARowIfRowsTakeAThirdOfTheDevice) {
  expect_defaults(
      {{"rows=64,cols=128256,dtype=bf16", "variant=two_pass,threads=1024,unroll=4,blocks_per_sm=0,load=streaming,"},
       {"rows=64,cols=128256", "variant=two_pass,threads=1024,unroll=8,blocks_per_sm=0,load=streaming,"},
       {"rows=64,cols=262144", "variant=split,"},
       {"rows=60,cols=200000,dtype=bf16", "variant=split,threads=128,unroll=4,blocks_per_row=49,min_blocks=10,"},
       {"rows=64,cols=128257,dtype=bf16", "variant=split,"},
       {"rows=29,cols=869723,dtype=bf16", "variant=split,threads=128,unroll=4,blocks_per_row=213,min_blocks=10,"},
       {"rows=16,cols=262144", "variant=grid,threads=256,blocks_per_row=32,"},
       {"rows=32,cols=128256,dtype=bf16", "variant=grid,"},
       {"rows=1,cols=262144,dtype=bf16", "variant=cluster,threads=256,blocks_per_row=16,register_vectors=8,min_blocks=1,"},
       {"rows=1,cols=1048576,dtype=bf16", "variant=grid,threads=256,"}});
}

// A configuration of online has min_blocks only if it limits registers.
TEST(CrossEntropyDescriptor, OnlineMayLimitItsRegisters) {
  const auto text = [](const char* config) {
    return test::case_of("cross_entropy", "rows=8192,cols=32000,reduction=none", hopper(), config).config.text();
  };
  EXPECT_NE(text("variant=two_pass,threads=512,unroll=4,min_blocks=3").find("min_blocks=3"), std::string::npos);
  EXPECT_EQ(text("variant=two_pass,threads=512,unroll=4,min_blocks=1").find("min_blocks"), std::string::npos);
  EXPECT_NE(text("variant=two_pass,threads=1024,unroll=4").find("threads=1024,unroll=4"), std::string::npos)
      << "the limit of the default's block size does not apply";
  const Op& op = find_op("cross_entropy");
  const Problem problem = normalized("cross_entropy", "rows=8192,cols=32000,reduction=none");
  Config config = test::case_of("cross_entropy", "rows=8192,cols=32000,reduction=none", hopper(),
                                "variant=two_pass,threads=512,unroll=4")
                      .config;
  config.fields.set("min_blocks", std::int64_t{5});
  EXPECT_NE(op.parse(problem)->why_invalid(hopper(), config).find("2048 threads"), std::string::npos);
  config.fields.set("min_blocks", std::int64_t{4});
  EXPECT_NE(op.parse(problem)->why_invalid(hopper(), config).find("registers"), std::string::npos);
}

// Long rows with a gradient use persistent clusters with a pipeline where the device supports them.
TEST(CrossEntropyDescriptor, LongRowsUseThePipelineWhereSupported) {
  const Op& op = find_op("cross_entropy");
  for (const auto& [fields, start] :
       {std::pair{"rows=8192,cols=128256,dtype=bf16,gradient=in_place",
                  "variant=pipeline,threads=512,blocks_per_row=4,stages=13,chunk_bytes=16384,ahead=1,load=evict_last,"},
        {"rows=4096,cols=262144,dtype=bf16,gradient=in_place",
         "variant=pipeline,threads=512,blocks_per_row=8,stages=13,chunk_bytes=16384,ahead=1,load=evict_last,"},
        {"rows=8192,cols=128256,gradient=in_place",
         "variant=pipeline,threads=256,blocks_per_row=8,stages=13,chunk_bytes=16384,ahead=1,load=evict_last,"},
        {"rows=8192,cols=32000,dtype=bf16,gradient=in_place", "variant=block,"},
        {"rows=100,cols=128256,dtype=bf16,gradient=in_place", "variant=cluster,threads=128,"},
        {"rows=300,cols=128257,dtype=bf16,gradient=in_place", "variant=cluster,"},
        {"rows=8192,cols=128257,dtype=bf16,gradient=in_place", "variant=cluster,"},
        {"rows=8192,cols=128256,dtype=bf16,gradient=in_place,label_smoothing=0.1", "variant=cluster,"}}) {
    const Config config = op.parse(normalized("cross_entropy", fields))->default_config(hopper());
    EXPECT_EQ(config.text().rfind(start, 0), 0U) << fields << ": " << config.text();
  }
  const Problem problem = normalized("cross_entropy", "rows=8192,cols=128256,dtype=bf16,gradient=in_place");
  EXPECT_NE(op.parse(problem)->default_config(generic_device(parse_arch("sm_100a"))).variant(), "pipeline");
  std::size_t streamed = 0;
  for (const Config& config : op.parse(problem)->search_space(hopper(), Effort::quick))
    streamed += config.variant() == "pipeline";
  EXPECT_GE(streamed, 2U);
  EXPECT_LE(streamed, 4U) << "leaves room for other variants";
}

// A kernel may start before the one before it has ended only if it waits for it itself: the kernels that count and add do,
// and a row kernel that reads the divisor of a mean. Launched "1" so and "0" otherwise.
TEST(CrossEntropyDescriptor, KernelsOverlapWithThoseTheyWaitFor) {
  const auto overlaps = [](const char* op, const std::string& fields, const char* config, const char* arch) {
    const DeviceInfo device = generic_device(parse_arch(arch));
    const test::Case c = test::case_of(op, fields, device, config);
    std::string text;
    for (const KernelLaunch& kernel : c.op().parse(c.problem)->launch_plan(c.config, device).kernels)
      text += kernel.overlaps ? '1' : '0';
    return text;
  };
  const char *const loss = "cross_entropy", *const mean = "rows=100,cols=3000,reduction=mean,gradient=separate";
  EXPECT_EQ(overlaps(loss, mean, "variant=block", "sm_80"), "000");
  for (const char* variant : {"variant=block", "variant=grid", "variant=two_pass", "variant=cluster"})
    EXPECT_EQ(overlaps(loss, mean, variant, "sm_90a"), "011") << variant << ": count, rows, sum";
  EXPECT_EQ(overlaps(loss, mean, "variant=split", "sm_90a"), "0001") << "the second row kernel needs the first";
  EXPECT_EQ(overlaps(loss, "rows=100,cols=3000,reduction=none", "variant=split", "sm_90a"), "01");
  EXPECT_EQ(overlaps(loss, "rows=100,cols=3000,reduction=mean", "variant=split", "sm_90a"), "011");
  EXPECT_EQ(overlaps(loss, "rows=100,cols=3000,reduction=none", "variant=split", "sm_80"), "00");
  EXPECT_EQ(overlaps(loss, "rows=100000,cols=3000,reduction=mean,gradient=separate", "variant=block", "sm_90a"), "01111");
  EXPECT_EQ(overlaps(loss, "rows=100,cols=3000,reduction=mean", "variant=block", "sm_90a"), "01");
  EXPECT_EQ(overlaps(loss, "rows=100,cols=3000,reduction=sum,gradient=separate", "variant=block", "sm_90a"), "01");
  EXPECT_EQ(overlaps(loss, "rows=100,cols=3000,reduction=none,gradient=separate", "variant=block", "sm_90a"), "0");
  EXPECT_EQ(overlaps("cross_entropy_backward", "rows=100,cols=3000,reduction=mean,weight=1,label_smoothing=0.1",
                     "variant=tiles", "sm_90a"),
            "001")
      << "class weights are added before targets are counted";
}

TEST(CrossEntropyDescriptor, ExplainsInvalidPipelineConfigurations) {
  const Op& op = find_op("cross_entropy");
  const std::string usual = "variant=pipeline,threads=256,blocks_per_row=4,stages=13,chunk_bytes=16384,ahead=1,";
  const auto reason = [&](const std::string& fields, const std::string& config, const char* arch = "sm_90a") {
    return op.parse(normalized("cross_entropy", "rows=8192," + fields))
        ->why_invalid(generic_device(parse_arch(arch)), Config{parse_fields(config, "config")});
  };
  const std::string in_place = "cols=128256,dtype=bf16,gradient=in_place", hints = "load=evict_last,store=plain";
  EXPECT_EQ(reason(in_place, usual + hints), "");
  EXPECT_NE(reason(in_place, usual + hints, "sm_100a").find("sm_90a"), std::string::npos);
  EXPECT_NE(reason(in_place, usual + hints, "sm_80").find("sm_90a"), std::string::npos);
  EXPECT_NE(reason("cols=128256,dtype=bf16", usual + hints).find("that write rows"), std::string::npos);
  for (const char* option : {",label_smoothing=0.1", ",argmax=1", ",num_correct=1"})
    EXPECT_NE(reason(in_place + option, usual + hints).find("label smoothing"), std::string::npos) << option;
  EXPECT_NE(reason("cols=128257,dtype=bf16,gradient=in_place", usual + hints).find("16 bytes"), std::string::npos);
  EXPECT_NE(reason(in_place + ",logits_alignment=8", usual + hints).find("16 bytes"), std::string::npos);
  EXPECT_NE(reason(in_place, usual + "load=streaming,store=plain").find("evict_last"), std::string::npos);
  const auto geometry = [&](int threads, int blocks, int stages, int chunk, int ahead) {
    return reason(in_place, "variant=pipeline,threads=" + std::to_string(threads) +
                                ",blocks_per_row=" + std::to_string(blocks) + ",stages=" + std::to_string(stages) +
                                ",chunk_bytes=" + std::to_string(chunk) + ",ahead=" + std::to_string(ahead) + "," + hints);
  };
  EXPECT_NE(geometry(1024, 4, 13, 16384, 1).find("64 more"), std::string::npos);
  EXPECT_NE(geometry(256, 4, 8, 16384, 1).find("there must be 9 to 23"), std::string::npos);
  EXPECT_NE(geometry(256, 4, 24, 16384, 0).find("there must be 5 to 23"), std::string::npos);
  EXPECT_NE(geometry(256, 1, 32, 16384, 0).find("shared memory"), std::string::npos);
  EXPECT_NE(geometry(256, 2, 13, 16384, 2).find("ahead"), std::string::npos);
  EXPECT_NE(reason("cols=256,gradient=in_place",
                   "variant=pipeline,threads=32,blocks_per_row=16,stages=3,chunk_bytes=4096,ahead=0," + hints)
                .find("would have nothing"),
            std::string::npos);
}

// The number of persistent clusters depends on the device, not on the rows. Two counters in the workspace assign rows.
TEST(CrossEntropyDescriptor, PersistentClustersFillTheDevice) {
  for (const char* rows : {"1", "8192"}) {
    const test::Case c = test::case_of(
        "cross_entropy", std::string("rows=") + rows + ",cols=128256,dtype=bf16,gradient=in_place,reduction=none", hopper(),
        "variant=pipeline,threads=256,blocks_per_row=4,stages=13,chunk_bytes=16384,ahead=1");
    const LaunchPlan plan = c.op().parse(c.problem)->launch_plan(c.config, hopper());
    ASSERT_EQ(plan.kernels.size(), 1U);
    EXPECT_EQ(plan.kernels[0].grid.x, static_cast<unsigned>(hopper().sm_count / 4 * 4));
    EXPECT_EQ(plan.kernels[0].cluster.x, 4U);
    EXPECT_EQ(plan.kernels[0].block.x, 320U);
    EXPECT_GT(plan.kernels[0].dynamic_smem_bytes, 13 * 16128);
    EXPECT_EQ(plan.workspace_bytes, 16);
  }
}

TEST(CrossEntropyDescriptor, AdditionalKernels) {
  using List = std::vector<std::string>;
  EXPECT_EQ(entries("cross_entropy", "rows=100,cols=64,reduction=none"), (List{"cross_entropy"}));
  EXPECT_EQ(entries("cross_entropy", "rows=100,cols=64"), (List{"cross_entropy", "cross_entropy_sum"}));
  EXPECT_EQ(entries("cross_entropy", "rows=8193,cols=64"),
            (List{"cross_entropy", "cross_entropy_sum_partials", "cross_entropy_sum"}));
  EXPECT_EQ(entries("cross_entropy", "rows=100,cols=64,gradient=in_place"),
            (List{"cross_entropy_count", "cross_entropy", "cross_entropy_sum"}));
  EXPECT_EQ(entries("cross_entropy", "rows=100,cols=64,gradient=in_place,reduction=sum"),
            (List{"cross_entropy", "cross_entropy_sum"}));
  EXPECT_EQ(entries("cross_entropy", "rows=0,cols=64"), (List{"cross_entropy_sum"})) << "the mean of no rows is NaN";
  EXPECT_EQ(entries("cross_entropy", "rows=3,cols=100000,reduction=none", "variant=split"),
            (List{"cross_entropy_sums", "cross_entropy"}));
  EXPECT_EQ(entries("cross_entropy_backward", "rows=100,cols=64,weight=1,label_smoothing=0.1"),
            (List{"cross_entropy_backward_class_weights", "cross_entropy_backward_count", "cross_entropy_backward"}));
}

TEST(CrossEntropyDescriptor, OneBlockReducesSplitPartials) {
  for (const auto& [more, blocks] : {std::pair{"", 3U}, {",gradient=separate", 12U}}) {
    const test::Case c = test::case_of("cross_entropy", std::string("rows=3,cols=100000,reduction=none") + more, hopper(),
                                       "variant=split,blocks_per_row=4");
    const LaunchPlan plan = c.op().parse(c.problem)->launch_plan(c.config, hopper());
    EXPECT_EQ(plan.kernels.front().grid.x, 12U);
    EXPECT_EQ(plan.kernels.back().grid.x, blocks) << more;
  }
}

}  // namespace
}  // namespace tunesmith
