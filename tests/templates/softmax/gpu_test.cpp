// Numerics on a GPU: larger cases than in tests/templates/rows, and 64-bit offsets. The float64 reference takes most of the
// time, so the number of rows is as small as possible.

#include <gtest/gtest.h>

#include "core/half.h"
#include "tests/support/gpu_kernels.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"
#include "tunesmith/buffer.h"

namespace tunesmith {
namespace {

using test::Case;

class SoftmaxGpu : public test::GpuKernels {
 protected:
  /// Verifies the cases and checks the largest float32 error of each operation, in units in the last place.
  void verify_float32(const std::vector<Case>& cases) {
    const test::LargestErrors errors = verify_all(cases);
    for (const std::string_view op : test::softmax_ops)
      EXPECT_LE(errors.float32(op), 4.0) << op;  // the documented error; the tolerance of the check holds for any input
  }
};

TEST_F(SoftmaxGpu, LongRowsOfF64) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const auto& [fields, config] : {std::pair{"rows=17,cols=20001,dtype=f64", "variant=hybrid"},
                                         {"rows=17,cols=32768,dtype=f64", "variant=cluster,blocks_per_row=4"},
                                         {"rows=17,cols=65536,dtype=f64,scale=0.125", "variant=grid"},
                                         {"rows=15,cols=262144,dtype=f64", "variant=split"},
                                         {"rows=15,cols=100001,dtype=f64", "variant=two_pass"}})
      for (Case& c : case_if_valid(op, fields, config)) cases.push_back(std::move(c));
  const test::LargestErrors errors = verify_all(cases);
  for (const std::string_view op : test::softmax_ops) EXPECT_LE(errors.float64(op), 6.0) << op;
}

TEST_F(SoftmaxGpu, LargePartOfTheSearchSpaceOfCommonShapes) {
  std::vector<Case> cases;
  for (const auto& [op, fields] : {std::pair{"softmax", "rows=259,cols=1024"},
                                   {"log_softmax", "rows=17,cols=8192,dtype=bf16"},
                                   {"softmax_backward", "rows=259,cols=781"}}) {
    const Problem problem = test::normalized(op, fields);
    for (const Config& config : test::sample_space(problem, device().info(), 60, 4)) cases.push_back({problem, config});
  }
  verify_float32(cases);
}

TEST_F(SoftmaxGpu, LongRowsStayWithinTheBound) {
  std::vector<Case> cases;
  std::uint64_t seed = 9;
  for (const std::string_view op : test::softmax_ops)
    for (const char* fields : {"rows=17,cols=50257", "rows=17,cols=131072,dtype=bf16",
                               "rows=15,cols=262147,dtype=f16,out_dtype=f32", "rows=1,cols=1048576"}) {
      const Problem problem = test::normalized(op, fields);
      for (const Config& config : test::sample_space(problem, device().info(), 1, seed++))
        cases.push_back({problem, config});
    }
  verify_float32(cases);
}

// Rows that stream through shared memory: more rows than clusters and fewer, in place, and the geometries that are tried.
TEST_F(SoftmaxGpu, StreamedRows) {
  std::vector<Case> cases;
  const auto add = [&](std::string_view op, const std::string& fields, const std::string& config) {
    for (Case& c : case_if_valid(op, fields, config)) cases.push_back(std::move(c));
  };
  for (const std::string_view op : test::softmax_ops) {
    for (const char* fields :
         {"rows=271,cols=131072", "rows=271,cols=131072,dtype=bf16,in_place=1", "rows=5,cols=65536,scale=0.5",
          "rows=271,cols=106496,dtype=f16,out_dtype=f32", "rows=140,cols=262144,dtype=bf16"})
      add(op, fields, "variant=pipeline");
    for (const char* config : {"variant=pipeline,threads=128,blocks_per_row=2,stages=7,chunk_bytes=4096,ahead=1",
                               "variant=pipeline,threads=512,blocks_per_row=1,stages=8,chunk_bytes=4096,ahead=0"})
      add(op, "rows=1000,cols=6000", config);
  }
  EXPECT_EQ(cases.size(), device().info().arch.number() == 90 ? 28U : 0U);
  verify_float32(cases);
}

// Several blocks per row, at the limits: every cluster size, a grid whose groups process several rows, the maximum number of
// splits.
TEST_F(SoftmaxGpu, SeveralBlocksPerRow) {
  std::vector<Case> cases;
  const auto add = [&](std::string_view op, const std::string& fields, const std::string& config) {
    for (Case& c : case_if_valid(op, fields, config)) cases.push_back(std::move(c));
  };
  for (const std::string_view op : test::softmax_ops) {
    for (const char* blocks : {"2", "3", "4", "5", "6", "8", "16"})
      add(op, "rows=17,cols=65536,dtype=bf16", std::string("variant=cluster,blocks_per_row=") + blocks);
    add(op, "rows=17,cols=131072,mask=keep,causal=1,safe=1", "variant=cluster,blocks_per_row=16");
    add(op, "rows=60,cols=30000,valid_cols=1,safe=1",
        "variant=grid,threads=256,blocks_per_row=30,register_vectors=1,min_blocks=1");
    add(op, "rows=120,cols=30003,dtype=f16", "variant=grid,threads=128,blocks_per_row=7,register_vectors=2,min_blocks=2");
    // Many rows, with two blocks per multiprocessor.
    add(op, "rows=70,cols=131072", "variant=grid,threads=512,blocks_per_row=8,register_vectors=3,min_blocks=2");
    // Partly in shared memory, next to loads with an eviction policy.
    for (const char* load : {"evict_first", "evict_last"})
      add(op, "rows=3,cols=299456",
          std::string("variant=grid,threads=256,blocks_per_row=13,register_vectors=11,min_blocks=2,load=") + load);
    add(op, "rows=19,cols=4160,dtype=bf16", "variant=block,threads=96");
    add(op, "rows=19,cols=12672", "variant=block,threads=288");
    add(op, "rows=15,cols=262144", "variant=grid");
    add(op, "rows=15,cols=262144", "variant=split");
    add(op, "rows=1,cols=1048576", "variant=grid");
    add(op, "rows=1,cols=1048576", "variant=split");
    add(op, "rows=2,cols=4400001", "variant=split,blocks_per_row=1024");
    add(op, "rows=280,cols=20000,dtype=bf16", "variant=two_pass,blocks_per_sm=1");
  }
  EXPECT_GE(cases.size(), 4U * (has_clusters() ? 12 : 7));
  verify_float32(cases);
}

// More than 2^31 elements and 2^32 bytes, so that a 32-bit offset would overflow. All inputs are 0 except the first and the
// last row, whose results are known.
class SoftmaxGpuOffsets : public SoftmaxGpu {
 protected:
  void check(const Case& c) {
    const std::vector<ArrayInfo> infos = c.op().parse(c.problem)->arrays();
    const bool backward = c.problem.op.ends_with("backward"), logarithm = c.problem.op.starts_with("log");
    const std::int64_t rows = c.problem.fields.integer("rows"), cols = c.problem.fields.integer("cols");
    for (std::size_t i = 0; i < infos.size(); ++i) {
      device().fill(memory_[i].get(), infos[i].output ? 0xff : 0, static_cast<std::size_t>(infos[i].extent_bytes()));
      // y of the forward operation: uniform over the second half of the row.
      std::vector<std::byte> row(static_cast<std::size_t>(cols) * 2);
      for (std::int64_t column = 0; column < cols; ++column) {
        const bool hidden = column < cols / 2;
        const double share = 1.0 / static_cast<double>(cols - cols / 2);
        double value = hidden ? -INFINITY : 0.0;                             // x
        if (backward && i == 0) value = column == cols - 1 ? 1.0 : 0.0;      // dy
        if (backward && i == 1 && !logarithm) value = hidden ? 0.0 : share;  // y
        if (backward && i == 1 && logarithm) value = hidden ? -INFINITY : std::log(share);
        write_element(DType::bf16, row.data(), column, static_cast<float>(value));
      }
      for (const std::int64_t at : {std::int64_t{0}, rows - 1})
        if (!infos[i].output) device().copy_to_device(memory_[i].get() + at * cols * 2, row.data(), row.size());
    }
    std::vector<void*> addresses;
    for (std::size_t i = 0; i < infos.size(); ++i) addresses.push_back(memory_[i].get());
    executable_of(c)->enqueue(addresses, nullptr);
    engine_->synchronize();

    const double share = 1.0 / static_cast<double>(cols - cols / 2);
    const auto expected = [&](std::int64_t column) -> double {
      const bool hidden = column < cols / 2;
      if (!backward) return logarithm ? (hidden ? -INFINITY : std::log(share)) : (hidden ? 0.0 : share);
      const double dy = column == cols - 1 ? 1.0 : 0.0, y = hidden ? 0.0 : share;
      return logarithm ? dy - y : y * (dy - share);
    };
    for (const std::int64_t row : {std::int64_t{0}, rows - 1})
      for (const std::int64_t column : {std::int64_t{0}, cols / 2 - 1, cols / 2, cols - 1}) {
        std::byte element[2];
        device().copy_to_host(element, memory_[infos.size() - 1].get() + (row * cols + column) * 2, 2);
        const double found = read_element(DType::bf16, element, 0);
        if (std::isinf(expected(column))) {
          EXPECT_EQ(found, expected(column)) << c.text() << " [" << row << "," << column << "]";
        } else {
          // A log-probability of -10 in bfloat16 is a probability within 3 %.
          EXPECT_NEAR(found, expected(column), 0.05 * std::fabs(expected(column)))
              << c.text() << " [" << row << "," << column << "]";
        }
      }
  }

  DeviceMemory memory_[3];
};

TEST_F(SoftmaxGpuOffsets, AreSixtyFourBits) {
  if (device().info().memory_bytes < std::int64_t{24} << 30) GTEST_SKIP() << "needs 18 GB of device memory";
  constexpr std::int64_t bytes = std::int64_t{5800} << 20;
  for (DeviceMemory& memory : memory_) memory = DeviceMemory(device(), bytes);
  const char* const long_rows = "rows=70000,cols=40000,dtype=bf16";   // 2.8e9 elements
  const char* const short_rows = "rows=44000001,cols=65,dtype=bf16";  // the same with 65 per row
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops) {
    for (const char* variant : {"block", "hybrid", "cluster", "grid", "two_pass", "split,blocks_per_row=5"})
      for (Case& c : case_if_valid(op, long_rows, std::string("variant=") + variant)) cases.push_back(std::move(c));
    for (const char* variant : {"warp", "warp,access=pairs", "warp,access=elements", "block"})
      for (Case& c : case_if_valid(op, short_rows, std::string("variant=") + variant)) cases.push_back(std::move(c));
  }
  EXPECT_GE(cases.size(), 4U * 5);
  compile_all(cases);
  for (const Case& c : cases) check(c);
}

// More rows than start together, so that blocks bring rows of later ones into L2; the last ones have none.
TEST_F(SoftmaxGpu, PrefetchedRows) {
  std::vector<Case> cases;
  for (const std::string_view op : test::softmax_ops)
    for (const auto& [fields, config] :
         {std::pair{"rows=40000,cols=203", "variant=warp,threads=128,lanes=8,prefetch_blocks=5"},
          {"rows=40000,cols=77,dtype=f16", "variant=warp,threads=64,lanes=4,access=staged,rounds=2,prefetch_blocks=3"},
          {"rows=9001,cols=1000,in_place=1", "variant=block,threads=128,prefetch_blocks=4"},
          {"rows=2000,cols=9001,dtype=bf16", "variant=hybrid,threads=128,register_vectors=2,min_blocks=2,prefetch_blocks=1"},
          {"rows=801,cols=16391", "variant=cluster,threads=128,blocks_per_row=4,prefetch_blocks=1"}})
      for (Case& c : case_if_valid(op, fields, config)) cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), has_clusters() ? 20U : 0U);
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
