// Numerics of rms_norm on the host executor: every variant, compared with float64, with poisoned outputs and canaries
// (tuner/verify.h).

#include <gtest/gtest.h>

#include <set>

#include "tests/support/host_kernels.h"
#include "tests/templates/rms_norm/cases.h"
#include "tests/templates/softmax/launches.h"
#include "tuner/verify.h"

namespace tunesmith {
namespace {

using test::Case;

class RmsNormHost : public test::HostKernels {
 protected:
  /// Verifies the cases and checks the largest float32 error, in units in the last place.
  void verify_float32(const std::vector<Case>& cases) { expect_bound(verify_all(cases).float32(), 4); }
  /// The same for f64.
  void verify_float64(const std::vector<Case>& cases) { expect_bound(verify_all(cases).float64("rms_norm"), 4); }

 private:
  /// The tolerance of the check, 8, adds roundings of the largest size and of the same sign. These inputs stay far below it.
  static void expect_bound(double error, double largest) {
    EXPECT_GT(error, 0.3);  // the check found real rounding errors
    EXPECT_LE(error, largest);
  }
};

TEST_F(RmsNormHost, EdgeProblemsInEveryVariant) {
  std::vector<Case> cases;
  std::uint64_t seed = 11;
  std::set<std::string> variants;
  for (const Problem& problem : test::rms_norm_problems(19))
    for (const Config& config : test::sample_space(problem, device_.info(), 1, seed++)) {
      cases.push_back({problem, config});
      variants.insert(config.variant());
    }
  for (const char* variant : {"warp", "block", "cluster", "grid", "two_pass"})
    EXPECT_TRUE(variants.contains(variant)) << variant << " was never tried";
  verify_float32(cases);
}

TEST_F(RmsNormHost, F64InEveryVariant) {
  std::vector<Case> cases = test::long_f64_rms_norm_cases(device_.info());
  std::uint64_t seed = 31;
  for (const Problem& problem : test::f64_rms_norm_problems(19))
    for (const Config& config : test::sample_space(problem, device_.info(), 1, seed++)) cases.push_back({problem, config});
  for (Case& c : test::f64_rms_norm_capacity_cases(device_.info())) cases.push_back(std::move(c));
  for (const char* config : {"variant=warp,lanes=8", "variant=block"})
    cases.push_back(test::case_of("rms_norm", "rows=19,cols=61,dtype=f64,weight=1", device_.info(), config));
  verify_float64(cases);
}

TEST_F(RmsNormHost, LongRowsAndManyRows) { verify_float32(test::long_rms_norm_cases(device_.info())); }

TEST_F(RmsNormHost, ResultsDoNotDependOnTheNumberOfRows) {
  std::vector<Case> cases;
  for (const auto& [cols, config] : {std::pair{"300", "variant=warp"},
                                     {"9000", "variant=block"},
                                     {"9000", "variant=cluster"},
                                     {"9000", "variant=grid,threads=64,blocks_per_row=66,register_vectors=1,min_blocks=1"},
                                     {"9000", "variant=split"},
                                     {"9000", "variant=two_pass,blocks_per_sm=1"}})
    for (const char* rows : {"1", "9"})
      cases.push_back(test::case_of("rms_norm", std::string("rows=") + rows + ",cols=" + cols, device_.info(), config));
  std::vector<std::vector<std::byte>> results;
  with_executables(cases, [&](const Case& c, const Executable& executable) {
    results.push_back(test::Launches(c.op(), c.problem, device_, 1).launch(executable));
    EXPECT_EQ(test::difference_between_launches(c.op(), c.problem, executable, device_, 3), "") << c.text();
  });
  for (std::size_t i = 0; i < cases.size(); i += 2) {
    ASSERT_EQ(cases[i].config, cases[i + 1].config);
    ASSERT_LT(results[i].size(), results[i + 1].size());
    EXPECT_TRUE(std::equal(results[i].begin(), results[i].end(), results[i + 1].begin())) << cases[i].text();
  }
}

}  // namespace
}  // namespace tunesmith
