// Numerics of rms_norm on a GPU: edge cases in every variant, long rows, reproducibility.

#include <gtest/gtest.h>

#include <set>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/rms_norm/cases.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class RmsNormGpu : public test::GpuKernels {
 protected:
  /// Verifies the cases and checks the largest float32 error, in units in the last place.
  void verify_float32(const std::vector<Case>& cases) { expect_bound(verify_all(cases).float32(), 4); }
  /// The same for f64.
  void verify_float64(const std::vector<Case>& cases) { expect_bound(verify_all(cases).float64("rms_norm"), 5); }

 private:
  /// The tolerance of the check, 8, adds roundings of the largest size and of the same sign. These inputs stay far below it.
  static void expect_bound(double error, double largest) {
    EXPECT_GT(error, 0.3);  // the check found real rounding errors
    EXPECT_LE(error, largest);
  }
};

TEST_F(RmsNormGpu, EdgeProblemsInEveryVariant) {
  std::uint64_t seed = 100;
  std::vector<Case> cases;
  // A few rows, with several blocks per row, and more than two rows per multiprocessor of an H200.
  for (const auto& [rows, count] : {std::pair{19, 2}, {271, 1}})
    for (const Problem& problem : test::rms_norm_problems(rows))
      for (const Config& config : test::sample_space(problem, device().info(), static_cast<std::size_t>(count), seed++))
        cases.push_back({problem, config});
  std::set<std::string> variants;
  for (const Case& c : cases) variants.insert(c.config.variant());
  EXPECT_GE(variants.size(), has_clusters() ? 5U : 4U);
  verify_float32(cases);
}

TEST_F(RmsNormGpu, F64InEveryVariant) {
  std::vector<Case> cases = test::long_f64_rms_norm_cases(device().info());
  std::uint64_t seed = 31;
  for (const std::int64_t rows : {19, 271})
    for (const Problem& problem : test::f64_rms_norm_problems(rows))
      for (const Config& config : test::sample_space(problem, device().info(), 1, seed++))
        cases.push_back({problem, config});
  for (Case& c : test::f64_rms_norm_capacity_cases(device().info())) cases.push_back(std::move(c));
  verify_float64(cases);
}

TEST_F(RmsNormGpu, LongRowsAndManyRows) {
  std::vector<Case> cases = test::long_rms_norm_cases(device().info());
  for (const char* fields : {"rows=17,cols=131072,dtype=bf16,weight=1", "rows=1,cols=1048576,rstd=1",
                             "rows=20011,cols=1024,dtype=bf16,weight=1,weight_dtype=f32,rstd=1"}) {
    const Problem problem = test::normalized("rms_norm", fields);
    for (const Config& config : test::sample_space(problem, device().info(), 4, 7)) cases.push_back({problem, config});
  }
  verify_float32(cases);
}

TEST_F(RmsNormGpu, IsReproducible) {
  std::vector<Case> cases;
  for (const auto& [fields, config] :
       {std::pair{"rows=513,cols=1023", "variant=warp"},
        {"rows=513,cols=8191", "variant=block"},
        {"rows=140,cols=65536,in_place=1", "variant=cluster"},
        {"rows=37,cols=65536", "variant=grid,threads=256,blocks_per_row=16,min_blocks=1,register_vectors=2"},
        {"rows=140,cols=50257", "variant=two_pass"},
        {"rows=3,cols=500000", "variant=split"}})
    for (Case& c : case_if_valid("rms_norm", fields, config)) cases.push_back(std::move(c));
  EXPECT_GE(cases.size(), has_clusters() ? 6U : 4U);
  compile_all(cases);
  for (const Case& c : cases)
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, *executable_of(c), device(), 5), "") << c.text();
}

}  // namespace
}  // namespace tunesmith
