// Push and pull, the queue, and the checks of `doctor --remote`.

#include "fleet/protocol/transfer.h"

#include <gtest/gtest.h>

#include <csignal>
#include <ctime>
#include <fstream>
#include <thread>

#include "fleet/check.h"
#include "fleet/queue.h"
#include "fleet/shared_values.h"
#include "tests/fleet/samples.h"
#include "tests/fleet/server.h"
#include "tunesmith/error.h"

namespace tunesmith::fleet {
namespace {

class TransferTest : public FleetTest {
 protected:
  TransferTest() { make_key("key"); }
  RemoteUrl remote(const std::string& options = "") const {
    return parse_remote_url(url("&sign=" + path("key").string() + options));
  }
  std::unique_ptr<Cache> cache(const std::string& name) const {
    CacheOptions options;
    options.file = path(name + ".db");
    return std::make_unique<Cache>(options);
  }
};

TEST_F(TransferTest, PullsAThousandKeysWithBinaries) {
  TUNESMITH_NEEDS_SERVER();
  start();
  constexpr int keys = 1000;
  const SharedValues values(remote(), read_credentials(remote()));
  const auto client = connect();
  const Deadline deadline = after(Milliseconds(60'000));
  for (int i = 0; i < keys; ++i) {
    values.write(*client, sample_tuning(i + 1), Overwrite::always, deadline);
    values.write(*client, sample_binary("f" + std::to_string(i), 30'000, i), Overwrite::always, deadline);
  }
  const auto local = cache("a");
  const Deadline begin = Clock::now();
  const std::clock_t cpu = std::clock();
  const Transferred done = pull(remote(), *local);
  std::printf("  pull of %d tunings and %d binaries of 30 KB, %.1f MB: %.0f ms, of which the processor worked %.0f ms\n",
              keys, keys, static_cast<double>(done.bytes) * 1e-6,
              std::chrono::duration<double, std::milli>(Clock::now() - begin).count(),
              1e3 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC);
  EXPECT_LE(Clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(done.tunings, keys);
  EXPECT_EQ(done.binaries, keys);
  EXPECT_EQ(done.refused, 0);
  EXPECT_EQ(local->find_binary("f7")->image, sample_binary("f7", 30'000, 7).image);
  EXPECT_EQ(local->find_record(sample_key(500))->config, sample_tuning(500).record.config);
}

TEST_F(TransferTest, PushKeepsTheFirstUnlessAskedToReplace) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto a = cache("a"), b = cache("b");
  a->store_record(sample_tuning(1024, 1).record, {});
  a->store_binary(sample_binary("f1", 500), "source");
  b->store_record(sample_tuning(1024, 2).record, {});
  b->store_record(sample_tuning(2048, 2).record, {});
  Transferred done = push(remote(), *a, {});
  EXPECT_EQ(done.tunings, 1);
  EXPECT_EQ(done.binaries, 1);
  done = push(remote(), *b, {});
  EXPECT_EQ(done.tunings, 1);
  EXPECT_EQ(done.kept, 1);
  const auto config_of_fleet = [&](const std::string& name) {
    const auto local = cache(name);
    pull(remote(), *local);
    return local->find_record(sample_key(1024))->config;
  };
  EXPECT_EQ(config_of_fleet("c"), sample_tuning(1024, 1).record.config);
  EXPECT_EQ(config_of_fleet("b"), sample_tuning(1024, 1).record.config);  // replaces what b had
  const auto d = cache("d");
  d->store_record(sample_tuning(1024, 3).record, {});
  PushOptions replace;
  replace.replace = true;
  push(remote(), *d, replace);
  EXPECT_EQ(config_of_fleet("e"), sample_tuning(1024, 3).record.config);
}

TEST_F(TransferTest, PullOfAGenerationTakesItAlone) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto a = cache("a");
  a->store_record(sample_tuning(1024, 1).record, {});
  a->store_binary(sample_binary("f1", 500), "source");
  PushOptions options;
  options.generation = "one";
  push(remote(), *a, options);
  a->store_record(sample_tuning(2048, 1).record, {});
  a->store_binary(sample_binary("f2", 500), "source");
  push(remote(), *a, {});
  const auto b = cache("b");
  const Transferred done = pull(remote("&generation=one"), *b);
  EXPECT_EQ(done.tunings, 1);
  EXPECT_EQ(done.binaries, 1);
  EXPECT_FALSE(b->find_record(sample_key(2048)));
  // A binary that was replaced since, though signed, is not of the generation.
  const SharedValues values(remote(), read_credentials(remote()));
  values.write(*connect(), sample_binary("f1", 600), Overwrite::always, after(Milliseconds(2000)));
  EXPECT_EQ(pull(remote("&generation=one"), *cache("c")).refused, 1);
  EXPECT_THROW(pull(remote("&generation=two"), *b), Error);
}

TEST_F(TransferTest, PullRefusesWhatIsNotInItsPlace) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto a = cache("a");
  a->store_record(sample_tuning(1024, 1).record, {});
  push(remote(), *a, {});
  const auto client = connect();
  const Deadline deadline = after(Milliseconds(5000));
  const std::string hash = ServerKeys("default").tunings(sample_key(1024));
  const std::string value = client->call({"HGET", hash, "1024,4096"}, deadline).text;
  client->call({"HSET", hash, "2048,4096", value, "1,1", "garbage", "2,2", ""}, deadline);
  client->call({"HSET", "ts1:{default}:t:0123", "1024,4096", value}, deadline);
  const Transferred done = pull(remote(), *cache("b"));
  EXPECT_EQ(done.tunings, 1);
  EXPECT_EQ(done.refused, 4);
}

TEST_F(TransferTest, MistakesAreErrors) {
  const auto a = cache("a");
  EXPECT_THROW(push(remote(), *a, {}), Error);  // no server
  EXPECT_THROW(pull(remote(), *a), Error);
  const std::string trust = "&trust=" + path("key.pub").string();
  EXPECT_THROW(push(parse_remote_url(url(trust)), *a, {}), Error);
  EXPECT_THROW(push(parse_remote_url(url("&mode=ro")), *a, {}), Error);
}

class QueueTest : public TransferTest {
 protected:
  Queue queue() { return Queue(remote(), "gpu"); }
};

TEST_F(QueueTest, DeliversEachJobOnce) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Queue ci = queue(), worker = queue(), other = queue();
  const std::string a = ci.add("problem a"), b = ci.add("problem b");
  EXPECT_EQ(ci.add("problem a"), a);  // it waits already
  EXPECT_EQ(ci.size(), 2);
  const auto first = worker.take("w1", Milliseconds(60'000), Milliseconds(0));
  const auto second = other.take("w2", Milliseconds(60'000), Milliseconds(0));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->payload, "problem a");
  EXPECT_EQ(second->payload, "problem b");
  EXPECT_FALSE(worker.take("w1", Milliseconds(60'000), Milliseconds(0)));
  EXPECT_EQ(ci.state(a).kind, JobState::Kind::running);
  EXPECT_EQ(ci.state(a).text, "w1");
  EXPECT_EQ(ci.add("problem a"), a);  // it runs
  worker.finish(*first, {});
  other.finish(*second, {JobResult::Kind::hopeless, "it does not compile"});
  EXPECT_EQ(ci.state(a).kind, JobState::Kind::done);
  EXPECT_EQ(ci.state(b).kind, JobState::Kind::dead);
  EXPECT_EQ(ci.state(b).text, "it does not compile");
  EXPECT_EQ(ci.size(), 0);
  ASSERT_EQ(ci.dead_letters().size(), 1);
  EXPECT_EQ(ci.dead_letters()[0].payload, "problem b");
  EXPECT_EQ(ci.state("nothing").kind, JobState::Kind::unknown);
  ci.add("problem b");  // a dead job may be tried again
  EXPECT_EQ(ci.size(), 1);
}

TEST_F(QueueTest, JobsOfDeadWorkersAreTakenOverAndEndAsDeadLetters) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Queue ci = queue();
  const std::string id = ci.add("problem a");
  for (int delivery = 1; delivery <= Queue::max_deliveries; ++delivery) {
    Queue worker = queue();
    const auto job = worker.take("w" + std::to_string(delivery), Milliseconds(1), Milliseconds(0));
    ASSERT_TRUE(job) << delivery;
    EXPECT_EQ(job->deliveries, delivery);
    std::this_thread::sleep_for(Milliseconds(5));  // and it is killed
  }
  Queue last = queue();
  EXPECT_FALSE(last.take("last", Milliseconds(1), Milliseconds(0)));
  EXPECT_EQ(ci.state(id).kind, JobState::Kind::dead);
  EXPECT_NE(ci.state(id).text.find("without a result 3 times"), std::string::npos);
  EXPECT_EQ(ci.size(), 0);
}

TEST_F(QueueTest, ARenewedJobIsNotTakenOver) {
  TUNESMITH_NEEDS_SERVER();
  start();
  constexpr Milliseconds patience(400);
  Queue worker = queue(), other = queue();
  const std::string id = worker.add("problem a");
  const auto job = worker.take("w", patience, Milliseconds(0));
  ASSERT_TRUE(job);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 2 * patience) {
    ASSERT_TRUE(worker.renew(*job, true));
    ASSERT_FALSE(other.take("other", patience, Milliseconds(0)));
    std::this_thread::sleep_for(patience / 8);
  }
  std::this_thread::sleep_for(patience);
  const auto taken_over = other.take("other", patience, Milliseconds(0));
  ASSERT_TRUE(taken_over);
  EXPECT_EQ(taken_over->deliveries, 2);
  EXPECT_FALSE(worker.renew(*job, true)) << "another worker has it";
  EXPECT_TRUE(other.renew(*taken_over, true));
  worker.finish(*job, {JobResult::Kind::failed, "late"});
  EXPECT_EQ(other.state(id).text, "other") << "a worker that lost a job does not end it";
  other.finish(*taken_over, {});
  EXPECT_FALSE(other.renew(*taken_over, true)) << "it has ended";
  EXPECT_EQ(worker.size(), 0);
}

TEST_F(QueueTest, AJobThatOnlyWaitedIsNotDelivered) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Queue ci = queue();
  const std::string id = ci.add("problem a");
  for (int lost = 0; lost < 2 * Queue::max_deliveries; ++lost) {
    Queue worker = queue();
    const auto job = worker.take("w" + std::to_string(lost), Milliseconds(1), Milliseconds(0));
    ASSERT_TRUE(job) << lost;
    EXPECT_EQ(job->deliveries, 1);
    ASSERT_TRUE(worker.renew(*job, false));
    std::this_thread::sleep_for(Milliseconds(5));  // and it is killed
  }
  for (int delivery = 1; delivery <= Queue::max_deliveries; ++delivery) {
    Queue worker = queue();
    const auto job = worker.take("v" + std::to_string(delivery), Milliseconds(1), Milliseconds(0));
    ASSERT_TRUE(job) << delivery;
    EXPECT_EQ(job->deliveries, delivery);
    ASSERT_TRUE(worker.renew(*job, false));
    ASSERT_TRUE(worker.renew(*job, true));  // it begins
    std::this_thread::sleep_for(Milliseconds(5));
  }
  EXPECT_FALSE(ci.take("last", Milliseconds(1), Milliseconds(0)));
  EXPECT_EQ(ci.state(id).kind, JobState::Kind::dead);
}

TEST_F(QueueTest, AJobThatIsGivenBackIsTakenAtOnce) {
  TUNESMITH_NEEDS_SERVER();
  start();
  constexpr Milliseconds patience(60'000);
  Queue worker = queue(), other = queue();
  const std::string id = worker.add("problem a");
  for (int turn = 0; turn < 2 * Queue::max_deliveries; ++turn) {
    Queue& taker = turn % 2 == 0 ? worker : other;
    const auto job = taker.take("w" + std::to_string(turn % 2), patience, Milliseconds(0));
    ASSERT_TRUE(job) << turn;
    EXPECT_EQ(job->deliveries, 1);
    taker.give_back(*job);
    EXPECT_EQ(worker.state(id).kind, JobState::Kind::waiting);
    EXPECT_EQ(worker.add("problem a"), id);
    EXPECT_EQ(worker.size(), 1) << "it waits already";
    EXPECT_FALSE(taker.renew(*job, false));
  }
  const auto job = other.take("w1", patience, Milliseconds(0));
  ASSERT_TRUE(job);
  other.finish(*job, {});
  EXPECT_EQ(worker.state(id).kind, JobState::Kind::done);
  worker.give_back(*job);  // not its own
  EXPECT_EQ(worker.state(id).kind, JobState::Kind::done);
}

TEST_F(QueueTest, AWorkerDoesNotTakeItsOwnJobAgain) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Queue worker = queue();
  const std::string a = worker.add("problem a");
  const auto job = worker.take("w", Milliseconds(1), Milliseconds(0));
  ASSERT_TRUE(job);
  for (int i = 0; i < 2 * Queue::max_deliveries; ++i) {
    std::this_thread::sleep_for(Milliseconds(5));
    EXPECT_FALSE(worker.take("w", Milliseconds(1), Milliseconds(0)));
  }
  EXPECT_TRUE(worker.renew(*job, true));
  EXPECT_EQ(worker.state(a).kind, JobState::Kind::running);
  worker.finish(*job, {});
  EXPECT_EQ(worker.state(a).kind, JobState::Kind::done);
}

TEST_F(QueueTest, AFailedJobIsTriedThreeTimes) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Queue ci = queue(), worker = queue();
  const std::string id = ci.add("problem a");
  for (int delivery = 1; delivery <= Queue::max_deliveries; ++delivery) {
    const auto job = worker.take("w", Milliseconds(1), Milliseconds(0));
    ASSERT_TRUE(job);
    worker.finish(*job, {JobResult::Kind::failed, "the GPU is busy"});
    std::this_thread::sleep_for(Milliseconds(5));
  }
  EXPECT_FALSE(worker.take("w", Milliseconds(1), Milliseconds(0)));
  EXPECT_EQ(ci.state(id).text, "the GPU is busy");
}

TEST_F(QueueTest, JobsOfStrangersAreNotTaken) {
  TUNESMITH_NEEDS_SERVER();
  start();
  make_key("stranger");
  Queue stranger(parse_remote_url(url("&sign=" + path("stranger").string())), "gpu");
  Queue nobody(parse_remote_url(url()), "gpu");
  const std::string a = stranger.add("evil"), b = nobody.add("evil, too");
  Queue worker = queue();
  EXPECT_FALSE(worker.take("w", Milliseconds(1000), Milliseconds(0)));
  EXPECT_FALSE(worker.take("w", Milliseconds(1000), Milliseconds(0)));
  EXPECT_EQ(worker.state(a).text, "the job is untrusted");
  EXPECT_EQ(worker.state(b).text, "the job is untrusted");
  EXPECT_EQ(worker.size(), 0);
}

class CheckTest : public TransferTest {
 protected:
  /// Returns what failed; empty if nothing did.
  static std::string failed(const std::string& text) {
    for (const Finding& finding : check_remote(text))
      if (finding.verdict == Finding::Verdict::failed) return finding.what + ": " + finding.text;
    return {};
  }
  static std::string warned(const std::string& text) {
    for (const Finding& finding : check_remote(text))
      if (finding.verdict == Finding::Verdict::warning) return finding.what + ": " + finding.text;
    return {};
  }
};

TEST_F(CheckTest, FindsWhatIsWrong) {
  TUNESMITH_NEEDS_SERVER();
  const std::string sign = "&sign=" + path("key").string();
  EXPECT_EQ(failed("http://x").substr(0, 4), "URL:");
  EXPECT_NE(failed(url(sign)).find("no connection"), std::string::npos);
  EXPECT_NE(failed(url("&trust=missing")).find("keys: trust 'missing' cannot be read"), std::string::npos);
  start({"--maxmemory-policy", "allkeys-lru"});
  EXPECT_EQ(failed(url(sign)), "");
  EXPECT_NE(warned(url(sign)).find("volatile-lru"), std::string::npos);
  EXPECT_NE(failed(url(sign + "&generation=g")).find("no generation 'g'"), std::string::npos);
  EXPECT_NE(warned(url("&trust=" + path("key.pub").string())).find("writes nothing"), std::string::npos);
  EXPECT_EQ(connect()->call({"KEYS", "*check*"}, after(Milliseconds(2000))).elements.size(), 0);  // cleaned up
  stop(SIGKILL);
  std::ofstream(path("users.acl")) << "user default on nopass ~ts1:* +@read +@connection\n";
  start({"--aclfile", path("users.acl")});
  EXPECT_NE(failed(url(sign)).find("NOPERM"), std::string::npos);
  EXPECT_EQ(failed(url("&mode=ro")), "");
}

}  // namespace
}  // namespace tunesmith::fleet
