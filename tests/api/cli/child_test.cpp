// A process of this program that is waited for, and one that does not stop when it is asked to.

#include "api/cli/tuning/child.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "api/cli/tuning/interrupt.h"

namespace tunesmith::cli {
namespace {

constexpr const char* stubborn = "TUNESMITH_TEST_STUBBORN_CHILD";

/// This program, started again with the variable set, never gets as far as its tests.
[[maybe_unused]] const bool stays = [] {
  if (std::getenv(stubborn) == nullptr) return false;
  std::signal(SIGTERM, SIG_IGN);
  for (;;) pause();
}();

TEST(Child, ItsOutputAndExitCodeAreCollected) {
  const ChildExit listed = run_self({"--gtest_list_tests"});
  EXPECT_EQ(listed.code, 0);
  EXPECT_EQ(listed.signal, 0);
  EXPECT_NE(listed.out.find("ItsOutputAndExitCodeAreCollected"), std::string::npos) << listed.out;
}

// The last one: that a process was asked to stop is never forgotten.
TEST(Child, OneThatDoesNotStopIsKilledWithTheOneThatWaits) {
  using Clock = std::chrono::steady_clock;
  catch_interrupts();
  ASSERT_EQ(setenv(stubborn, "1", 1), 0);
  // Once the other one has had time to start.
  const std::jthread asker([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    kill(getpid(), SIGTERM);
  });
  const Clock::time_point start = Clock::now();
  const ChildExit killed = run_self({}, std::chrono::milliseconds(500));
  unsetenv(stubborn);
  EXPECT_EQ(killed.signal, SIGKILL);
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(1500));
}

}  // namespace
}  // namespace tunesmith::cli
