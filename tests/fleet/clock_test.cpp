// Hosts whose wall clocks jump or disagree share a server: values are found, leases and pauses last as long as they should.

#include <gtest/gtest.h>

#include <thread>

#include "fleet/lease.h"
#include "fleet/remote_cache.h"
#include "tests/fleet/faulty_server.h"
#include "tests/fleet/samples.h"
#include "tests/fleet/server.h"
#include "tests/support/jumping_clock.h"

namespace tunesmith::fleet {
namespace {

constexpr std::int64_t year_s = 31'536'000;
constexpr std::int64_t jumps[] = {0, 10 * year_s, -10 * year_s, -80 * year_s, 3600, -3600, 300 * year_s};

class ClockTest : public FleetTest {
 protected:
  ClockTest() { make_key("key"); }
  ~ClockTest() override { move_clock(0); }

  struct Host {
    std::shared_ptr<RemoteCache> remote;
    std::unique_ptr<Cache> cache;
  };
  Host host(const std::string& name) { return host(name, url("&sign=" + path("key").string())); }
  Host host(const std::string& name, const std::string& remote) {
    RemoteOptions given;
    given.url = remote;
    given.cache_file = path(name + ".db");
    given.warn = [this](const std::string&) { ++warnings; };
    Host made;
    made.remote = std::dynamic_pointer_cast<RemoteCache>(open_remote(given));
    CacheOptions cache;
    cache.file = given.cache_file;
    cache.remote = made.remote;
    made.cache = std::make_unique<Cache>(cache);
    return made;
  }

  std::atomic<int> warnings{0};
};

TEST_F(ClockTest, HostsWithOtherClocksShareValues) {
  TUNESMITH_NEEDS_SERVER();
  start();
  int number = 0;
  for (const std::int64_t writes : jumps) {
    move_clock(writes);
    const std::string name = std::to_string(++number), fingerprint = "f" + name;
    const BinaryRecord binary = sample_binary(fingerprint, 2000, number);
    {
      const Host writer = host("w" + name);
      writer.cache->store_record(sample_tuning(1000 + number).record, {});
      writer.cache->store_binary(binary, "source");
      ASSERT_TRUE(writer.remote->flush(std::chrono::seconds(5)));
    }
    for (const std::int64_t reads : jumps) {
      move_clock(reads);
      const Host reader = host("r" + name + "-" + std::to_string(reads));
      EXPECT_TRUE(reader.cache->find_record(sample_key(1000 + number))) << writes << " " << reads;
      const auto found = reader.cache->find_binary(fingerprint);
      ASSERT_TRUE(found) << writes << " " << reads;
      EXPECT_EQ(found->image, binary.image);
    }
  }
  EXPECT_EQ(warnings, 0);
}

TEST_F(ClockTest, ALeaseLastsWhateverTheClocksSay) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto client = connect();
  const Deadline deadline = after(Milliseconds(10'000));
  EXPECT_TRUE(take_lease(*client, "lease", "a", deadline));
  for (const std::int64_t jump : jumps) {
    move_clock(jump);
    EXPECT_FALSE(take_lease(*client, "lease", "b", deadline)) << jump;
    EXPECT_TRUE(renew_lease(*client, "lease", "a", deadline)) << jump;
    EXPECT_GT(client->call({"PTTL", "lease"}, deadline).integer, 20'000) << jump;
  }
}

TEST_F(ClockTest, TimeLimitsDoNotFollowTheWallClock) {
  const FaultyServer server(path("server.sock"), hang());
  std::atomic<bool> is_over{false};
  std::thread clock([&] {
    for (int i = 0; !is_over; ++i) {
      move_clock(jumps[i % std::size(jumps)]);
      std::this_thread::sleep_for(Milliseconds(5));
    }
  });
  // The default limits: connection 100 ms, record 50 ms.
  const Host a = host("a", "redis+unix:" + path("server.sock").string() + "?sign=" + path("key").string());
  const Deadline begin = Clock::now();
  EXPECT_FALSE(a.cache->find_record(sample_key(1)));
  const double first_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  EXPECT_GE(first_ms, 40);
  EXPECT_LE(first_ms, 150 + 400);  // the rest is for a busy machine
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(a.cache->find_record(sample_key(2 + i)));
  is_over = true;
  clock.join();
  EXPECT_EQ(warnings, 1);
}

}  // namespace
}  // namespace tunesmith::fleet
