// Staggered starts: which default configurations have them, at which rate, and the delay that kernels wait.

#include <gtest/gtest.h>

#include <string>

#include "templates/render.h"
#include "templates/row/config.h"
#include "tests/support/cases.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

DeviceInfo stagger_h100() { return generic_device(parse_arch("sm_90a")); }
/// Twice the bandwidth of an H100.
DeviceInfo faster() {
  DeviceInfo device = stagger_h100();
  device.memory_gb_per_s *= 2;
  return device;
}

row::TypedConfig stagger_default(std::string_view op, const std::string& fields, const DeviceInfo& device = stagger_h100()) {
  return row::TypedConfig::parse(find_op(op).parse(test::normalized(op, fields))->default_config(device));
}
int rate_of(std::string_view op, const std::string& fields, const DeviceInfo& device = stagger_h100()) {
  return stagger_default(op, fields, device).stagger_bytes_per_ns;
}

/// Returns the argument of stagger_start in the source of a configuration; empty without a call.
std::string delay_of(std::string_view op, const std::string& fields, const Config& config) {
  const std::string source = render(*find_op(op).parse(test::normalized(op, fields)), config);
  const std::string call = "  tunesmith::stagger_start<";
  const std::size_t at = source.find(call);
  if (at == std::string::npos) return "";
  const std::size_t begin = source.find(">(", at) + 2;
  return source.substr(begin, source.find(");\n", begin) - begin);
}
std::string delay_of_default(std::string_view op, const std::string& fields) {
  return delay_of(op, fields, stagger_default(op, fields).to_config());
}

// 0.76 of 3350 GB/s over 132 multiprocessors are 19.3 bytes per ns.
TEST(Stagger, DefaultsOfLongRowsStartAtTheRateOfTheMemory) {
  for (const auto& [op, fields] : {std::pair{"softmax", "rows=23,cols=246647"},
                                   {"softmax", "rows=14,cols=779937,dtype=bf16"},
                                   {"softmax", "rows=75,cols=66528"},
                                   {"softmax", "rows=130,cols=70000,dtype=bf16"},  // with room for more rows
                                   {"softmin", "rows=512,cols=65536"},
                                   {"softmax_backward", "rows=31,cols=873998,dtype=bf16"},
                                   {"softmax_backward", "rows=88,cols=82750,dtype=bf16"},
                                   {"cross_entropy", "rows=20,cols=822219,gradient=in_place"},
                                   {"cross_entropy", "rows=161,cols=61335,dtype=bf16,gradient=in_place"},
                                   {"rms_norm", "rows=256,cols=131072,dtype=bf16"}}) {
    EXPECT_EQ(rate_of(op, fields), 19) << op << " " << fields;
    EXPECT_EQ(rate_of(op, fields, faster()), 39) << op << " " << fields;
  }
  EXPECT_EQ(rate_of("cross_entropy", "rows=3694,cols=5151,dtype=bf16,gradient=in_place"), 21);
  EXPECT_EQ(rate_of("softmax_backward", "rows=1203,cols=7237,dtype=bf16"), 21);
}

TEST(Stagger, DefaultsStartTogetherWhereThatIsAsFast) {
  for (const auto& [op, fields] :
       {std::pair{"softmax", "rows=4096,cols=4096"},                             // rows of a block
        {"softmax", "rows=300,cols=150000,dtype=bf16"},                          // 16 bits in clusters
        {"softmin", "rows=512,cols=65536,dtype=bf16"},                           // a program like softmax
        {"softmax_backward", "rows=72,cols=92024"},                              // its gradient in float32
        {"cross_entropy", "rows=813,cols=111422,dtype=bf16,gradient=in_place"},  // more than four blocks for a row
        {"cross_entropy", "rows=20000,cols=1500,dtype=bf16,gradient=in_place"},  // short rows
        {"cross_entropy", "rows=10646,cols=2944,dtype=bf16"},                    // only read
        {"softmax", "rows=1,cols=1048576"},                                      // one block on each multiprocessor
        {"softmax", "rows=16,cols=262144,dtype=bf16"},                           // fits into half of L2
        {"softmax", "rows=65536,cols=128"}})
    EXPECT_EQ(rate_of(op, fields), 0) << op << " " << fields << ": " << stagger_default(op, fields).to_config().text();
  EXPECT_EQ(rate_of("softmax", "rows=23,cols=246647", generic_device(parse_arch("sm_80"))), 0);
  DeviceInfo unknown = stagger_h100();
  unknown.memory_gb_per_s = 0;
  EXPECT_EQ(rate_of("softmax", "rows=23,cols=246647", unknown), 0);
}

// 60 rows of 16 blocks are 7.3 for each multiprocessor. Five or six of them start, and the others load while these compute.
TEST(Stagger, NormsOverlapWavesWhereMemoryIsFaster) {
  const char* const fields = "rows=60,cols=262144,dtype=bf16";
  for (const char* const op : {"layer_norm", "rms_norm_unit_offset"}) {
    const row::TypedConfig usual = stagger_default(op, fields), overlapping = stagger_default(op, fields, faster());
    EXPECT_GT(usual.stagger_bytes_per_ns, 0) << op;
    EXPECT_GE(usual.min_blocks, 7) << op;
    EXPECT_EQ(overlapping.stagger_bytes_per_ns, 0) << op;
    EXPECT_EQ(overlapping.min_blocks, 6) << op << ": " << overlapping.to_config().text();
  }
  EXPECT_GT(rate_of("layer_norm", "rows=256,cols=262144,dtype=bf16", faster()), 0) << "many waves";
}

TEST(Stagger, ABlockWaitsForItsPartOfARow) {
  // 22 blocks share 246647 floats: 44844 bytes at 19 bytes per ns.
  EXPECT_EQ(delay_of_default("softmax", "rows=23,cols=246647"), "2360");
  const auto problem = find_op("softmax").parse(test::normalized("softmax", "rows=23,cols=246647"));
  EXPECT_NE(
      render(*problem, problem->default_config(stagger_h100())).find("blocks of a multiprocessor start 2360 ns apart\n"),
      std::string::npos);
  // Two inputs.
  const row::TypedConfig backward = stagger_default("softmax_backward", "rows=33,cols=201993");
  EXPECT_EQ(delay_of_default("softmax_backward", "rows=33,cols=201993"),
            std::to_string(201993 * 8 / backward.blocks_per_row / 19));
  EXPECT_EQ(delay_of_default("softmax", "rows=4096,cols=4096"), "");
}

// The kernel of a bucket runs rows of any of its widths.
TEST(Stagger, KernelsOfBucketsWaitInProportionToTheColumns) {
  const auto delay = [](std::string_view op, const std::string& fields) {
    const auto problem = find_op(op).parse(test::normalized(op, fields));
    const row::TypedConfig config = row::TypedConfig::parse(problem->capacity_config(stagger_h100()).value());
    EXPECT_EQ(config.stagger_bytes_per_ns, 19) << config.to_config().text();
    const auto ns = config.capacity * 4 / config.blocks_per_row / 19;
    const std::string found = delay_of(op, fields, config.to_config());
    EXPECT_TRUE(found.starts_with("static_cast<int>(tunesmith::int64{" + std::to_string(ns) + "} * params.")) << found;
    EXPECT_TRUE(found.ends_with("cols / " + std::to_string(config.capacity) + ")")) << found;
    return found;
  };
  EXPECT_NE(delay("softmax", "rows=23,cols=246647").find("* params.cols /"), std::string::npos);
  EXPECT_NE(delay("cross_entropy", "rows=20,cols=822219,gradient=in_place").find("* params.row.cols /"), std::string::npos);
}

TEST(Stagger, TheSearchTriesTheDefaultWithAndWithout) {
  for (const char* fields : {"rows=23,cols=246647", "rows=300,cols=150000,dtype=bf16"}) {
    const auto space =
        find_op("softmax").parse(test::normalized("softmax", fields))->search_space(stagger_h100(), Effort::quick);
    ASSERT_GE(space.size(), 2U);
    row::TypedConfig first = row::TypedConfig::parse(space[0]), second = row::TypedConfig::parse(space[1]);
    EXPECT_EQ(first.stagger_bytes_per_ns + second.stagger_bytes_per_ns, 19) << space[1].text();
    first.stagger_bytes_per_ns = second.stagger_bytes_per_ns = 0;
    EXPECT_EQ(first.to_config(), second.to_config());
  }
}

TEST(Stagger, BelongsToResidentRowsOfBlocks) {
  const auto problem = find_op("softmax").parse(test::normalized("softmax", "rows=4096,cols=1024"));
  EXPECT_THROW(
      (void)problem->complete_config(stagger_h100(), {parse_fields("variant=warp,stagger_bytes_per_ns=19", "config")}),
      Error);
  EXPECT_THROW(
      (void)problem->complete_config(stagger_h100(), {parse_fields("variant=block,stagger_bytes_per_ns=-1", "config")}),
      Error);
  EXPECT_NO_THROW(
      (void)problem->complete_config(stagger_h100(), {parse_fields("variant=block,stagger_bytes_per_ns=19", "config")}));
}

}  // namespace
}  // namespace tunesmith
