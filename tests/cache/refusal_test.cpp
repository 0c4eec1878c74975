// Healthy files that the cache must not use: they remain unchanged.

#include <sys/stat.h>

#include <csignal>

#include "cache/schema.h"
#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

class CacheRefusal : public CacheTest {
 protected:
  // Checks that the cache works in memory, warns once, and does not change the file.
  void expect_unchanged(const std::string& reason) {
    const std::string before = read_file(file());
    const auto names_before = names();
    {
      Cache cache(options());
      EXPECT_FALSE(cache.find_record(sample_key(64)));
      cache.store_record(sample_record(64), sample_trials(2));
      cache.store_binary(sample_binary("a", 100), "text");
      ASSERT_TRUE(cache.find_record(sample_key(64)));
      expect_equal(*cache.find_record(sample_key(64)), sample_record(64));
      EXPECT_EQ(cache.find_trials(sample_key(64)).size(), 2u);
      EXPECT_EQ(cache.find_nearest(sample_key(128), 3).size(), 1u);
      EXPECT_TRUE(cache.find_binary("a"));
      EXPECT_EQ(cache.list_records().size(), 1u);
      const CacheInfo info = cache.info();
      EXPECT_FALSE(info.writable);
      EXPECT_NE(info.why_not_writable.find(reason), std::string::npos) << info.why_not_writable;
      EXPECT_EQ(info.records, 1);
      EXPECT_EQ(cache.verify().size(), 1u);
      EXPECT_THROW(cache.clear({}), Error);
      EXPECT_THROW(cache.export_to(folder() / "out.db", true), Error);
    }
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find(reason), std::string::npos) << warnings[0];
    EXPECT_TRUE(read_file(file()) == before);
    EXPECT_EQ(count_aside(), 0);
    auto names_after = names();
    std::erase(names_after, "cache.db.lock");
    EXPECT_EQ(names_after, names_before);
  }
};

TEST_F(CacheRefusal, SchemaOfALaterVersion) {
  {
    Connection connection = Connection::open_file(file(), Connection::Access::create, 0);
    migrate(connection);
    connection.execute("PRAGMA user_version=3; ALTER TABLE records ADD COLUMN future TEXT");
  }
  expect_unchanged("later version");
}

TEST_F(CacheRefusal, DatabaseOfAnotherProgram) {
  Connection::open_file(file(), Connection::Access::create, 0)
      .execute(
          "PRAGMA application_id=252006674; PRAGMA user_version=1; CREATE TABLE records (x); INSERT INTO records VALUES "
          "(1)");
  expect_unchanged("another program");
}

TEST_F(CacheRefusal, DatabaseOfAnotherProgramWithoutMarks) {
  Connection::open_file(file(), Connection::Access::create, 0)
      .execute("CREATE TABLE records (x); INSERT INTO records VALUES (1)");
  expect_unchanged("another program");
}

TEST_F(CacheRefusal, WalDatabaseOfAnotherRunningProgram) {
  Connection other = Connection::open_file(file(), Connection::Access::create, 0);
  other.execute("PRAGMA journal_mode=WAL; CREATE TABLE t (x); INSERT INTO t VALUES (1)");
  expect_unchanged("another program");
  EXPECT_EQ(other.value("PRAGMA journal_mode"), "wal");
  EXPECT_EQ(other.value("SELECT count(*) FROM t"), "1");
}

TEST_F(CacheRefusal, WalDatabaseOfAnotherProgramThatCrashed) {
  ASSERT_FALSE(finished_well(start_process([&] {
    Connection other = Connection::open_file(file(), Connection::Access::create, 0);
    other.execute("CREATE TABLE t (x); PRAGMA journal_mode=WAL; INSERT INTO t VALUES (1)");
    raise(SIGKILL);
  })));
  ASSERT_TRUE(fs::exists(folder() / "cache.db-wal"));
  expect_unchanged("another program");  // the WAL is not written back either
}

TEST_F(CacheRefusal, FolderInsteadOfAFile) {
  fs::create_directories(file() / "precious");
  Cache cache(options());
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  cache.store_record(sample_record(64), {});
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_FALSE(cache.info().writable);
  EXPECT_TRUE(fs::exists(file() / "precious"));
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(CacheRefusal, PipeInsteadOfAFileDoesNotBlock) {
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  Cache cache(options());
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  cache.store_record(sample_record(64), {});
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_EQ(warnings.size(), 1u);
}

// Whatever a TUNESMITH_CACHE=/dev/null makes of a cache, it leaves nothing next to it.
TEST_F(CacheRefusal, OtherThanRegularFilesGetNoLockFile) {
  ASSERT_EQ(mkfifo(file().c_str(), 0600), 0);
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_TRUE(cache.claim("key", std::chrono::milliseconds(0)));
  EXPECT_EQ(names(), std::vector<std::string>{file().filename().string()});
}

TEST_F(CacheRefusal, WorksAgainAfterTheFileIsReplaced) {
  Connection::open_file(file(), Connection::Access::create, 0).execute("CREATE TABLE t (x)");
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  fs::rename(file(), folder() / "theirs.db");
  cache.store_record(sample_record(64, 2), {});
  EXPECT_TRUE(cache.info().writable);
  expect_equal(cache.find_record(sample_key(64)).value(), sample_record(64, 2));
  expect_equal(Cache(options()).find_record(sample_key(64)).value(), sample_record(64, 2));
}

}  // namespace
}  // namespace tunesmith
