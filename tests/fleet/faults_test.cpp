// Servers that are dead, hung, slow, lying or short of something: lookups keep their time limits, nothing wrong is used, and
// there is one warning.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <thread>

#include "fleet/remote_cache.h"
#include "fleet/shared_values.h"
#include "tests/fleet/faulty_server.h"
#include "tests/fleet/samples.h"
#include "tests/fleet/server.h"

namespace tunesmith::fleet {
namespace {

using std::chrono::milliseconds;

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

class FaultsTest : public FleetTest {
 protected:
  FaultsTest() { make_key("key"); }

  /// A cache in memory with the default time limits: connection 100 ms, record 50 ms, binary 250 ms.
  std::unique_ptr<Cache> open(const std::string& options = "") {
    RemoteOptions given;
    given.url = "redis+unix:" + path("server.sock").string() + "?sign=" + path("key").string() + options;
    given.warn = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(text);
    };
    CacheOptions cache;
    cache.remote = open_remote(given);
    return std::make_unique<Cache>(cache);
  }

  // A hung server must not hold a lookup much longer than its time limit. The excess is below 5 ms on an idle machine; the
  // bound leaves room for one whose cores are shared.
  static constexpr double slack_ms = 400;

  static double time_lookups_ms(Cache& cache) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 500; ++i) {
      EXPECT_FALSE(cache.find_record(sample_key(10 + i)));
      EXPECT_FALSE(cache.find_binary("f" + std::to_string(i)));
    }
    return ms_since(start);
  }

  /// One lookup of a record, then 1000 lookups of records and binaries, all without a result.
  void expect_quick_misses(Cache& cache, double first_limit_ms) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_FALSE(cache.find_record(sample_key(1)));
    const double first_ms = ms_since(start);
    EXPECT_LE(first_ms, first_limit_ms + slack_ms);
    const double all_ms = time_lookups_ms(cache);
    Cache local(CacheOptions{});
    const double local_ms = time_lookups_ms(local);
    EXPECT_LE(all_ms, 500 + 3 * local_ms);
    EXPECT_TRUE(cache.list_records().empty());
    std::printf("  first lookup %.1f ms (limits: %.0f), 1000 more %.0f ms (without a server: %.0f)\n", first_ms,
                first_limit_ms, all_ms, local_ms);
  }

  void expect_one_warning(const std::string& part) {
    const std::lock_guard lock(mutex_);
    ASSERT_EQ(warnings_.size(), 1) << part;
    EXPECT_NE(warnings_[0].find(part), std::string::npos) << warnings_[0];
    warnings_.clear();
  }

  void expect_fault(const FaultyServer::Fault& fault, const std::string& warning, bool answers_login = true) {
    SCOPED_TRACE(warning);
    const FaultyServer server(path("server.sock"), fault, answers_login);
    {
      const std::unique_ptr<Cache> cache = open();
      expect_quick_misses(*cache, 150);
    }
    expect_one_warning(warning);
    std::filesystem::remove(path("server.sock"));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(FaultsTest, DeadServer) {
  const std::unique_ptr<Cache> cache = open();
  expect_quick_misses(*cache, 10);
  expect_one_warning("no connection");
}

TEST_F(FaultsTest, HungServers) {
  expect_fault(hang(), "in time");
  expect_fault(hang(), "in time", false);
}

TEST_F(FaultsTest, TricklingServers) {
  expect_fault(trickle("$100000\r\n" + std::string(200, 'x')), "in time");
  expect_fault(trickle("*2\r\n$-1\r\n*0\r\n"), "in time");
  expect_fault(trickle("+PONG\r\n"), "in time", false);
}

TEST_F(FaultsTest, CutConnections) {
  expect_fault(say_and_close("$1000\r\nabc"), "closed the connection");
  expect_fault(say_and_close(""), "closed the connection");
  expect_fault(say_and_close(""), "closed the connection", false);
}

TEST_F(FaultsTest, Garbage) {
  std::mt19937 random(3);
  std::string noise(4096, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  noise[0] = 'x';
  expect_fault(say(noise), "not a reply");
  expect_fault(say(noise), "not a reply", false);
  expect_fault(say("*1000000000\r\n"), "not a reply");
  expect_fault(say("HTTP/1.1 400 Bad Request\r\n\r\n"), "not a reply", false);
}

TEST_F(FaultsTest, LengthsThatLie) {
  expect_fault(say("$536870912\r\n" + std::string(1000, 'x')), "in time");
  expect_fault(say("$9223372036854775807\r\nx"), "no answer from");
}

TEST_F(FaultsTest, ErrorReplies) {
  for (const char* error : {"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a replica",
                            "OOM command not allowed when used memory > 'maxmemory'", "NOPERM no permissions to run 'hget'",
                            "MASTERDOWN Link with MASTER is down", "ERR max number of clients reached"}) {
    const std::string reply = std::string("-") + error + "\r\n";
    expect_fault(say(reply + reply), error);
  }
  expect_fault(say("-LOADING Redis is loading\r\n"), "LOADING", false);
}

TEST_F(FaultsTest, AnswersOfTheWrongType) {
  // No error: a miss, or a value that is damaged.
  for (const char* reply : {":1\r\n:1\r\n", "*0\r\n*0\r\n", "$3\r\nabc\r\n*0\r\n", "$0\r\n\r\n$0\r\n\r\n", "+OK\r\n+OK\r\n",
                            "$-1\r\n*3\r\n$1\r\nx\r\n:5\r\n*-1\r\n"}) {
    const FaultyServer server(path("server.sock"), say(reply));
    const std::unique_ptr<Cache> cache = open();
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(cache->find_record(sample_key(i)));
      EXPECT_FALSE(cache->find_binary("f" + std::to_string(i)));
      EXPECT_LE(cache->find_n_cols(sample_key(i)).size(), 1);
    }
    std::filesystem::remove(path("server.sock"));
  }
}

TEST_F(FaultsTest, WritersNeverWait) {
  const FaultyServer server(path("server.sock"), hang(), false);
  auto start = std::chrono::steady_clock::now();
  {
    const std::unique_ptr<Cache> cache = open();
    for (int i = 0; i < 100; ++i) cache->store_record(sample_tuning(i + 1).record, {});
    EXPECT_LE(ms_since(start), 500);
    start = std::chrono::steady_clock::now();
  }
  EXPECT_LE(ms_since(start), 1000 + slack_ms);  // one operation, and the time for writing the rest
  expect_one_warning("cannot write");
}

TEST_F(FaultsTest, AHungServerThatWakesUpIsUsedAgain) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const std::unique_ptr<Cache> a = open();
  a->store_record(sample_tuning(1024).record, {});
  const std::unique_ptr<Cache> b = open();
  EXPECT_FALSE(b->find_record(sample_key(70'000)));
  signal_server(SIGSTOP);
  expect_quick_misses(*b, 50);
  signal_server(SIGCONT);
  bool is_found = false;
  for (int attempt = 0; attempt < 400 && !is_found; ++attempt) {
    is_found = b->find_record(sample_key(1024)).has_value();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(is_found);
  expect_one_warning("in time");
}

TEST_F(FaultsTest, RolesOfTheServerAreKept) {
  TUNESMITH_NEEDS_SERVER();
  // The rules of docs/fleet.md.
  std::ofstream(path("users.acl")) << "user default on nopass ~* &* +@all\n"
                                      "user reader on >r1 ~ts1:* +@read +@connection\n"
                                      "user writer on >w1 ~ts1:* +@read +@write +@connection +eval -@dangerous\n";
  start({"--aclfile", path("users.acl")});
  std::ofstream(path("r")) << "r1\n";
  std::ofstream(path("w")) << "w1\n";
  const std::string reader = "&user=reader&password_file=" + path("r").string();
  const std::string writer = "&user=writer&password_file=" + path("w").string();
  {
    const std::unique_ptr<Cache> cache = open(writer);
    cache->store_record(sample_tuning(1024).record, {});
    cache->store_binary(sample_binary("f1", 1000), "");
    EXPECT_TRUE(cache->claim_host(sample_key(2048), 10).lease);
  }
  {
    const std::unique_ptr<Cache> cache = open(reader);  // in mode rw by mistake: its writes fail
    EXPECT_TRUE(cache->find_record(sample_key(1024)));
    EXPECT_TRUE(cache->find_binary("f1"));
    cache->store_record(sample_tuning(2048).record, {});
  }
  expect_one_warning("NOPERM");
  std::ofstream(path("w")) << "wrong\n";
  EXPECT_FALSE(open(writer)->find_record(sample_key(1024)));
  expect_one_warning("WRONGPASS");
}

TEST_F(FaultsTest, FullAndReadOnlyServersCostTheWriteOnly) {
  TUNESMITH_NEEDS_SERVER();
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--maxmemory", "1"}, std::vector<std::string>{"--replicaof", "127.0.0.1 1"}}) {
    start(options);
    {
      const std::unique_ptr<Cache> cache = open();
      cache->store_record(sample_tuning(1024).record, {});
      EXPECT_TRUE(cache->find_record(sample_key(1024)));  // on this host
    }
    expect_one_warning("the server answered: ");
    stop(SIGKILL);
  }
}

}  // namespace
}  // namespace tunesmith::fleet
