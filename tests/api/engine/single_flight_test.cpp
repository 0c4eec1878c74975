// SingleFlight: one thread makes the value of a key, others wait for it.

#include "api/dispatch/single_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

TEST(SingleFlight, OneThreadMakesTheValueForAll) {
  SingleFlight<int> values;
  std::atomic<int> made{0}, sum{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        sum += values.get("key", [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          return ++made;
        });
      });
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(sum, 8);
  EXPECT_EQ(values.find("key"), 1);
  EXPECT_EQ(values.find("other"), std::nullopt);
}

TEST(SingleFlight, FailureReachesEveryWaiterAndIsNotCached) {
  SingleFlight<int> values;
  std::latch all_started(4);
  std::atomic<int> made{0}, failed{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        all_started.count_down();
        try {
          values.get("key", [&]() -> int {
            ++made;
            all_started.wait();
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            throw Error(ErrorCode::compile_failed, "no");
          });
        } catch (const Error& error) {
          if (error.code() == ErrorCode::compile_failed) ++failed;
        }
      });
  }
  EXPECT_EQ(failed, 4);
  EXPECT_LT(made, 4);  // at least one waited for another's failure
  EXPECT_EQ(values.find("key"), std::nullopt);
  EXPECT_EQ(values.get("key", [] { return 5; }), 5);
}

TEST(SingleFlight, OtherKeysDoNotWait) {
  SingleFlight<int> values;
  std::latch other_made(1);
  const int value = values.get("slow", [&] {
    std::jthread([&] {
      values.get("fast", [] { return 1; });
      other_made.count_down();
    }).join();
    EXPECT_EQ(values.find("slow"), std::nullopt);  // not finished; find() does not wait
    return other_made.try_wait() ? 2 : 3;
  });
  EXPECT_EQ(value, 2);
}

}  // namespace
}  // namespace tunesmith
