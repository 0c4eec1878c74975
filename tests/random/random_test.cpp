// Random problems of every operation on the host executor: some of a fixed seed, two minutes of a fresh one, which is
// printed, and those that failed before (cases.txt). `make torture` and random_problems run for longer.

#include <gtest/gtest.h>

#include <fstream>

#include "tests/random/chance.h"
#include "tests/random/fresh_seed.h"
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

SessionOptions short_session(std::uint64_t run, double minutes) {
  SessionOptions options;
  options.run = run;
  options.minutes = minutes * torture_rounds(1);
  return options;
}

TEST(RandomProblems, OfAFixedSeed) {
  SessionOptions options;
  for (int i = 0; i < 90; ++i) options.seeds.push_back(mixed(1, static_cast<std::uint64_t>(i)));
  expect_clean(options);
}

TEST(RandomProblems, OfAFreshSeed) { expect_clean(short_session(fresh_seed("run"), 2)); }

// Drawing and checking costs a millisecond, compiling and running a hundred.
TEST(RandomProblems, DescriptionsOfAFreshSeed) {
  SessionOptions options = short_session(fresh_seed("descriptions"), 0.1);
  options.check_only = true;
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
