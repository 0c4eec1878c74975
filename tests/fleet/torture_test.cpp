// Hosts that share a server through a proxy that damages replies, while the server is killed and started again: no lookup
// returns anything but what was stored for its key, and each cache warns at most once. `make torture` runs it for longer.

#include "tests/support/torture.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "fleet/remote.h"
#include "tests/fleet/chaos_proxy.h"
#include "tests/fleet/samples.h"
#include "tests/fleet/server.h"

namespace tunesmith::fleet {
namespace {

class TortureTest : public FleetTest {};

TEST_F(TortureTest, NothingWrongIsEverFound) {
  TUNESMITH_NEEDS_SERVER();
  make_key("key");
  make_key("stranger");
  start({"--save", "3600 1"});
  const ChaosProxy proxy(path("proxy.sock"), path("server.sock"), 0.05, 11);
  const std::string base = "redis+unix:" + path("proxy.sock").string() + "?connect_ms=200&get_ms=50&binary_ms=50&sign=";
  std::atomic<int> hits{0}, misses{0}, wrong{0}, too_many_warnings{0};
  std::atomic<bool> is_over{false};

  // Every key has one tuning and one binary, so that any other answer is wrong. A stranger writes others.
  const auto host = [&](unsigned seed, bool is_stranger) {
    std::mt19937 random(seed);
    while (!is_over) {
      std::atomic<int> warnings{0};
      RemoteOptions remote;
      remote.url = base + path(is_stranger ? "stranger" : "key").string();
      remote.warn = [&](const std::string&) { ++warnings; };
      CacheOptions options;
      options.remote = open_remote(remote);
      {
        Cache cache(options);
        for (int i = 0; i < 30 && !is_over; ++i) {
          const int number = 1 + static_cast<int>(random() % 200);
          const std::string fingerprint = "f" + std::to_string(number);
          const SharedTuning tuning = sample_tuning(number, is_stranger ? 99 : 1);
          const BinaryRecord binary = sample_binary(fingerprint, 3000, is_stranger ? 99 : number);
          if (is_stranger || random() % 4 == 0) {
            cache.store_record(tuning.record, tuning.trials);
            cache.store_binary(binary, "source");
            continue;
          }
          const auto record = cache.find_record(tuning.record.key);
          if (record && record->config != tuning.record.config) ++wrong;
          const auto found = cache.find_binary(fingerprint);
          if (found && found->image != binary.image) ++wrong;
          ++(record ? hits : misses);
          ++(found ? hits : misses);
        }
      }
      if (warnings > 1) ++too_many_warnings;
    }
  };
  std::vector<std::thread> hosts;
  for (unsigned seed = 1; seed <= 4; ++seed) hosts.emplace_back(host, seed, false);
  hosts.emplace_back(host, 5, true);
  for (unsigned round = 0; round < torture_rounds(3); ++round) {
    std::this_thread::sleep_for(Milliseconds(500));
    stop(round % 2 == 0 ? SIGKILL : SIGTERM);
    start({"--save", "3600 1"});
  }
  is_over = true;
  for (std::thread& thread : hosts) thread.join();
  std::printf("  %d hits, %d misses, %d faults\n", hits.load(), misses.load(), proxy.faults());
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(too_many_warnings, 0);
  EXPECT_GT(hits, 20);
  EXPECT_GT(proxy.faults(), 5);
}

}  // namespace
}  // namespace tunesmith::fleet
