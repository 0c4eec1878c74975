// Stored rows are found again, by the same Cache and by the next one.

#include <cmath>
#include <limits>

#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

using CacheRoundTrip = CacheTest;

TEST_F(CacheRoundTrip, CreatesNothingBeforeTheFirstWrite) {
  const fs::path deep = folder() / "a" / "b" / "cache.db";
  Cache cache(options(deep));
  EXPECT_FALSE(cache.find_record(sample_key(1024)));
  EXPECT_FALSE(cache.find_binary("none"));
  EXPECT_FALSE(cache.find_source("none"));
  EXPECT_TRUE(cache.find_trials(sample_key(1024)).empty());
  EXPECT_TRUE(cache.find_nearest(sample_key(1024), 3).empty());
  EXPECT_TRUE(cache.list_records().empty());
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(cache.clear({}), 0);
  const CacheInfo info = cache.info();
  EXPECT_TRUE(info.writable) << info.why_not_writable;
  EXPECT_EQ(info.file, deep);
  EXPECT_EQ(info.file_bytes, 0);
  EXPECT_TRUE(names().empty());
  cache.store_record(sample_record(1024), {});
  EXPECT_TRUE(fs::exists(deep));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheRoundTrip, ReadsDoNotCreateALockInAnEmptyFolder) {
  Cache cache(options());
  EXPECT_FALSE(cache.find_record(sample_key(1024)));
  EXPECT_TRUE(names().empty());
}

TEST_F(CacheRoundTrip, MigratesAFileOfVersionOne) {
  const TuningRecord record = sample_record(32000);
  { Cache(options()).store_record(record, sample_trials(3)); }
  Connection::open_file(file(), Connection::Access::read_write, 0)
      .execute("ALTER TABLE records RENAME COLUMN problem_class TO semantics; PRAGMA user_version=1");
  Cache cache(options());
  EXPECT_EQ(cache.find_record(record.key).value().config, record.config) << "read before the first write";
  cache.store_record(sample_record(128), {});
  EXPECT_EQ(cache.info().schema, 2);
  EXPECT_EQ(cache.find_record(record.key).value().config, record.config);
  EXPECT_EQ(cache.find_trials(record.key).size(), 3u);
  EXPECT_TRUE(cache.verify().empty());
}

TEST_F(CacheRoundTrip, RecordAndTrialsPersist) {
  const TuningRecord record = sample_record(32000);
  const auto trials = sample_trials(12);
  {
    Cache cache(options());
    cache.store_record(record, trials);
    expect_equal(cache.find_record(record.key).value(), record);
  }
  Cache cache(options());
  const auto found = cache.find_record(record.key);
  ASSERT_TRUE(found);
  expect_equal(*found, record);
  expect_equal(cache.find_trials(record.key), trials);
  ASSERT_EQ(cache.list_records().size(), 1u);
  expect_equal(cache.list_records().front(), record);
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheRoundTrip, EveryMemberOfTheKeyMatters) {
  Cache cache(options());
  const TuningRecord record = sample_record(1024);
  cache.store_record(record, sample_trials(1));
  using Change = void (*)(TuningKey&);
  for (const Change change :
       {Change([](TuningKey& key) { key.op += "x"; }), Change([](TuningKey& key) { key.problem_class = ""; }),
        Change([](TuningKey& key) { key.n_cols++; }), Change([](TuningKey& key) { key.rows_bucket++; }),
        Change([](TuningKey& key) { key.device_class += ' '; }),
        Change([](TuningKey& key) { key.template_digest[0] = 'X'; }), Change([](TuningKey& key) { key.policy[0] = 'E'; })}) {
    TuningKey key = record.key;
    change(key);
    EXPECT_FALSE(cache.find_record(key));
    EXPECT_TRUE(cache.find_trials(key).empty());
  }
}

TEST_F(CacheRoundTrip, EdgeCaseValuesOfARecord) {
  const std::string zero_inside("a\0b", 3);
  TuningRecord record;
  record.key = {"",
                zero_inside,
                std::numeric_limits<std::int64_t>::max(),
                std::numeric_limits<std::int64_t>::min(),
                "sm_90a '\"; DROP TABLE records; --",
                "\xc3\xa9\xff\xfe",
                "%_*?"};
  record.config = zero_inside;
  record.median_us = std::numeric_limits<double>::infinity();
  record.mad_us = std::numeric_limits<double>::denorm_min();
  record.default_median_us = -0.1;
  record.bytes = 1.7976931348623157e308;
  record.provenance = {{"a=b\\c\nd", "x=y\\\nz"}, {"", "empty name"}, {"empty value", ""}, {zero_inside, zero_inside}};
  record.created_unix_s = -1;
  Trial trial;
  trial.config = zero_inside;
  trial.samples = std::numeric_limits<int>::min();
  {
    Cache cache(options());
    cache.store_record(record, {trial});
  }
  Cache cache(options());
  const auto found = cache.find_record(record.key);
  ASSERT_TRUE(found);
  expect_equal(*found, record);
  expect_equal(cache.find_trials(record.key), {trial});
  EXPECT_TRUE(cache.verify().empty());
}

TEST_F(CacheRoundTrip, NanRoundTrips) {
  Cache cache(options());
  TuningRecord record = sample_record(8);
  record.median_us = std::nan("");
  record.mad_us = -0.0;
  cache.store_record(record, {});
  const auto found = cache.find_record(record.key);
  ASSERT_TRUE(found);
  EXPECT_TRUE(std::isnan(found->median_us));
  EXPECT_EQ(found->mad_us, 0);
}

TEST_F(CacheRoundTrip, StoreReplacesTheRecordAndKeepsOtherTrials) {
  Cache cache(options());
  cache.store_record(sample_record(1024, 1), sample_trials(3, 1));
  auto newer = sample_trials(1, 5);
  Trial added = newer[0];
  added.config = "variant=warp";
  newer.push_back(added);
  cache.store_record(sample_record(1024, 2), newer);
  expect_equal(cache.find_record(sample_key(1024)).value(), sample_record(1024, 2));
  auto expected = sample_trials(3, 1);
  expected[0] = newer[0];
  expected.push_back(added);
  expect_equal(cache.find_trials(sample_key(1024)), expected);
  EXPECT_EQ(cache.info().records, 1);
  EXPECT_EQ(cache.info().trials, 4);
}

TEST_F(CacheRoundTrip, BinaryWithZeroBytesAndItsSource) {
  BinaryRecord binary = sample_binary("f1", 4000);
  binary.image[0] = '\0';
  binary.image[1999] = '\0';
  const std::string source = "// provenance\nextern \"C\" __global__ void k() {}\n";
  {
    Cache cache(options());
    cache.store_binary(binary, source);
  }
  Cache cache(options());
  const auto found = cache.find_binary("f1");
  ASSERT_TRUE(found);
  expect_equal(*found, binary);
  EXPECT_EQ(cache.find_source(binary.source_hash), source);
  EXPECT_FALSE(cache.find_binary("f2"));
  EXPECT_FALSE(cache.find_source("f1"));
}

TEST_F(CacheRoundTrip, EmptyBinary) {
  Cache cache(options());
  cache.store_binary(BinaryRecord{}, "");
  const auto found = cache.find_binary("");
  ASSERT_TRUE(found);
  expect_equal(*found, BinaryRecord{});
  EXPECT_EQ(cache.find_source(""), "");
  EXPECT_TRUE(cache.verify().empty());
}

TEST_F(CacheRoundTrip, ImageOfTenMegabytes) {
  const BinaryRecord binary = sample_binary("large", 10'000'000);
  {
    Cache cache(options());
    cache.store_binary(binary, random_bytes(300'000, 3));
  }
  Cache cache(options());
  const auto found = cache.find_binary("large");
  ASSERT_TRUE(found);
  expect_equal(*found, binary);
  EXPECT_EQ(cache.info().binary_bytes, 10'000'000);
  EXPECT_GT(cache.info().file_bytes, 10'000'000);
}

TEST_F(CacheRoundTrip, BinariesShareASource) {
  Cache cache(options());
  BinaryRecord first = sample_binary("a", 10), second = sample_binary("b", 10);
  second.source_hash = first.source_hash;
  cache.store_binary(first, "text");
  cache.store_binary(second, "text");
  EXPECT_EQ(cache.info().binaries, 2);
  EXPECT_EQ(cache.info().sources, 1);
}

TEST_F(CacheRoundTrip, StoreReplacesABinaryWithTheSameFingerprint) {
  Cache cache(options());
  cache.store_binary(sample_binary("a", 10, 1), "text");
  cache.store_binary(sample_binary("a", 20, 2), "text 2");
  expect_equal(cache.find_binary("a").value(), sample_binary("a", 20, 2));
  EXPECT_EQ(cache.find_source("source of a"), "text 2");
  EXPECT_EQ(cache.info().binaries, 1);
}

TEST_F(CacheRoundTrip, PathsWithSpecialCharacters) {
  for (const char* name : {"with space", "per%20cent", "what?mode=memory", "hash#tag", "\xc3\xbc\xe6\xbc\xa2", "file:x",
                           "quote'\"", "new\nline", "amp&vfs=none"}) {
    const fs::path path = folder() / name / (std::string(name) + ".db");
    {
      Cache cache(options(path));
      cache.store_record(sample_record(64), {});
    }
    EXPECT_TRUE(fs::exists(path)) << name;
    Cache again(options(path));
    EXPECT_TRUE(again.find_record(sample_key(64))) << name;
    CacheOptions shipped;
    shipped.system_files = {path};
    Cache reader(shipped);
    EXPECT_TRUE(reader.find_record(sample_key(64))) << name;
  }
  EXPECT_TRUE(warnings.empty()) << warnings.front();
}

TEST_F(CacheRoundTrip, WithoutAFileResultsLastAsLongAsTheCache) {
  Cache cache(options(""));
  cache.store_record(sample_record(64), sample_trials(2));
  cache.store_binary(sample_binary("a", 100), "text");
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_EQ(cache.find_trials(sample_key(64)).size(), 2u);
  EXPECT_TRUE(cache.find_binary("a"));
  const CacheInfo info = cache.info();
  EXPECT_TRUE(info.file.empty());
  EXPECT_FALSE(info.writable);
  EXPECT_EQ(info.records, 1);
  Cache other(options(""));
  EXPECT_FALSE(other.find_record(sample_key(64)));
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(names().empty());
}

TEST_F(CacheRoundTrip, InfoCountsRows) {
  Cache cache(options());
  cache.store_record(sample_record(64), sample_trials(3));
  cache.store_binary(sample_binary("a", 1234), "text");
  const CacheInfo info = cache.info();
  EXPECT_TRUE(info.writable) << info.why_not_writable;
  EXPECT_EQ(info.why_not_writable, "");
  EXPECT_EQ(info.records, 1);
  EXPECT_EQ(info.trials, 3);
  EXPECT_EQ(info.binaries, 1);
  EXPECT_EQ(info.sources, 1);
  EXPECT_EQ(info.binary_bytes, 1234);
  EXPECT_EQ(info.schema, 2);
  EXPECT_EQ(info.journal_mode, "delete");
  EXPECT_EQ(info.sqlite_version, sqlite3_libversion());
  EXPECT_EQ(info.file_bytes, static_cast<std::int64_t>(fs::file_size(file())));
}

TEST_F(CacheRoundTrip, FollowsASymbolicLink) {
  fs::create_directory(folder() / "real");
  fs::create_symlink(folder() / "real" / "store.db", folder() / "cache.db");
  { Cache(options()).store_record(sample_record(64), {}); }
  EXPECT_TRUE(fs::is_symlink(folder() / "cache.db"));
  EXPECT_TRUE(fs::exists(folder() / "real" / "store.db"));
  EXPECT_TRUE(Cache(options()).find_record(sample_key(64)));
}

TEST_F(CacheRoundTrip, UsesTheNewFileAfterAReplacement) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  { Cache(options(folder() / "other.db")).store_record(sample_record(128), {}); }
  fs::rename(folder() / "other.db", file());
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  EXPECT_TRUE(cache.find_record(sample_key(128)));
  cache.store_record(sample_record(256), {});
  EXPECT_EQ(Cache(options()).list_records().size(), 2u);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheRoundTrip, CreatesADeletedFileAgain) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  fs::remove(file());
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  cache.store_record(sample_record(128), {});
  EXPECT_TRUE(Cache(options()).find_record(sample_key(128)));
  EXPECT_FALSE(Cache(options()).find_record(sample_key(64)));
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace tunesmith
