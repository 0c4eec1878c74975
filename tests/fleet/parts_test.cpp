// The parts of the remote cache that need no server.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "fleet/breaker.h"
#include "fleet/counters.h"
#include "fleet/in_parallel.h"
#include "fleet/misses.h"
#include "fleet/protocol/error.h"
#include "fleet/protocol/protocol.h"
#include "fleet/protocol/server_keys.h"
#include "fleet/signing.h"
#include "tests/fleet/samples.h"
#include "tests/fleet/server.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

TEST(Breaker, PausesTwiceAsLongAfterEachError) {
  Deadline now{};
  Breaker breaker([&] { return now; }, [] { return 1.0; });
  EXPECT_EQ(breaker.state(), Breaker::State::closed);
  std::vector<std::int64_t> pauses;
  for (int i = 0; i < 9; ++i) {
    breaker.failed();
    const Deadline start = now;
    while (breaker.state() == Breaker::State::open) now += Milliseconds(250);
    EXPECT_EQ(breaker.state(), Breaker::State::probe);
    pauses.push_back(std::chrono::duration_cast<std::chrono::seconds>(now - start).count());
    breaker.probe_succeeded();
    EXPECT_EQ(breaker.state(), Breaker::State::closed);
  }
  EXPECT_EQ(pauses, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 60, 60, 60}));
  breaker.succeeded();
  breaker.failed();
  now += Milliseconds(999);
  EXPECT_EQ(breaker.state(), Breaker::State::open);
  now += Milliseconds(1);
  EXPECT_EQ(breaker.state(), Breaker::State::probe);
}

TEST(Misses, AreForgottenAfterAboutAMinute) {
  Deadline now{};
  Misses misses([&] { return now; });
  misses.add("a");
  misses.add("b");
  misses.erase("b");
  EXPECT_TRUE(misses.contains("a"));
  EXPECT_FALSE(misses.contains("b"));
  now += Milliseconds(44'000);
  EXPECT_TRUE(misses.contains("a"));
  now += Milliseconds(32'000);
  EXPECT_FALSE(misses.contains("a"));
}

std::vector<Reply> replies_to(const std::string& bytes, std::size_t step) {
  ReplyParser parser;
  std::vector<Reply> replies;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    parser.feed(std::string_view(bytes).substr(at, step));
    while (auto reply = parser.next()) replies.push_back(std::move(*reply));
  }
  return replies;
}

TEST(Protocol, ReadsRepliesInPieces) {
  const std::string bytes =
      "+OK\r\n:42\r\n$5\r\na\r\nbc\r\n$-1\r\n-ERR no\r\n*3\r\n$1\r\nx\r\n*2\r\n:1\r\n$-1\r\n+s\r\n*0\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
    const std::vector<Reply> replies = replies_to(bytes, step);
    ASSERT_EQ(replies.size(), 7);
    EXPECT_EQ(replies[0].text, "OK");
    EXPECT_EQ(replies[1].integer, 42);
    EXPECT_EQ(replies[2].text, "a\r\nbc");
    EXPECT_TRUE(replies[3].is_nil());
    EXPECT_TRUE(replies[4].is_error());
    ASSERT_EQ(replies[5].elements.size(), 3);
    EXPECT_EQ(replies[5].elements[0].text, "x");
    ASSERT_EQ(replies[5].elements[1].elements.size(), 2);
    EXPECT_EQ(replies[5].elements[1].elements[0].integer, 1);
    EXPECT_EQ(replies[5].elements[2].text, "s");
    EXPECT_EQ(replies[6].type, Reply::Type::array);
  }
}

TEST(Protocol, RejectsWhatIsNoReply) {
  for (const std::string& bytes : {std::string("HTTP/1.1 200 OK\r\n\r\n"), std::string("*1000000000\r\n"),
                                   std::string("*-5\r\n"), std::string("\0\1\2\3\r\n", 6)})
    EXPECT_THROW(replies_to(bytes, bytes.size()), RemoteError) << bytes;
  std::string nested;
  for (int i = 0; i < 1000; ++i) nested += "*1\r\n";
  EXPECT_THROW(replies_to(nested, nested.size()), RemoteError);
  EXPECT_TRUE(replies_to("$536870912\r\nabc", 64).empty());  // never complete; the deadline ends it
}

TEST(Protocol, EncodesBinaryArguments) {
  const std::vector<std::string> command{"SET", "k", std::string("a\0\r\n", 4)};
  EXPECT_EQ(encode(command), std::string("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\0\r\n\r\n", 30));
}

TEST(ServerKeys, AreInOneHashSlotAndPerFamily) {
  const ServerKeys keys("prod");
  const TuningKey key = sample_key(1024);
  EXPECT_TRUE(keys.tunings(key).starts_with("ts1:{prod}:t:"));
  EXPECT_EQ(keys.tunings(key), keys.tunings(sample_key(2048, 64)));
  TuningKey other = key;
  other.template_digest = "4567";
  EXPECT_NE(keys.tunings(key), keys.tunings(other));
  EXPECT_NE(keys.lease(key), keys.lease(sample_key(2048)));
  EXPECT_EQ(field(key), "1024,4096");
  EXPECT_EQ(parse_field("1024,4096")->rows_bucket, 4096);
  for (const char* text : {"", "12", "12,", ",5", "12,5x", "a,b", "12;5"}) EXPECT_FALSE(parse_field(text)) << text;
}

TEST(InParallel, CallsEachOnceAndRethrows) {
  for (const std::size_t count : {0, 1, 15, 64, 1000}) {
    std::vector<std::atomic<int>> calls(count);
    in_parallel(count, [&](std::size_t i) { ++calls[i]; });
    EXPECT_TRUE(std::ranges::all_of(calls, [](const std::atomic<int>& number) { return number == 1; })) << count;
  }
  for (const std::size_t failing : {0, 999})
    EXPECT_THROW(in_parallel(1000,
                             [&](std::size_t i) {
                               if (i == failing) throw std::runtime_error("one");
                             }),
                 std::runtime_error);
}

class FilesTest : public FleetTest {};

TEST_F(FilesTest, KeysRoundTripThroughFiles) {
  const SigningKey key = SigningKey::generate();
  key.write(path("key"));
  EXPECT_EQ(SigningKey::read(path("key")).public_key(), key.public_key());
  EXPECT_THROW(key.write(path("key")), Error);  // never overwrites
  std::ofstream(path("trust")) << "# comment\n\n"
                               << trust_line(key.public_key(), "build 7") << "\n"
                               << trust_line(SigningKey::generate().public_key(), "") << "\n";
  const std::vector<std::string> trusted = read_trust(path("trust"));
  ASSERT_EQ(trusted.size(), 2);
  EXPECT_EQ(trusted[0], key.public_key());
  const std::string signature = key.sign("text");
  EXPECT_TRUE(is_signed("text", signature, key.public_key()));
  EXPECT_FALSE(is_signed("texT", signature, key.public_key()));
  EXPECT_FALSE(is_signed("text", signature, trusted[1]));
}

TEST_F(FilesTest, BadKeyFilesAreRejected) {
  EXPECT_THROW(SigningKey::read(path("missing")), Error);
  std::ofstream(path("text")) << "no key\n";
  chmod(path("text").c_str(), 0600);
  EXPECT_THROW(SigningKey::read(path("text")), Error);
  SigningKey::generate().write(path("open"));
  for (const mode_t mode : {0604, 0620, 0660}) {
    chmod(path("open").c_str(), mode);
    EXPECT_THROW(SigningKey::read(path("open")), Error) << mode;
  }
  // As Kubernetes mounts secrets: root owns the file, and the group of the process may read it.
  chmod(path("open").c_str(), 0640);
  if (geteuid() == 0) {
    EXPECT_NO_THROW(SigningKey::read(path("open")));
    ASSERT_EQ(chown(path("open").c_str(), 12345, 12345), 0);
  }
  EXPECT_THROW(SigningKey::read(path("open")), Error);
  for (const char* line :
       {"", "ed25519", "ed25519 abc", "rsa AAAA", "ed25519 !!!!AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}) {
    std::ofstream(path("trust")) << line << "\n";
    EXPECT_THROW(read_trust(path("trust")), Error) << line;
  }
}

TEST_F(FilesTest, CountersAddUpOverProcesses) {
  Counters counters;
  counters.add("hits_total{kind=\"record\"}", 2);
  add_to_file(path("counters"), counters.take_new());
  counters.add("hits_total{kind=\"record\"}");
  counters.add_latency(std::chrono::microseconds(100));
  add_to_file(path("counters"), counters.take_new());
  add_to_file(path("counters"), counters.take_new());
  const Counts counts = read_counts(path("counters"));
  EXPECT_EQ(counts.at("hits_total{kind=\"record\"}"), 3);
  const std::string text = prometheus_text(counts);
  EXPECT_NE(text.find("# TYPE tunesmith_remote_hits_total counter\ntunesmith_remote_hits_total{kind=\"record\"} 3\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("tunesmith_remote_lookup_seconds_bucket{le=\"0.000064\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tunesmith_remote_lookup_seconds_bucket{le=\"0.000128\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tunesmith_remote_lookup_seconds_bucket{le=\"+Inf\"} 1\n"), std::string::npos) << text;
  std::ofstream(path("counters")) << "\x01garbage\nhits_total 5\n 7\nx y\n";
  EXPECT_EQ(read_counts(path("counters")), (Counts{{"hits_total", 5}}));
}

}  // namespace
}  // namespace tunesmith::fleet
