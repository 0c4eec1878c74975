// Random problems of every operation on the host executor, for some seconds: with a fixed seed, with a fresh one that is
// printed, and those that failed before (cases.txt). random_problems and `make torture` run for longer.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/random/chance.h"
#include "tests/random/session.h"
#include "tests/support/source_folder.h"
#include "tests/support/torture.h"

namespace tunesmith::test {
namespace {

void expect_clean(const SessionOptions& options) {
  std::printf("reproduce all: random_problems --run 0x%llx\n", static_cast<unsigned long long>(options.run));
  const SessionResult result = run_session(options);
  std::printf("%lld drawn, %lld invalid, %lld kernels, %lld launches\n", static_cast<long long>(result.drawn),
              static_cast<long long>(result.invalid), static_cast<long long>(result.kernels),
              static_cast<long long>(result.launches));
  for (const std::string& text : result.texts) ADD_FAILURE() << text;
  EXPECT_EQ(result.failures, 0);
  EXPECT_GT(result.drawn, 0);
}

SessionOptions short_session(std::uint64_t run) {
  SessionOptions options;
  options.run = run;
  options.minutes = 0.5 * torture_rounds(1);
  return options;
}

TEST(RandomProblems, OfAFixedSeed) { expect_clean(short_session(1)); }

TEST(RandomProblems, OfAFreshSeed) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  expect_clean(short_session(mixed(static_cast<std::uint64_t>(now), "run")));
}

// Drawing and checking costs a millisecond, compiling and running a hundred.
TEST(RandomProblems, DescriptionsOfAFreshSeed) {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  SessionOptions options = short_session(mixed(static_cast<std::uint64_t>(now), "descriptions"));
  options.check_only = true;
  options.minutes /= 3;
  expect_clean(options);
}

TEST(RandomProblems, ThatFailedBefore) {
  SessionOptions options;
  std::ifstream file(source_folder() / "tests/random/cases.txt");
  ASSERT_TRUE(file);
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') options.cases.push_back(line);
  if (!options.cases.empty()) expect_clean(options);
}

}  // namespace
}  // namespace tunesmith::test
