// Kernels for a capacity on the host executor, compared with float64, with poisoned outputs and canaries (tuner/verify.h).

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "templates/render.h"
#include "templates/row/capacity.h"
#include "templates/row/shape.h"
#include "tests/support/host_kernels.h"
#include "tests/templates/capacity/cases.h"
#include "tuner/verify.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using test::Case;
using test::SharedKernel;

class CapacityHost : public test::HostKernels {
 protected:
  /// Compiles each kernel once and verifies all its cases with it. Returns the number of kernels.
  std::size_t verify_shared(const std::vector<Case>& cases) {
    const std::vector<SharedKernel> kernels = test::by_kernel(cases);
    verify_all(kernels);
    return kernels.size();
  }
  void verify_all(const std::vector<SharedKernel>& kernels) {
    constexpr std::size_t batch = 24;
    for (std::size_t begin = 0; begin < kernels.size(); begin += batch) {
      const std::size_t end = std::min(begin + batch, kernels.size());
      std::vector<CompileRequest> requests;
      for (std::size_t i = begin; i < end; ++i) {
        const Case& first = kernels[i].cases.front();
        requests.push_back(
            {first.problem.op + ".cu", render(*first.op().parse(first.problem), first.config), device_.info().arch});
      }
      const auto modules = device_.load_all(compiler_.compile_many(requests));
      for (std::size_t i = begin; i < end; ++i)
        for (const Case& c : kernels[i].cases) {
          const ParsedProblemPtr problem = c.op().parse(c.problem);
          const Executable executable(device_, modules[i - begin], problem->launch_plan(c.config, device_.info()));
          const CheckResult result = verify(*problem, executable, device_, 3);
          EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
        }
    }
  }
};

TEST_F(CapacityHost, EverySmallWidth) {
  const std::vector<Case> cases = test::every_small_width(device_.info());
  EXPECT_LT(verify_shared(cases), cases.size() / 3) << "kernels are not shared";
}

TEST_F(CapacityHost, BucketEndsInEveryVariant) {
  const std::vector<Case> cases = test::bucket_ends_in_every_variant(device_.info());
  EXPECT_LT(verify_shared(cases), cases.size() / 3) << "kernels are not shared";
}

TEST_F(CapacityHost, FewLongRowsInTheConfigurationsOfAGpu) {
  const DeviceInfo gpu = generic_device(parse_arch("sm_90a"));

  verify_shared(test::few_long_rows(gpu, true));

  std::vector<SharedKernel> exact;
  std::set<std::string> variants;
  for (const Case& c : test::few_long_rows(gpu, false)) {
    exact.push_back({{c}});
    variants.insert(c.config.variant());
  }
  EXPECT_EQ(variants, (std::set<std::string>{"cluster", "grid"}));
  verify_all(exact);
}

// Launches have dynamic shared memory for their own rows; the host executor reports accesses beyond it.
TEST_F(CapacityHost, RowsInSharedMemoryOfTheirOwnWidth) {
  const std::vector<SharedKernel> kernels = test::by_kernel(test::rows_in_shared_memory(device_.info()));

  for (const SharedKernel& kernel : kernels) {
    std::set<std::int64_t> sizes;
    for (const Case& c : kernel.cases)
      sizes.insert(c.op().parse(c.problem)->launch_plan(c.config, device_.info()).kernels.front().dynamic_smem_bytes);
    EXPECT_GT(sizes.size(), 1u) << kernel.cases.front().text();
  }
  verify_all(kernels);
}

// Which thread has which column of an unaligned row depends on the address, so that all arrays have to start at a line.
struct alignas(128) Line {
  std::array<std::byte, 128> bytes{};
  bool operator==(const Line&) const = default;
};

// Vectors beyond the row add nothing, in whatever order of threads and blocks the configuration has.
TEST_F(CapacityHost, GivesTheBitsOfTheExactKernelWithTheSameConfiguration) {
  std::vector<Case> cases;
  for (const Case& c : test::rows_in_shared_memory(device_.info())) {
    const std::int64_t cols = c.problem.fields.integer("cols");
    if (c.problem.op == "cross_entropy" || cols == 1031 || cols == 1279 || cols == 215) continue;
    Case exact{c.problem, {}};
    for (const auto& [field, value] : c.config.fields)
      if (field != "capacity" && field != "sized_by_row") exact.config.fields.set(field, value);
    cases.push_back(c);
    cases.push_back(exact);
  }
  std::vector<std::vector<Line>> before;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    const ParsedProblemPtr problem = c.op().parse(c.problem);
    std::vector<std::vector<Line>> memory;
    std::vector<HostArray> arrays;
    std::vector<void*> addresses;
    for (const ArrayInfo& info : problem->arrays()) {
      memory.emplace_back((static_cast<std::size_t>(info.extent_bytes()) + sizeof(Line) - 1) / sizeof(Line));
      arrays.push_back({info, memory.back().front().bytes.data(), nullptr});
      addresses.push_back(memory.back().data());
    }
    problem->fill_inputs(5, InputKind::random, arrays);
    executable.enqueue(addresses, {});
    device_.synchronize({});
    if (c.config.fields.contains("capacity"))
      before = std::move(memory);
    else
      EXPECT_TRUE(memory == before) << c.text();
  });
}

// What a GPU verifies: by_kernel() expects that a kernel's cases have one source.
TEST(Capacity, WidthsOfF64ShareKernels) {
  const std::vector<Case> cases = test::f64_widths(generic_device(parse_arch("sm_90a")));
  EXPECT_LT(test::by_kernel(cases).size(), cases.size() * 3 / 4);
}

TEST(Capacity, BucketsBeginAfterTheOneBefore) {
  std::set<std::int64_t> buckets;
  for (std::int64_t cols = 1; cols <= 131072; ++cols) {
    const std::int64_t capacity = row::capacity_of(cols), least = row::min_cols_of(capacity);
    ASSERT_LE(least, cols);
    ASSERT_LE(cols, capacity);
    ASSERT_EQ(row::capacity_of(least), capacity) << cols;
    if (least > 1) {
      ASSERT_EQ(row::capacity_of(least - 1), least - 1) << cols;
    }
    buckets.insert(capacity);
  }
  EXPECT_EQ(buckets.size(), 40u);
}

TEST(Capacity, AWidthHasTheCapacityOfItsBucket) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  const auto why_invalid = [&](std::int64_t cols, std::int64_t capacity) {
    Config config{
        parse_fields("variant=two_pass,threads=128,unroll=4,blocks_per_sm=0,load=plain,load_again=plain,"
                     "store=plain",
                     "config")};
    config.fields.set("capacity", capacity);
    return find_op("softmax").parse({"softmax", {{"rows", std::int64_t{8}}, {"cols", cols}}})->why_invalid(device, config);
  };
  EXPECT_EQ(why_invalid(1536, 1536), "");
  EXPECT_EQ(why_invalid(1028, 1536), "");
  EXPECT_EQ(why_invalid(1025, 1505), "") << "a 128-byte line holds the columns before which a row starts";
  EXPECT_EQ(why_invalid(1024, 1536), "capacity is 1536; rows of 1024 columns have 1024");
  EXPECT_EQ(why_invalid(1537, 1536), "capacity is 1536; rows of 1537 columns have 2017");
}

// Rows of whole vectors have no narrower ones in their bucket, so fewer vectors need a comparison with the end.
TEST(Capacity, RowsOfWholeVectorsBeginAtAVector) {
  row::Shape shape;
  shape.input = shape.output = DType::f16;
  const auto min_cols = [&](std::int64_t cols, std::int64_t stride) {
    shape.cols = cols;
    shape.in[0] = shape.out = {stride, 16, {}};
    return shape.with_capacity().min_cols;
  };
  EXPECT_EQ(min_cols(24, 24), 24);
  EXPECT_EQ(min_cols(40, 40), 40);
  EXPECT_EQ(min_cols(23, 24), 17);
  EXPECT_EQ(min_cols(39, 39), 32);
}

TEST(Capacity, BucketsOfUnalignedRowsFollowEachOther) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    row::Shape shape;
    shape.input = shape.output = dtype;
    std::set<std::int64_t> ends;
    std::int64_t end = 0;
    for (shape.cols = 1; shape.cols <= 131072; ++shape.cols) {
      shape.in[0] = shape.out = {8191, 16, {}};
      ASSERT_TRUE(shape.shifted());
      const row::Shape seen = shape.with_capacity();
      ASSERT_LE(shape.cols, seen.cols);
      ASSERT_LE(seen.min_cols, shape.cols);
      if (shape.cols > end) {
        ASSERT_EQ(seen.min_cols, end + 1);
        end = seen.cols;
      }
      ASSERT_EQ(seen.cols, end) << shape.cols;
      ends.insert(seen.cols);
    }
    EXPECT_LE(ends.size(), 40u);
  }
}

// Any mix of widths of one dtype and alignment class needs at most 40 kernels.
TEST(Capacity, FewKernelsServeAllWidths) {
  const DeviceInfo device = generic_device(parse_arch("sm_90a"));
  for (const char* op :
       {"softmax", "log_softmax_backward", "cross_entropy", "rms_norm", "layer_norm", "layer_norm_gradient"})
    for (const char* dtype : {"f32", "bf16"})
      for (const std::int64_t rows : {1, 300, 100000})
        for (const std::int64_t remainder : {0, 1}) {
          std::set<std::string> sources;
          const std::int64_t first = remainder == 0 ? 8 : remainder;
          for (std::int64_t cols = first; cols <= 131072; cols += cols < 1024 ? 8 : (cols / 64 + 7) / 8 * 8) {
            const ParsedProblemPtr problem =
                find_op(op).parse({op, {{"rows", rows}, {"cols", cols}, {"dtype", std::string(dtype)}}});
            const Config config = problem->capacity_config(device).value();
            EXPECT_EQ(problem->why_invalid(device, config), "") << op << " " << cols;
            sources.insert(KernelSource(*problem, config).key());
          }
          EXPECT_LE(sources.size(), 40u) << op << " " << dtype << " " << rows << " rows, remainder " << remainder;
        }
}

}  // namespace
}  // namespace tunesmith
