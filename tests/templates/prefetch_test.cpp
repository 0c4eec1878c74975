// Rows that blocks prefetch for later ones: which default configurations do, at which distance, and what kernels are told.

#include <gtest/gtest.h>

#include <string>

#include "templates/render.h"
#include "templates/row/config.h"
#include "tests/support/cases.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

DeviceInfo h100() { return generic_device(parse_arch("sm_90a")); }

row::TypedConfig default_of(std::string_view op, const std::string& fields, const DeviceInfo& device = h100()) {
  return row::TypedConfig::parse(find_op(op).parse(test::normalized(op, fields))->default_config(device));
}
int blocks_of(std::string_view op, const std::string& fields, const DeviceInfo& device = h100()) {
  return default_of(op, fields, device).prefetch_blocks;
}
std::string source_of(std::string_view op, const std::string& fields, const Config& config) {
  return render(*find_op(op).parse(test::normalized(op, fields)), config);
}
/// Returns the reason why an operation rejects a configuration for its problem; empty if it accepts it.
std::string why_rejected(std::string_view op, const std::string& fields, const std::string& config,
                         const char* arch = "sm_90a") {
  const auto problem = find_op(op).parse(test::normalized(op, fields));
  try {
    (void)problem->complete_config(generic_device(parse_arch(arch)), {parse_fields(config, "config")});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// In 1100 ns, 3350 GB/s are 27.9 kB for each of 132 multiprocessors.
TEST(Prefetch, TheDistanceIsWhatMemoryDeliversInItsLatency) {
  EXPECT_EQ(blocks_of("softmax", "rows=4096,cols=4096"), 2);                                     // 16 KiB a block
  EXPECT_EQ(blocks_of("layer_norm_e4m3", "rows=8192,cols=4096,dtype=bf16"), 3);                  // 8 KiB
  EXPECT_EQ(blocks_of("cross_entropy", "rows=18000,cols=800,dtype=bf16,gradient=in_place"), 4);  // four rows of 1600 bytes
  EXPECT_EQ(blocks_of("cross_entropy", "rows=198520,cols=55,dtype=bf16,gradient=in_place"), 4);  // staged: 64 of 110 bytes
  EXPECT_EQ(blocks_of("add_rms_norm", "rows=20000,cols=228"), 8);                                // two inputs
  EXPECT_EQ(blocks_of("softmax", "rows=919,cols=10693"), 1);                       // 42 KiB: at least one block
  EXPECT_EQ(blocks_of("softmax_backward", "rows=1830,cols=13324,dtype=bf16"), 1);  // two arrays with partial vectors
  DeviceInfo faster = h100();
  faster.memory_gb_per_s *= 2;
  EXPECT_EQ(blocks_of("layer_norm_e4m3", "rows=8192,cols=4096,dtype=bf16", faster), 7);
}

TEST(Prefetch, DefaultsHaveNoneWhereItIsNotFaster) {
  for (const auto& [op, fields] : {std::pair{"softmax", "rows=256,cols=4096"},                 // all blocks start at once
                                   {"softmax", "rows=16384,cols=4096"},                        // far larger than L2
                                   {"softmax", "rows=5000,cols=4096"},                         // three times L2
                                   {"softmax_backward", "rows=1203,cols=7237,dtype=bf16"},     // no_allocate
                                   {"softmax", "rows=300,cols=150000,dtype=bf16"},             // clusters of small blocks
                                   {"softmax_backward", "rows=53433,cols=228"},                // two arrays
                                   {"softmax", "rows=1000000,cols=32,dtype=bf16"},             // half a cache line
                                   {"softmax", "rows=200000,cols=200,dtype=bf16"},             // a part of four lines
                                   {"rms_norm", "rows=400000,cols=104,dtype=bf16"},            // a part of two lines
                                   {"softmax", "rows=8192,cols=1024,dtype=f64"},               // not measured
                                   {"softmax", "rows=4096,cols=4096,causal=1"},                // not measured
                                   {"softmax", "rows=103355,cols=58"},                         // staged, not a loss
                                   {"cross_entropy", "rows=24191,cols=2886,dtype=bf16"},       // only reads
                                   {"swiglu", "rows=8192,cols=2048,dtype=bf16"},               // no reductions
                                   {"topk_gate", "rows=65536,cols=256"},                       // bound by instructions
                                   {"rms_norm_gradient", "rows=32768,cols=1024,dtype=bf16"}})  // sums over the rows
    EXPECT_EQ(blocks_of(op, fields), 0) << op << " " << fields << ": " << default_of(op, fields).to_config().text();
  EXPECT_EQ(blocks_of("softmax", "rows=4096,cols=4096", generic_device(parse_arch("sm_80"))), 0);
  DeviceInfo unknown = h100();
  unknown.memory_gb_per_s = 0;
  EXPECT_EQ(blocks_of("softmax", "rows=4096,cols=4096", unknown), 0);
}

// 63 rows of 788 kB: 16 blocks of 49 kB each; two thirds do not start at once.
TEST(Prefetch, ClustersOfLargeBlocksHaveIt) {
  EXPECT_EQ(blocks_of("cross_entropy", "rows=63,cols=393896,dtype=bf16,gradient=in_place"), 1);
  EXPECT_EQ(blocks_of("cross_entropy", "rows=20,cols=393896,dtype=bf16,gradient=in_place"), 0) << "all start at once";
}

// With the bandwidth of an H200, clusters load later rows while they exchange partial results of several stages or inputs.
TEST(Prefetch, FasterMemoryHasItInClustersOfPrograms) {
  DeviceInfo h200 = h100();
  h200.memory_gb_per_s = 4800;
  for (const auto& [op, blocks] : {std::pair{"layer_norm", 1}, {"add_rms_norm", 1}, {"rms_norm_unit_offset", 0}}) {
    const char* const fields = "rows=1024,cols=32768,dtype=bf16";
    EXPECT_EQ(blocks_of(op, fields, h200), blocks) << op;
    EXPECT_EQ(blocks_of(op, fields), 0) << op << ": not measured on an H100";
  }
}

// With the bandwidth of an H200, loads that leave nothing in L1 have a prefetch, too.
TEST(Prefetch, FasterMemoryHasItWithNoAllocate) {
  DeviceInfo h200 = h100();
  h200.memory_gb_per_s = 4800;
  const char* const fields = "rows=1203,cols=7237,dtype=bf16";
  const row::TypedConfig config = default_of("softmax", fields, h200);
  EXPECT_EQ(config.load, LoadHint::no_allocate);
  EXPECT_EQ(config.prefetch_blocks, 3);
}

TEST(Prefetch, KernelsOfBucketsHaveIt) {
  const auto problem =
      find_op("cross_entropy").parse(test::normalized("cross_entropy", "rows=7485,cols=1700,gradient=in_place"));
  const row::TypedConfig config = row::TypedConfig::parse(problem->capacity_config(h100()).value());
  EXPECT_GT(config.prefetch_blocks, 0) << config.to_config().text();
}

TEST(Prefetch, KernelsKnowWhichBlocksStartTogether) {
  const row::TypedConfig config = default_of("softmax", "rows=4096,cols=4096");
  const std::string source = source_of("softmax", "rows=4096,cols=4096", config.to_config());
  EXPECT_NE(source.find("using Prefetch = tunesmith::PrefetchLaterRow<2, " + std::to_string(config.min_blocks) + ">;"),
            std::string::npos);
  EXPECT_NE(source.find("a block brings the rows of the one that starts 2 blocks of each multiprocessor later"),
            std::string::npos);
  row::TypedConfig without = config;
  without.prefetch_blocks = 0;
  const std::string plain = source_of("softmax", "rows=4096,cols=4096", without.to_config());
  EXPECT_NE(plain.find("using Prefetch = tunesmith::NoPrefetch;"), std::string::npos);
  EXPECT_EQ(plain.find("later_block"), std::string::npos);

  const std::string fields = "rows=198520,cols=55,dtype=bf16,gradient=in_place";
  const std::string staged = source_of("cross_entropy", fields, default_of("cross_entropy", fields).to_config());
  EXPECT_NE(staged.find("prefetch_staged_rows<tunesmith::bf16, shape, 4, "), std::string::npos);
  EXPECT_NE(staged.find("using Prefetch = tunesmith::NoPrefetch;"), std::string::npos);
}

TEST(Prefetch, TheSearchTriesTheDefaultWithAndWithout) {
  for (const char* fields : {"rows=4096,cols=4096", "rows=16384,cols=4096", "rows=300,cols=150000,dtype=bf16"}) {
    const auto space = find_op("softmax").parse(test::normalized("softmax", fields))->search_space(h100(), Effort::quick);
    row::TypedConfig first = row::TypedConfig::parse(space.at(0));
    int others = 0;
    for (const Config& config : space) {
      row::TypedConfig other = row::TypedConfig::parse(config);
      if ((other.prefetch_blocks > 0) == (first.prefetch_blocks > 0)) continue;
      other.prefetch_blocks = first.prefetch_blocks;
      others += other.to_config() == first.to_config() ? 1 : 0;
    }
    EXPECT_EQ(others, 1) << fields;
  }
}

TEST(Prefetch, BelongsToGridsWithAGroupForEachRow) {
  const std::string fields = "rows=4096,cols=1024";
  for (const char* config :
       {"variant=warp,prefetch_blocks=4", "variant=block,prefetch_blocks=1", "variant=cluster,prefetch_blocks=32"})
    EXPECT_EQ(why_rejected("softmax", fields, config), "") << config;
  for (const char* config : {"variant=two_pass,prefetch_blocks=1", "variant=grid,prefetch_blocks=1",
                             "variant=block,prefetch_blocks=33", "variant=block,prefetch_blocks=-1"})
    EXPECT_NE(why_rejected("softmax", fields, config), "") << config;
  EXPECT_NE(why_rejected("softmax", fields, "variant=block,prefetch_blocks=1", "sm_80").find("prefetch_blocks needs sm_90"),
            std::string::npos);
  EXPECT_NE(why_rejected("rms_norm_gradient", "rows=4096,cols=1024,dtype=bf16", "variant=block,prefetch_blocks=1")
                .find("programs that sum over the rows"),
            std::string::npos);
}

}  // namespace
}  // namespace tunesmith
