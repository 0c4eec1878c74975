// rms_norm on a GPU: its problems in every variant, and long rows.

#include <gtest/gtest.h>

#include "tests/support/gpu_kernels.h"
#include "tests/templates/rms_norm/cases.h"

namespace tunesmith {
namespace {

using test::Case;

class RmsNormGpu : public test::GpuKernels {};

TEST_F(RmsNormGpu, EveryVariant) {
  std::uint64_t seed = 100;
  std::vector<Case> cases = test::long_rms_norm_cases(device().info());
  for (Case& c : test::long_f64_rms_norm_cases(device().info())) cases.push_back(std::move(c));
  for (Case& c : test::f64_rms_norm_capacity_cases(device().info())) cases.push_back(std::move(c));
  // A few rows, with several blocks per row, and more than two rows per multiprocessor of an H200.
  for (const std::int64_t rows : {19, 271})
    for (const auto& problems : {test::rms_norm_problems(rows), test::f64_rms_norm_problems(rows)})
      for (const Problem& problem : problems)
        for (const Config& config : test::sample_space(problem, device().info(), 1, seed++))
          cases.push_back({problem, config});
  verify_all(cases);
}

}  // namespace
}  // namespace tunesmith
