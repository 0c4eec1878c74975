// Default configurations of few long rows, which several blocks share.

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "templates/row/config.h"
#include "tests/templates/softmax/defaults.h"

namespace tunesmith {
namespace {

using test::default_of;
using test::default_of_bucket;
using test::expect;
using test::Expectation;
using test::h100;

// Clusters of 8 blocks with 256 threads where small ones would be too few.
TEST(SoftmaxDefault, ClustersShareFewLongRows) {
  constexpr const char* of_8 = "variant=cluster,threads=256,blocks_per_row=8,";
  constexpr const char* small_8 = "variant=cluster,threads=128,blocks_per_row=8,";
  constexpr const char* small_16 = "variant=cluster,threads=128,blocks_per_row=16,";
  const auto aligned = {
      Expectation{"softmax", "rows=75,cols=66528", small_8},
      Expectation{"softmax", "rows=43,cols=101232", small_16},
      Expectation{"softmax", "rows=57,cols=81120,dtype=bf16", of_8},
      Expectation{"softmax", "rows=16,cols=120000,dtype=bf16", of_8},
      Expectation{"softmax", "rows=8,cols=320000,dtype=bf16", "variant=grid,"},
      Expectation{"softmax_backward", "rows=82,cols=75992,dtype=bf16", small_8},
      Expectation{"cross_entropy", "rows=75,cols=66528,dtype=bf16,gradient=in_place", small_8},
      Expectation{"softmax_backward", "rows=101,cols=35200", small_8},
      Expectation{"softmax_backward", "rows=75,cols=66528", small_16},
      Expectation{"cross_entropy", "rows=130,cols=66000,gradient=in_place", small_8},
      Expectation{"layer_norm", "rows=60,cols=200000,dtype=bf16", small_16},
  };
  expect(default_of, "", aligned);
  expect(default_of_bucket, "", aligned);
}

// All rows on the chip at once: clusters whose threads have few vectors each, of every operation.
TEST(SoftmaxDefault, ClustersShareTheRowsOfSmallProblems) {
  constexpr const char* of_8x128 = "variant=cluster,threads=128,blocks_per_row=8,";
  constexpr const char* of_8x256 = "variant=cluster,threads=256,blocks_per_row=8,";
  constexpr const char* of_16x128 = "variant=cluster,threads=128,blocks_per_row=16,";
  constexpr const char* of_16x256 = "variant=cluster,threads=256,blocks_per_row=16,";
  expect(default_of, "",
         {{"cross_entropy", "rows=12,cols=50624,dtype=bf16", std::string(of_8x256) + "register_vectors=4,min_blocks=1,"},
          {"cross_entropy", "rows=2,cols=138821", std::string(of_16x256) + "register_vectors=9,min_blocks=1,"},
          {"cross_entropy", "rows=40,cols=32000,dtype=bf16", of_8x128},
          {"cross_entropy", "rows=14,cols=40036,gradient=in_place", of_16x128},
          {"softmax", "rows=7,cols=153573,dtype=bf16", std::string(of_16x256) + "register_vectors=5,min_blocks=1,"},
          {"softmax", "rows=1,cols=16384", of_8x128},
          {"softmax_backward", "rows=12,cols=20000", std::string(of_16x128) + "register_vectors=3,min_blocks=1,"},
          {"layer_norm", "rows=8,cols=32768,dtype=bf16", of_8x128},
          // Beyond what the rule was measured for: rows of few accesses, long rows, many rows, programs that only read.
          {"softmax", "rows=64,cols=4096", "variant=block,"},
          {"softmax", "rows=1,cols=1048576", "variant=grid,"},
          {"softmax", "rows=16,cols=262144,dtype=bf16", "variant=grid,"},
          {"topk_gate", "rows=12,cols=50000", "variant=two_pass,"}});
}

// In a kernel for a bucket of unaligned rows, each vector in registers has code for their ends; of 16 bits also in that for
// the width.
TEST(SoftmaxDefault, ClustersShareFewUnalignedRows) {
  constexpr const char* large = "variant=cluster,threads=256,blocks_per_row=8,";
  constexpr const char* small_8 = "variant=cluster,threads=128,blocks_per_row=8,";
  constexpr const char* small_16 = "variant=cluster,threads=128,blocks_per_row=16,";
  expect(
      default_of, "",
      {{"softmax", "rows=60,cols=71755", std::string(small_16) + "register_vectors=8,"},
       {"softmax", "rows=46,cols=70001,dtype=bf16", std::string(large) + "register_vectors=5,"},
       {"softmax", "rows=150,cols=99999", std::string(small_16) + "register_vectors=8,"},
       {"softmax_backward", "rows=40,cols=70001,dtype=bf16", std::string(small_16) + "register_vectors=1,"},
       {"cross_entropy", "rows=150,cols=99999,dtype=bf16,gradient=in_place", std::string(small_8) + "register_vectors=1,"}});
  expect(
      default_of_bucket, "",
      {{"softmax", "rows=60,cols=71755", std::string(small_16) + "register_vectors=4,"},
       {"softmax", "rows=46,cols=70001,dtype=bf16", std::string(large) + "register_vectors=4,"},
       {"softmax", "rows=150,cols=99999", std::string(small_16) + "register_vectors=4,"},
       {"softmax_backward", "rows=40,cols=70001,dtype=bf16", std::string(small_16) + "register_vectors=1,"},
       {"cross_entropy", "rows=150,cols=99999,dtype=bf16,gradient=in_place", std::string(small_8) + "register_vectors=1,"}});
}

// A kernel for a bucket has the same blocks for the same rows: the number of rows is in its class.
TEST(SoftmaxDefault, FewRowsThatAreReadOnce) {
  for (const auto& defaults : {default_of, default_of_bucket})
    expect(defaults, "reduction=none,dtype=bf16,",
           {{"cross_entropy", "rows=40,cols=70001", "variant=grid,"},
            {"cross_entropy", "rows=46,cols=70001", "variant=grid,"},
            {"cross_entropy", "rows=64,cols=128256", "variant=two_pass,"}});
}

// Blocks of a grid hold all rows at once, or the rows of a wave, and fill the device.
TEST(SoftmaxDefault, FewLongRowsFillTheDevice) {
  const auto expect_use = [](const char* name, const std::string& fields, const Config& config, std::int64_t rows,
                             int max_waves, double min_use) {
    ASSERT_EQ(config.variant(), "grid") << name << " " << fields << ": " << config.text();
    const row::TypedConfig typed = row::TypedConfig::parse(config);
    const std::int64_t held = std::int64_t{typed.min_blocks} * h100().sm_count, groups = held / typed.blocks_per_row;
    const std::int64_t waves = (rows + groups - 1) / groups;
    EXPECT_LE(waves, max_waves) << name << " " << fields << ": " << config.text();
    EXPECT_GE(static_cast<double>(rows * typed.blocks_per_row), min_use * static_cast<double>(held * waves))
        << name << " " << fields << ": " << config.text();
  };
  const struct {
    const char* op;
    std::int64_t rows, cols;
    const char* more;
    int waves;
  } problems[] = {
      {"softmax", 24, 232138, "", 1},
      {"cross_entropy", 13, 456504, ",dtype=bf16,gradient=in_place", 1},
      {"softmax", 1, 1 << 20, "", 1},
      {"softmax_backward", 24, 837473, "", 4},
      {"softmax_backward", 121, 619041, ",dtype=bf16", 9},
      {"cross_entropy", 29, 869723, ",dtype=bf16,gradient=in_place", 2},
  };
  for (const auto& [op, rows, cols, more, waves] : problems) {
    const std::string fields = "rows=" + std::to_string(rows) + ",cols=" + std::to_string(cols) + more;
    const auto problem = find_op(op).parse(test::normalized(op, fields));
    expect_use(op, fields, problem->default_config(h100()), rows, waves, 0.78);
    const std::optional<Config> bucket = problem->capacity_config(h100());
    ASSERT_TRUE(bucket);
    expect_use(op, fields, *bucket, rows, waves + 1, 0.75);
  }
}

// All numbers of rows of a bucket need as many waves.
TEST(SoftmaxDefault, BucketsOfFewLongRowsAreNarrow) {
  const auto bucket = [](std::int64_t rows, std::int64_t cols) {
    row::Shape shape;
    shape.rows = rows;
    shape.cols = cols;
    return shape.rows_bucket();
  };
  EXPECT_EQ(bucket(5, 65536), 5);
  EXPECT_EQ(bucket(17, 65536), 18);
  EXPECT_EQ(bucket(75, 65536), 80);
  EXPECT_EQ(bucket(256, 65536), 256);
  EXPECT_EQ(bucket(257, 65536), 512);
  EXPECT_EQ(bucket(75, 1024), 128) << "short rows";
  // All widths of a bucket of columns are on the same side.
  EXPECT_EQ(bucket(75, 20480), 128);
  EXPECT_EQ(bucket(75, 20484), 80);
  EXPECT_EQ(bucket(200, 28672), 256);
  EXPECT_EQ(bucket(200, 28676), 208);
  for (std::int64_t rows = 1; rows <= 256; ++rows) {
    EXPECT_GE(bucket(rows, 65536), rows);
    EXPECT_LE(bucket(rows, 65536), rows + rows / 8 + 1);
    EXPECT_EQ(bucket(bucket(rows, 65536), 65536), bucket(rows, 65536));
  }
}

}  // namespace
}  // namespace tunesmith
