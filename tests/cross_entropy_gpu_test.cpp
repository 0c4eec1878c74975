// Cross-entropy on a GPU: the numerics of the host executor's cases again, longer rows, 64-bit offsets, repeats bit for bit.

#include <gtest/gtest.h>

#include <cmath>

#include "templates/half.h"
#include "tests/cross_entropy_cases.h"
#include "tests/gpu_kernels.h"
#include "tests/softmax_launches.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class CrossEntropyGpu : public test::GpuKernels {
 protected:
  void verify_all(const std::vector<Case>& cases) {
    compile_all(cases);
    for (const Case& c : cases) {
      const CheckResult result = verify(c.op(), c.problem, *executable_of(c), device(), 5);
      EXPECT_TRUE(result.passed) << c.text() << ": " << result.first_failure;
    }
    std::printf("%zu configurations\n", cases.size());
  }
};

TEST_F(CrossEntropyGpu, EveryOptionInEveryVariant) {
  std::vector<Case> cases;
  std::uint64_t seed = 40;
  for (const Problem& problem : test::cross_entropy_problems())
    for (const Config& config : test::sample_space(problem, device().info(), 4, seed++)) cases.push_back({problem, config});
  for (Case& c : test::cross_entropy_variants(device().info())) cases.push_back(std::move(c));
  verify_all(cases);
}

TEST_F(CrossEntropyGpu, VocabulariesOfLanguageModels) {
  std::vector<Case> cases;
  std::uint64_t seed = 90;
  for (const char* fields :
       {"rows=25,cols=32000,reduction=none,nll=1", "rows=25,cols=128256,dtype=bf16,gradient=in_place,reduction=none",
        "rows=25,cols=50257,dtype=bf16,gradient=separate,out_dtype=f32",
        "rows=25,cols=151937,gradient=in_place,z_loss=0.001",
        "rows=24,cols=262144,dtype=f16,gradient=in_place,reduction=none,predicted=1", "rows=1,cols=262144,reduction=none"}) {
    const Problem problem = test::normalized("cross_entropy", fields);
    for (const Config& config : test::sample_space(problem, device().info(), 6, seed++)) cases.push_back({problem, config});
  }
  verify_all(cases);
}

// More rows than one block sums up.
TEST_F(CrossEntropyGpu, ManyRowsAreSummed) {
  std::vector<Case> cases;
  for (const char* fields :
       {"rows=40001,cols=64,correct=1,check_targets=1", "rows=20003,cols=64,weight=1,gradient=in_place"})
    cases.push_back(case_of("cross_entropy", fields, ""));
  verify_all(cases);
}

TEST_F(CrossEntropyGpu, RepeatsBitForBit) {
  std::vector<Case> cases;
  for (const auto& [fields, config] : {std::pair{"rows=513,cols=1000", "variant=warp"},
                                       {"rows=513,cols=8191,gradient=separate", "variant=block"},
                                       {"rows=271,cols=40000,dtype=bf16,gradient=separate", "variant=hybrid"},
                                       {"rows=140,cols=65536,gradient=separate", "variant=cluster"},
                                       {"rows=37,cols=65536,gradient=separate",
                                        "variant=grid,threads=256,blocks_per_row=16,min_blocks=1,register_vectors=2"},
                                       {"rows=9001,cols=5025", "variant=online"},
                                       {"rows=3,cols=500000", "variant=split"}})
    for (Case& c : case_if_valid("cross_entropy", fields, config)) cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), has_clusters() ? 7U : 5U);
  compile_all(cases);
  for (const Case& c : cases)
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, *executable_of(c), device(), 5), "") << c.text();
}

// Logits of more than 2^31 elements: the last rows are where 32 bits would have gone wrong. All logits are 0 but for one of
// the first and one of the last row.
TEST_F(CrossEntropyGpu, OffsetsAreSixtyFourBits) {
  constexpr std::int64_t rows = 70000, cols = 40000;  // 2.8e9 elements
  if (device().info().memory_bytes < std::int64_t{14} << 30) GTEST_SKIP() << "needs 12 GB of device memory";
  const std::int64_t bytes = rows * cols * 2;
  DeviceMemory logits(device(), bytes), dlogits(device(), bytes);
  DeviceMemory targets(device(), rows * 8), loss(device(), rows * 4), lse(device(), rows * 4);
  device().fill(logits.get(), 0, bytes);
  device().fill(targets.get(), 0, rows * 8);
  std::byte one[2];
  write_element(DType::bf16, one, 0, 1.0F);
  const std::int64_t at[] = {5, (rows - 1) * cols + cols - 1};
  for (const std::int64_t element : at) device().copy_to_device(logits.get() + element * 2, one, 2);
  std::byte last_class[8];
  write_integer(DType::i64, last_class, 0, cols - 1);
  device().copy_to_device(targets.get() + (rows - 1) * 8, last_class, 8);

  const double sum = static_cast<double>(cols - 1) + std::exp(1.0);
  std::vector<Case> cases;
  for (const char* variant : {"block", "hybrid", "cluster", "grid", "online", "split,blocks_per_row=5"})
    for (Case& c : case_if_valid("cross_entropy", "rows=70000,cols=40000,dtype=bf16,reduction=none,gradient=separate",
                                 std::string("variant=") + variant))
      cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), 4U);
  compile_all(cases);
  for (const Case& c : cases) {
    device().fill(dlogits.get(), 0xff, bytes);
    device().fill(loss.get(), 0xff, rows * 4);
    void* const arrays[] = {logits.get(), targets.get(), loss.get(), lse.get(), dlogits.get()};
    executable_of(c)->enqueue(arrays, nullptr);
    device().synchronize(nullptr);
    const auto value_of = [&](const DeviceMemory& memory, DType dtype, std::int64_t index) {
      std::byte element[4];
      device().copy_to_host(element, memory.get() + index * size_of(dtype), static_cast<std::size_t>(size_of(dtype)));
      return read_element(dtype, element, 0);
    };
    EXPECT_NEAR(value_of(loss, DType::f32, 0), std::log(sum), 1e-3) << c.text();
    EXPECT_NEAR(value_of(loss, DType::f32, rows / 2), std::log(static_cast<double>(cols)), 1e-3) << c.text();
    EXPECT_NEAR(value_of(loss, DType::f32, rows - 1), std::log(sum) - 1, 1e-3) << c.text();
    EXPECT_NEAR(value_of(dlogits, DType::bf16, 5), std::exp(1.0) / sum, 1e-6) << c.text();
    EXPECT_NEAR(value_of(dlogits, DType::bf16, at[1]), std::exp(1.0) / sum - 1, 4e-3) << c.text();
    EXPECT_NEAR(value_of(dlogits, DType::bf16, at[1] - 1), 1 / sum, 1e-6) << c.text();
  }
}

}  // namespace
}  // namespace tunesmith
