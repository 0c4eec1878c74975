// Dynamic shared memory of launches of kernels for a capacity.

#include <gtest/gtest.h>

#include <algorithm>

#include "templates/op.h"

namespace tunesmith {
namespace {

const DeviceInfo& device() {
  static const DeviceInfo info = generic_device(parse_arch("sm_90a"));
  return info;
}

ParsedProblemPtr parsed(const std::string& op, std::int64_t rows, std::int64_t cols, const std::string& more) {
  Problem problem{op, parse_fields(more, "fields")};
  problem.fields.set("rows", rows);
  problem.fields.set("cols", cols);
  return find_op(op).parse(problem);
}

Config config_of(const std::string& text, std::int64_t capacity) {
  Config config{parse_fields(text + ",load=plain,store=plain", "config")};
  if (capacity != 0) config.fields.set("capacity", capacity);
  return config;
}

std::int64_t smem_bytes(const ParsedProblem& problem, const Config& config) {
  EXPECT_EQ(problem.why_invalid(device(), config), "") << config.text();
  std::int64_t most = 0;
  for (const KernelLaunch& launch : problem.launch_plan(config, device()).kernels)
    most = std::max(most, launch.dynamic_smem_bytes);
  return most;
}

TEST(CapacityLaunch, SizedByRowTakesTheSharedMemoryOfTheExactKernel) {
  const std::string rest = "register_vectors=1,min_blocks=1,registers=float32";
  for (const auto& [op, more] : {std::pair{"softmax", "dtype=bf16"},
                                 {"softmax_backward", "dtype=bf16"},
                                 {"softmax_backward", "dtype=f32"},
                                 {"cross_entropy", "dtype=f32,reduction=none,gradient=in_place"},
                                 {"layer_norm", "dtype=bf16"},
                                 {"add_rms_norm", "dtype=f32"}})
    for (const std::string variant :
         {"hybrid,threads=256,", "cluster,threads=32,blocks_per_row=8,", "grid,threads=32,blocks_per_row=8,"})
      for (const auto& [narrow, wide] : {std::pair{16385, 20417}, {16392, 20480}}) {  // at the ends of a bucket
        const ParsedProblemPtr least = parsed(op, 100, narrow, more), most = parsed(op, 100, wide, more);
        ASSERT_EQ(least->capacity(), most->capacity());
        const std::string text = "variant=" + variant + rest;
        std::int64_t before = 0;
        for (const ParsedProblemPtr& problem : {least, most}) {
          const std::int64_t bytes = smem_bytes(*problem, config_of(text + ",sized_by_row=1", problem->capacity()));
          EXPECT_EQ(bytes, smem_bytes(*problem, config_of(text, 0))) << op << " " << text;
          EXPECT_GT(bytes, before);
          EXPECT_LE(bytes, smem_bytes(*problem, config_of(text, problem->capacity())));
          before = bytes;
        }
      }
}

TEST(CapacityLaunch, StagedRowsTakeNoMoreThanTheyNeed) {
  const std::string text = "variant=warp,access=staged,threads=64,lanes=16,rounds=4";
  const auto bytes = [&](const char* op, std::int64_t cols) {
    const ParsedProblemPtr problem = parsed(op, 4096, cols, "dtype=f32");
    return smem_bytes(*problem, config_of(text, problem->capacity()));
  };
  constexpr std::int64_t rows = 16, element = 4, capacity = 255;
  EXPECT_EQ(bytes("softmax", 193), rows * 193 * element);
  EXPECT_EQ(bytes("softmax", 255), rows * 255 * element);
  EXPECT_EQ(bytes("softmax_backward", 193), rows * (capacity + 193) * element)
      << "the second array follows the room of the first";
  EXPECT_EQ(bytes("softmax_backward", 255), rows * (capacity + 255) * element);
}

TEST(CapacityLaunch, OtherKernelsTakeTheSharedMemoryOfTheWidestRow) {
  for (const std::string config : {"persistent,threads=128,blocks_per_row=2,stages=2,batch=2,keep_columns=0,min_blocks=1",
                                   "hybrid,threads=128,register_vectors=1,min_blocks=1,registers=float32",
                                   "grid,threads=64,blocks_per_row=2,register_vectors=1,min_blocks=1,registers=float32"}) {
    const ParsedProblemPtr narrow = parsed("layer_norm", 64, 4104, "dtype=bf16"),
                           wide = parsed("layer_norm", 64, 5120, "dtype=bf16");
    EXPECT_EQ(smem_bytes(*narrow, config_of("variant=" + config, 5120)),
              smem_bytes(*wide, config_of("variant=" + config, 5120)));
  }
}

TEST(CapacityLaunch, MinBlocksOfSizedRowsNeedToFitForNarrowRowsOnly) {
  const auto why_invalid = [&](const std::string& blocks, std::int64_t cols, bool in_bucket) {
    const ParsedProblemPtr problem = parsed("softmax_backward", 100, cols, "dtype=bf16");
    return problem->why_invalid(device(), config_of("variant=cluster,threads=128,blocks_per_row=8,register_vectors=1,"
                                                    "registers=float32,min_blocks=" +
                                                        blocks,
                                                    in_bucket ? problem->capacity() : 0));
  };
  constexpr const char* reason = " with these settings needs 36864 bytes of shared memory for ";
  for (const std::int64_t cols : {66001, 81001}) {
    EXPECT_EQ(why_invalid("6,sized_by_row=1", cols, true), "");
    EXPECT_NE(why_invalid("7,sized_by_row=1", cols, true), "");
    EXPECT_NE(why_invalid("6", cols, true).find(reason), std::string::npos);
    EXPECT_EQ(why_invalid("5", cols, true), "");
  }
  EXPECT_EQ(why_invalid("6", 66001, false), "");
  EXPECT_NE(why_invalid("6", 81001, false).find(reason), std::string::npos);
}

// All blocks of a grid have to run at once, whatever the width.
TEST(CapacityLaunch, MinBlocksOfAGridNeedToFitForTheWidestRow) {
  const ParsedProblemPtr problem = parsed("softmax_backward", 10, 66001, "dtype=bf16");
  const auto why_invalid = [&](const std::string& blocks) {
    return problem->why_invalid(device(), config_of("variant=grid,threads=128,blocks_per_row=8,register_vectors=1,"
                                                    "registers=float32,min_blocks=" +
                                                        blocks,
                                                    problem->capacity()));
  };
  for (const char* sized : {"", ",sized_by_row=1"}) {
    EXPECT_EQ(why_invalid(std::string("5") + sized), "");
    EXPECT_NE(why_invalid(std::string("6") + sized).find(" with these settings needs 36864 bytes"), std::string::npos);
  }
}

TEST(CapacityLaunch, WidestRowOfABucketFitsIntoABlock) {
  const auto why_invalid = [&](const std::string& sized) {
    const ParsedProblemPtr problem = parsed("softmax", 100, 57352, "dtype=f32");
    return problem->why_invalid(device(), config_of("variant=hybrid,threads=32,register_vectors=0,registers=float32,"
                                                    "min_blocks=1" +
                                                        sized,
                                                    problem->capacity()));
  };
  EXPECT_EQ(why_invalid(",sized_by_row=1"), why_invalid(""));
  EXPECT_NE(why_invalid("").find("needs 262144 bytes of shared memory for 65536 columns"), std::string::npos);
}

TEST(CapacityLaunch, OnlyRowsInSharedMemoryOfABucketAreSizedByRow) {
  for (const char* config : {"variant=block,threads=256,min_blocks=1,registers=float32,capacity=5120",
                             "variant=hybrid,threads=128,register_vectors=1,min_blocks=1,registers=float32"}) {
    const ParsedProblemPtr problem = parsed("softmax", 64, 5120, "dtype=f32");
    EXPECT_EQ(problem->why_invalid(device(), config_of(config, 0)), "");
    EXPECT_EQ(problem->why_invalid(device(), config_of(std::string(config) + ",sized_by_row=1", 0)),
              "configuration: sized_by_row is 1; allowed: only with variant=hybrid, cluster or grid, and a capacity");
  }
}

// One configuration serves a bucket. It is chosen for the narrower half of the widths.
TEST(CapacityLaunch, DefaultsOfFewRowsFillMultiprocessorsForNarrowRows) {
  for (const std::int64_t cols : {66001, 68004, 81001}) {
    const Config config = parsed("softmax_backward", 100, cols, "dtype=bf16")->capacity_config(device()).value();
    EXPECT_EQ(config.fields.integer("min_blocks"), 7) << config.text();
    EXPECT_EQ(config.fields.integer("register_vectors"), 2) << config.text();
    EXPECT_EQ(config.fields.integer("sized_by_row"), 1) << config.text();
  }
}

TEST(CapacityLaunch, DefaultsRunBothEndsOfEveryBucket) {
  int fewer = 0;
  for (const auto& [op, more] : {std::pair{"softmax", "dtype=f32"},
                                 {"softmax_backward", "dtype=bf16"},
                                 {"cross_entropy", "dtype=bf16,reduction=none,gradient=in_place"},
                                 {"layer_norm", "dtype=f32"}})
    for (const std::int64_t rows : {100, 4096})
      for (std::int64_t first = 1; first <= 131072;) {
        const ParsedProblemPtr narrow = parsed(op, rows, first, more);
        const ParsedProblemPtr wide = parsed(op, rows, narrow->capacity(), more);
        std::int64_t next = narrow->capacity() + 1;
        next += next % 2 == 0;  // unaligned
        if (narrow->capacity_class() == wide->capacity_class()) {
          const Config config = narrow->capacity_config(device()).value();
          ASSERT_EQ(config, wide->capacity_config(device()).value()) << op << " " << first;
          const std::int64_t least = smem_bytes(*narrow, config), most = smem_bytes(*wide, config);
          EXPECT_LE(least, most) << op << " " << first;
          fewer += least < most;
        }
        first = next;
      }
  EXPECT_GT(fewer, 10);
}

// The last bucket ends at 2^31 columns, also that of unaligned rows.
TEST(CapacityLaunch, ConfigurationsOfTheWidestRowsAreValid) {
  for (const auto& [op, more] : {std::pair{"softmax", "dtype=f32"},
                                 {"log_softmax_backward", "dtype=bf16"},
                                 {"cross_entropy", "dtype=f16,reduction=none"},
                                 {"cross_entropy_shard", "dtype=bf16"},
                                 {"rms_norm", "dtype=f32,weight=1"},
                                 {"layer_norm", "dtype=bf16"}})
    for (const std::int64_t cols : {1 << 30, 2147483600, 2147483617, 2147483619, 2147483647}) {
      const ParsedProblemPtr problem = parsed(op, 1, cols, more);
      EXPECT_LE(problem->capacity(), std::int64_t{1} << 31) << op << " " << cols;
      EXPECT_EQ(problem->why_invalid(device(), problem->capacity_config(device()).value()), "") << op << " " << cols;
      for (const ParsedProblemPtr& other : problem->in_buckets(cols - 1000, std::int64_t{1} << 31))
        EXPECT_LE(other->capacity(), std::int64_t{1} << 31);
    }
}

}  // namespace
}  // namespace tunesmith
