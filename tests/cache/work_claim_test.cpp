// One process at a time works on a key; another one takes over when it ends, however that happens.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using CacheClaim = CacheTest;

constexpr std::chrono::milliseconds none{0};

TEST_F(CacheClaim, ExcludesOthersUntilItEnds) {
  const Cache first(options()), second(options());
  std::optional<WorkClaim> claim = first.claim("key", none);
  ASSERT_TRUE(claim);
  EXPECT_FALSE(second.claim("key", none));
  EXPECT_FALSE(first.claim("key", none)) << "threads of one process exclude each other, too";
  EXPECT_TRUE(second.claim("other key", none));
  claim.reset();
  EXPECT_TRUE(second.claim("key", none));
}

TEST_F(CacheClaim, CanBeMoved) {
  const Cache cache(options());
  WorkClaim outer;
  {
    std::optional<WorkClaim> inner = cache.claim("key", none);
    outer = std::move(*inner);
  }
  EXPECT_FALSE(cache.claim("key", none));
  outer = WorkClaim();
  EXPECT_TRUE(cache.claim("key", none));
}

TEST_F(CacheClaim, WaitsForTheOwnerAndNoLonger) {
  const Cache cache(options());
  std::optional<WorkClaim> claim = cache.claim("key", none);
  const Clock::time_point start = Clock::now();
  EXPECT_FALSE(cache.claim("key", 50ms));
  EXPECT_GE(Clock::now() - start, 50ms);
  const std::jthread owner([&] {
    std::this_thread::sleep_for(50ms);
    claim.reset();
  });
  EXPECT_TRUE(cache.claim("key", 60s));
  EXPECT_LT(Clock::now() - start, 30s);
}

TEST_F(CacheClaim, AKilledOwnerIsReplaced) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t owner = start_process([&] {
    const Cache cache(options());
    const auto claim = cache.claim("key", none);
    EXPECT_EQ(write(ready[1], claim ? "y" : "n", 1), 1);
    pause();
  });
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const Cache cache(options());
  EXPECT_FALSE(cache.claim("key", none));
  kill(owner, SIGKILL);
  EXPECT_TRUE(cache.claim("key", 30s));
  EXPECT_FALSE(finished_well(owner));
  close(ready[0]);
  close(ready[1]);
}

TEST_F(CacheClaim, AForkedChildNeitherEndsNorKeepsIt) {
  const Cache cache(options());
  std::optional<WorkClaim> claim = cache.claim("key", none);
  EXPECT_TRUE(finished_well(start_process([&] { claim.reset(); })));
  EXPECT_FALSE(cache.claim("key", none)) << "the child has ended its parent's claim";
  const pid_t sleeper = start_process([] { pause(); });
  claim.reset();
  EXPECT_TRUE(cache.claim("key", none)) << "a child that inherited the file keeps the claim";
  kill(sleeper, SIGKILL);
  EXPECT_FALSE(finished_well(sleeper));
}

TEST_F(CacheClaim, WithoutAFileThreadsExcludeEachOther) {
  for (const char* file : {"", "/proc/tunesmith-none/cache.db"}) {
    const Cache cache(options(file)), other(options(file));
    std::optional<WorkClaim> claim = cache.claim("key", none);
    ASSERT_TRUE(claim) << file;
    EXPECT_FALSE(cache.claim("key", none)) << file;
    EXPECT_TRUE(cache.claim("other key", none)) << file;
    EXPECT_TRUE(other.claim("key", none)) << file;
    const std::jthread owner([&] {
      std::this_thread::sleep_for(20ms);
      claim.reset();
    });
    EXPECT_TRUE(cache.claim("key", 60s)) << file;
    EXPECT_TRUE(cache.claim("key", none)) << file;
  }
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheClaim, WithoutAFileAForkedChildIsFree) {
  const Cache cache(options(""));
  const std::optional<WorkClaim> claim = cache.claim("key", none);
  EXPECT_TRUE(finished_well(start_process([&] { EXPECT_TRUE(cache.claim("key", none)); })));
  EXPECT_FALSE(cache.claim("key", none)) << "the child has ended its parent's claim";
}

}  // namespace
}  // namespace tunesmith
