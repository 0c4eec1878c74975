// rms_norm is a row program with options: its problems in every variant on the host executor, against the program's
// evaluation in float64 (tests/api/engine/rms_norm_test.cpp compares with the formula).

#include <gtest/gtest.h>

#include <set>

#include "tests/support/host_kernels.h"
#include "tests/templates/rms_norm/cases.h"

namespace tunesmith {
namespace {

using test::Case;

class RmsNormHost : public test::HostKernels {};

TEST_F(RmsNormHost, EdgeProblemsInEveryVariant) {
  std::vector<Case> cases = test::long_rms_norm_cases(device_.info());
  std::uint64_t seed = 11;
  std::set<std::string> variants;
  for (const Problem& problem : test::rms_norm_problems(19))
    for (const Config& config : test::sample_space(problem, device_.info(), 1, seed++)) {
      cases.push_back({problem, config});
      variants.insert(config.variant());
    }
  for (const char* variant : {"warp", "block", "cluster", "grid", "two_pass"})
    EXPECT_TRUE(variants.contains(variant)) << variant << " was never tried";
  verify_covering(cases);
}

TEST_F(RmsNormHost, F64InEveryVariant) {
  std::vector<Case> cases = test::long_f64_rms_norm_cases(device_.info());
  std::uint64_t seed = 31;
  for (const Problem& problem : test::f64_rms_norm_problems(19))
    for (const Config& config : test::sample_space(problem, device_.info(), 1, seed++)) cases.push_back({problem, config});
  for (Case& c : test::f64_rms_norm_capacity_cases(device_.info())) cases.push_back(std::move(c));
  verify_covering(cases);
}

}  // namespace
}  // namespace tunesmith
