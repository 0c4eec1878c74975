// Caches of several hosts that share a real server.

#include "fleet/remote_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "fleet/counters.h"
#include "fleet/lease.h"
#include "fleet/shared_values.h"
#include "tests/fleet/samples.h"
#include "tests/fleet/server.h"

namespace tunesmith::fleet {
namespace {

class RemoteCacheTest : public FleetTest {
 protected:
  /// The cache of one host: a file of its own, and the server.
  struct Host {
    std::shared_ptr<RemoteCache> remote;
    std::unique_ptr<Cache> cache;
  };
  Host host(const std::string& name, const std::string& options = "") {
    RemoteOptions given;
    given.url = url(options);
    given.cache_file = path(name + ".db");
    given.warn = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      warnings.push_back(text);
    };
    Host made;
    made.remote = std::dynamic_pointer_cast<RemoteCache>(open_remote(given));
    CacheOptions cache;
    cache.file = given.cache_file;
    cache.remote = made.remote;
    made.cache = std::make_unique<Cache>(cache);
    return made;
  }
  Host signing_host(const std::string& name, const std::string& options = "") {
    return host(name, "&sign=" + path("key").string() + options);
  }
  static void flush(const Host& host) { ASSERT_TRUE(host.remote->flush(std::chrono::seconds(5))); }

  std::vector<std::string> warnings;

 private:
  std::mutex mutex_;
};

TEST_F(RemoteCacheTest, WhatOneHostTunesTheOtherFinds) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const SharedTuning tuning = sample_tuning(1024);
  Host a = host("a"), b = host("b");
  EXPECT_FALSE(b.cache->find_record(sample_key(4096)));
  a.cache->store_record(tuning.record, tuning.trials);
  flush(a);
  const auto found = b.cache->find_record(tuning.record.key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->config, tuning.record.config);
  EXPECT_EQ(b.cache->find_trials(tuning.record.key).size(), tuning.trials.size());
  EXPECT_EQ(b.cache->find_n_cols(sample_key(77)), (std::set<std::int64_t>{1024}));

  // It was stored on b: no further question.
  stop(SIGKILL);
  EXPECT_TRUE(b.cache->find_record(tuning.record.key));
  EXPECT_TRUE(host("b").cache->find_record(tuning.record.key));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(RemoteCacheTest, NeighboursComeAlong) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Host a = host("a"), b = host("b");
  for (const std::int64_t n_cols : {64, 512, 768, 1024, 1536, 2048, 65536})
    a.cache->store_record(sample_tuning(n_cols).record, {});
  flush(a);
  EXPECT_FALSE(b.cache->find_record(sample_key(1000)));
  std::set<std::int64_t> near;
  for (const TuningRecord& record : b.cache->find_nearest(sample_key(1000), 8)) near.insert(record.key.n_cols);
  EXPECT_EQ(near, (std::set<std::int64_t>{512, 768, 1024, 1536}));
}

TEST_F(RemoteCacheTest, TheFirstRecordWinsOnAllHosts) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Host a = host("a"), b = host("b");
  const SharedTuning first = sample_tuning(1024, 1), second = sample_tuning(1024, 2);
  a.cache->store_record(first.record, first.trials);
  flush(a);
  b.cache->store_record(second.record, second.trials);
  flush(b);
  EXPECT_EQ(b.cache->find_record(first.record.key)->config, first.record.config);
  EXPECT_EQ(host("c").cache->find_record(first.record.key)->config, first.record.config);
}

TEST_F(RemoteCacheTest, AMissIsRememberedAndOwnResultsEndIt) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Host a = host("a"), b = host("b");
  EXPECT_FALSE(b.cache->find_record(sample_key(1024)));
  a.cache->store_record(sample_tuning(1024).record, {});
  flush(a);
  EXPECT_FALSE(b.cache->find_record(sample_key(1024)));
  EXPECT_FALSE(b.remote->lease(sample_key(1024), 10).is_elsewhere);  // a lease looks again
  EXPECT_TRUE(b.cache->find_record(sample_key(1024)));
}

TEST_F(RemoteCacheTest, WithoutKeysOnlyTuningsAreShared) {
  TUNESMITH_NEEDS_SERVER();
  start();
  make_key("key");
  const BinaryRecord binary = sample_binary("f1", 60'000);
  Host a = signing_host("a"), b = host("b");
  a.cache->store_binary(binary, "source");
  a.cache->store_record(sample_tuning(1024).record, {});
  flush(a);
  EXPECT_FALSE(b.cache->find_binary("f1"));
  EXPECT_TRUE(b.cache->find_record(sample_key(1024)));
  b.cache->store_binary(sample_binary("f2", 100), "");
  flush(b);
  EXPECT_TRUE(connect()->call({"GET", "ts1:{default}:b:f2"}, after(Milliseconds(2000))).is_nil());
}

TEST_F(RemoteCacheTest, WithKeysOnlySignedValuesAreUsed) {
  TUNESMITH_NEEDS_SERVER();
  start();
  make_key("key");
  make_key("stranger");
  const std::string trust = "&trust=" + path("key.pub").string();
  Host stranger = host("s", "&sign=" + path("stranger").string()), nobody = host("n");
  stranger.cache->store_binary(sample_binary("f1", 1000), "");
  stranger.cache->store_record(sample_tuning(512).record, {});
  nobody.cache->store_record(sample_tuning(1024).record, {});
  flush(stranger);
  flush(nobody);
  Host reader = host("r", trust + "&mode=ro");
  EXPECT_FALSE(reader.cache->find_binary("f1"));
  EXPECT_FALSE(reader.cache->find_record(sample_key(512)));
  EXPECT_FALSE(reader.cache->find_record(sample_key(1024)));
  EXPECT_EQ(warnings.size(), 1);

  // A host with the key replaces what it cannot use.
  const BinaryRecord binary = sample_binary("f1", 2000, 2);
  Host writer = signing_host("w");
  writer.cache->store_binary(binary, "");
  writer.cache->store_record(sample_tuning(512, 3).record, {});
  flush(writer);
  Host second = host("r2", trust + "&mode=ro");
  ASSERT_TRUE(second.cache->find_binary("f1"));
  EXPECT_EQ(second.cache->find_binary("f1")->image, binary.image);
  EXPECT_EQ(second.cache->find_record(sample_key(512))->config, sample_tuning(512, 3).record.config);
}

TEST_F(RemoteCacheTest, SwappedAndDamagedValuesAreNotUsed) {
  TUNESMITH_NEEDS_SERVER();
  start();
  make_key("key");
  Host a = signing_host("a");
  a.cache->store_binary(sample_binary("f1", 1000, 1), "");
  a.cache->store_binary(sample_binary("f2", 1000, 2), "");
  a.cache->store_record(sample_tuning(512).record, {});
  a.cache->store_record(sample_tuning(1024).record, {});
  flush(a);
  const auto client = connect();
  const Deadline deadline = after(Milliseconds(5000));
  const std::string prefix = "ts1:{default}:", hash = ServerKeys("default").tunings(sample_key(512));
  const std::string other = client->call({"GET", prefix + "b:f2"}, deadline).text;
  client->call({"SET", prefix + "b:f1", other}, deadline);
  client->call({"SET", prefix + "b:f2", other.substr(0, 500)}, deadline);
  client->call({"HSET", hash, "512,4096", client->call({"HGET", hash, "1024,4096"}, deadline).text}, deadline);
  client->call({"HSET", hash, "1024,4096", "garbage", "x,y", "?", "2048,4096", ""}, deadline);
  Host b = signing_host("b");
  EXPECT_FALSE(b.cache->find_binary("f1"));
  EXPECT_FALSE(b.cache->find_binary("f2"));
  EXPECT_FALSE(b.cache->find_record(sample_key(512)));
  EXPECT_FALSE(b.cache->find_record(sample_key(1024)));
  EXPECT_FALSE(b.cache->find_record(sample_key(1500)));
  EXPECT_TRUE(b.cache->list_records().empty());
  EXPECT_EQ(warnings.size(), 1);
  // A key of another type is an error reply.
  client->call({"DEL", hash}, deadline);
  client->call({"SET", hash, "text"}, deadline);
  EXPECT_FALSE(signing_host("c").cache->find_record(sample_key(512)));
}

TEST_F(RemoteCacheTest, AReaderWritesNothing) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Host reader = host("r", "&mode=ro");
  reader.cache->store_record(sample_tuning(1024).record, {});
  EXPECT_FALSE(reader.remote->lease(sample_key(512), 10).is_elsewhere);
  flush(reader);
  EXPECT_EQ(connect()->call({"DBSIZE"}, after(Milliseconds(2000))).integer, 0);
}

TEST_F(RemoteCacheTest, NamespacesShareNothing) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Host a = host("a", "&ns=one"), b = host("b", "&ns=two");
  a.cache->store_record(sample_tuning(1024).record, {});
  flush(a);
  EXPECT_FALSE(b.cache->find_record(sample_key(1024)));
}

TEST_F(RemoteCacheTest, ValuesExpireUnlessTheyAreUsed) {
  TUNESMITH_NEEDS_SERVER();
  start();
  make_key("key");
  Host a = signing_host("a", "&ttl_days=90");
  a.cache->store_record(sample_tuning(1024).record, {});
  a.cache->store_binary(sample_binary("f1", 100), "");
  flush(a);
  const auto client = connect();
  const Deadline deadline = after(Milliseconds(5000));
  const std::string hash = ServerKeys("default").tunings(sample_key(1024)), binary = "ts1:{default}:b:f1";
  for (const std::string& key : {hash, binary}) {
    EXPECT_NEAR(static_cast<double>(client->call({"TTL", key}, deadline).integer), 90 * 86400, 100);
    client->call({"EXPIRE", key, "100"}, deadline);
  }
  Host b = signing_host("b");
  EXPECT_TRUE(b.cache->find_record(sample_key(1024)));
  EXPECT_TRUE(b.cache->find_binary("f1"));
  flush(b);
  for (const std::string& key : {hash, binary})
    EXPECT_NEAR(static_cast<double>(client->call({"TTL", key}, deadline).integer), 90 * 86400, 100);
}

TEST_F(RemoteCacheTest, OneHostHasTheLease) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Host a = host("a"), b = host("b");
  auto first = a.cache->claim_host(sample_key(1024), 30);
  EXPECT_TRUE(first.lease);
  EXPECT_TRUE(b.cache->claim_host(sample_key(1024), 30).is_elsewhere);
  EXPECT_TRUE(b.cache->claim_host(sample_key(2048), 30).lease);
  const std::string name = ServerKeys("default").lease(sample_key(1024));
  EXPECT_NEAR(static_cast<double>(connect()->call({"PTTL", name}, after(Milliseconds(2000))).integer), 30'000, 2000);
  first = {};
  flush(a);
  EXPECT_TRUE(b.cache->claim_host(sample_key(1024), 30).lease);
}

TEST_F(RemoteCacheTest, ALeaseOfAnotherIsNotReleased) {
  TUNESMITH_NEEDS_SERVER();
  start();
  const auto client = connect();
  const Deadline deadline = after(Milliseconds(5000));
  EXPECT_TRUE(take_lease(*client, "lease", "a", deadline));
  EXPECT_FALSE(take_lease(*client, "lease", "b", deadline));
  release_lease(*client, "lease", "b", deadline);
  EXPECT_FALSE(renew_lease(*client, "lease", "b", deadline));
  client->call({"PEXPIRE", "lease", "1000"}, deadline);
  EXPECT_TRUE(renew_lease(*client, "lease", "a", deadline));
  EXPECT_GT(client->call({"PTTL", "lease"}, deadline).integer, 20'000);
  release_lease(*client, "lease", "a", deadline);
  EXPECT_TRUE(take_lease(*client, "lease", "b", deadline));
}

TEST_F(RemoteCacheTest, ReconnectsAfterARestart) {
  TUNESMITH_NEEDS_SERVER();
  start();
  Host a = host("a"), b = host("b");
  EXPECT_FALSE(b.cache->find_record(sample_key(64)));
  stop(SIGKILL);
  start();
  a.cache->store_record(sample_tuning(1024).record, {});
  flush(a);
  EXPECT_TRUE(b.cache->find_record(sample_key(1024)));  // the connection was closed meanwhile: asked again at once
  EXPECT_TRUE(warnings.empty());
}

TEST_F(RemoteCacheTest, AForkedChildHasAConnectionOfItsOwn) {
  TUNESMITH_NEEDS_SERVER();
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer allows no new threads after a fork";
#endif
  start();
  Host a = host("a");
  a.cache->store_record(sample_tuning(1024).record, {});
  flush(a);
  Host b = host("b");
  EXPECT_FALSE(b.cache->find_record(sample_key(2048)));
  const pid_t child = fork();
  if (child == 0) {
    const bool is_found = b.cache->find_record(sample_key(1024)).has_value();
    b.cache->store_record(sample_tuning(4096).record, {});
    const bool is_written = b.remote->flush(std::chrono::seconds(5));
    _exit(is_found && is_written ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(host("c").cache->find_record(sample_key(4096)));
  EXPECT_FALSE(b.cache->find_record(sample_key(512)));  // the parent's connection is as it was
  EXPECT_TRUE(warnings.empty());
}

TEST_F(RemoteCacheTest, CountsWhatItDoes) {
  TUNESMITH_NEEDS_SERVER();
  start();
  make_key("key");
  {
    Host a = signing_host("a");
    a.cache->store_record(sample_tuning(1024).record, {});
    a.cache->store_binary(sample_binary("f1", 1000), "");
    flush(a);
    Host b = signing_host("b");
    b.cache->find_record(sample_key(1024));
    b.cache->find_record(sample_key(70'000));
    b.cache->find_binary("f1");
    b.cache->find_binary("f2");
  }
  const Counts counts = read_counts(counters_file(path("b.db")));
  EXPECT_EQ(counts.at("hits_total{kind=\"record\"}"), 1);
  EXPECT_EQ(counts.at("misses_total{kind=\"record\"}"), 1);
  EXPECT_EQ(counts.at("hits_total{kind=\"binary\"}"), 1);
  EXPECT_EQ(counts.at("misses_total{kind=\"binary\"}"), 1);
  EXPECT_GT(counts.at("received_bytes_total"), 500);
  EXPECT_EQ(read_counts(counters_file(path("a.db"))).at("published_total{kind=\"binary\"}"), 1);
}

TEST_F(RemoteCacheTest, KeysAreRolledOver) {
  TUNESMITH_NEEDS_SERVER();
  start();
  make_key("old");
  make_key("new");
  const auto trust = [&](const std::string& name, std::initializer_list<const char*> keys) {
    std::ofstream file(path(name));
    for (const char* key : keys) file << std::ifstream(path(std::string(key) + ".pub")).rdbuf();
    return "&mode=ro&trust=" + path(name).string();
  };
  Host before = host("a", "&sign=" + path("old").string());
  before.cache->store_binary(sample_binary("f1", 1000), "");
  flush(before);
  // Readers trust both keys, then writers sign with the new one, then readers trust the new one only.
  const std::string both = trust("both", {"old", "new"}), only_new = trust("only-new", {"new"});
  Host after_change = host("b", "&sign=" + path("new").string() + "&trust=" + path("both").string());
  after_change.cache->store_binary(sample_binary("f2", 1000), "");
  flush(after_change);
  Host r1 = host("r1", both), r2 = host("r2", only_new);
  EXPECT_TRUE(r1.cache->find_binary("f1"));
  EXPECT_TRUE(r1.cache->find_binary("f2"));
  EXPECT_FALSE(r2.cache->find_binary("f1"));
  EXPECT_TRUE(r2.cache->find_binary("f2"));
}

TEST_F(RemoteCacheTest, UnreadableKeysDisableItWithAWarning) {
  Host a = host("a", "&trust=" + path("missing").string());
  EXPECT_EQ(a.remote, nullptr);
  ASSERT_EQ(warnings.size(), 1);
  EXPECT_NE(warnings[0].find("missing"), std::string::npos);
  a.cache->store_record(sample_tuning(1024).record, {});
  EXPECT_TRUE(a.cache->find_record(sample_key(1024)));
}

}  // namespace
}  // namespace tunesmith::fleet
