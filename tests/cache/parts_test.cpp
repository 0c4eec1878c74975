// Parts of the cache: migrations, checksums, encoding of maps, locks, file names.

#include <sys/file.h>

#include "cache/file_lock.h"
#include "cache/file_system.h"
#include "cache/recovery.h"
#include "cache/row.h"
#include "cache/schema.h"
#include "cache/user_file.h"
#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;
using State = SchemaCheck::State;
using CacheParts = CacheTest;

constexpr const char* create_a = "CREATE TABLE a (x INTEGER) STRICT;";
constexpr const char* add_column = "ALTER TABLE a ADD COLUMN y TEXT; UPDATE a SET y = 'from ' || x;";
constexpr const char* create_b = "CREATE TABLE b (z INTEGER);";
constexpr const char* up_to_1[] = {create_a};
constexpr const char* up_to_3[] = {create_a, add_column, create_b};
constexpr const char* broken_3[] = {create_a, add_column, "CREATE TABLE a (again INTEGER);"};

TEST_F(CacheParts, MigrationsRunInOrderAndOnce) {
  Connection connection = Connection::open_file(file(), Connection::Access::create, 0);
  EXPECT_EQ(check_schema(connection, up_to_1).state, State::empty);
  migrate(connection, up_to_1);
  connection.execute("INSERT INTO a VALUES (7)");
  EXPECT_EQ(check_schema(connection, up_to_1).state, State::current);
  EXPECT_EQ(check_schema(connection, up_to_3).state, State::older);
  migrate(connection, up_to_3);
  EXPECT_EQ(check_schema(connection, up_to_3).state, State::current);
  EXPECT_EQ(check_schema(connection, up_to_3).version, 3);
  EXPECT_EQ(check_schema(connection, up_to_1).state, State::newer);
  EXPECT_EQ(connection.value("SELECT y FROM a"), "from 7");
  migrate(connection, up_to_3);  // a repeated step would fail
  EXPECT_EQ(connection.value("PRAGMA application_id"), std::to_string(cache_application_id));
}

TEST_F(CacheParts, FailedMigrationChangesNothing) {
  Connection connection = Connection::open_file(file(), Connection::Access::create, 0);
  migrate(connection, up_to_1);
  EXPECT_THROW(migrate(connection, broken_3), SqliteError);
  EXPECT_FALSE(connection.in_transaction());
  EXPECT_EQ(check_schema(connection, up_to_1).state, State::current);
  EXPECT_EQ(connection.value("SELECT count(*) FROM pragma_table_info('a')"), "1");
}

TEST_F(CacheParts, MigratesTheUserFileOnTheFirstRead) {
  {
    Connection connection = Connection::open_file(file(), Connection::Access::create, 0);
    migrate(connection, up_to_1);
    connection.execute("INSERT INTO a VALUES (7)");
  }
  Warnings given;
  UserFile migrated(file(), 1000, given, up_to_3);
  std::string y;
  EXPECT_EQ(migrated.read([&](Connection& connection) { y = connection.value("SELECT y FROM a"); }),
            UserFile::Outcome::done);
  EXPECT_EQ(y, "from 7");
  EXPECT_TRUE(given.take().empty());
}

TEST_F(CacheParts, DoesNotChangeAFileThatALaterVersionMigrated) {
  Warnings given;
  UserFile old_code(file(), 1000, given, up_to_1);
  const auto insert = [](Connection& connection) { connection.execute("INSERT INTO a (x) VALUES (1)"); };
  ASSERT_EQ(old_code.write(insert), UserFile::Outcome::done);
  {
    Warnings ignored;
    UserFile new_code(file(), 1000, ignored, up_to_3);
    ASSERT_EQ(new_code.read([](Connection&) {}), UserFile::Outcome::done);
  }
  EXPECT_EQ(old_code.write(insert), UserFile::Outcome::failed);
  EXPECT_EQ(old_code.read([](Connection&) {}), UserFile::Outcome::failed);
  EXPECT_EQ(given.take().size(), 1u);
  EXPECT_NE(old_code.why_not_writable().find("later version"), std::string::npos) << old_code.why_not_writable();
  EXPECT_EQ(count_aside(), 0);
  Connection connection = Connection::open_file(file(), Connection::Access::read_only, 0);
  EXPECT_EQ(connection.value("SELECT count(*) FROM a"), "1");
}

TEST_F(CacheParts, DoesNotMoveTheNewFileBecauseTheOldOneWasDamaged) {
  const auto make = [](const fs::path& path) {
    Connection connection = Connection::open_file(path, Connection::Access::create, 0);
    migrate(connection, up_to_1);
  };
  make(file());
  Warnings given;
  UserFile user(file(), 1000, given, up_to_1);
  int runs = 0;
  const auto work = [&](Connection&) {
    if (++runs > 1) return;
    // Another process noticed first, moved the file and made a new one.
    fs::rename(file(), folder() / "moved by the other");
    make(file());
    throw SqliteError(SQLITE_CORRUPT, "malformed");
  };
  EXPECT_EQ(user.read(work), UserFile::Outcome::done);
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(count_aside(), 0);
  EXPECT_TRUE(given.take().empty());
}

TEST_F(CacheParts, ACacheWithoutTablesIsDamaged) {
  {
    Connection connection = Connection::open_file(file(), Connection::Access::create, 0);
    migrate(connection);
    connection.execute("DROP TABLE trials; DROP TABLE records");
  }
  Cache cache(options());
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  EXPECT_EQ(count_aside(), 1);
  cache.store_record(sample_record(64), {});
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_EQ(warnings.size(), 1u);
}

TEST(CacheRow, DigestDistinguishesSimilarRows) {
  const auto two = [](std::string_view a, std::string_view b) { return RowDigest("t").add(a).add(b).hex(); };
  EXPECT_NE(two("ab", "c"), two("a", "bc"));
  EXPECT_NE(two("", "x"), two("x", ""));
  EXPECT_NE(two("1:a", ""), two("", "1:a"));
  EXPECT_NE(RowDigest("t").add("x").hex(), RowDigest("u").add("x").hex());
  EXPECT_NE(RowDigest("t").add(1.0).hex(), RowDigest("t").add(1.0000000000000002).hex());
  std::string large(10'000, 'a');
  const std::string before = RowDigest("t").add(large).hex();
  large[9'999] = 'b';
  EXPECT_NE(before, RowDigest("t").add(large).hex());
  EXPECT_EQ(RowDigest("t").add(0.0).hex(), RowDigest("t").add(-0.0).hex());
}

TEST(CacheRow, LinesRoundTrip) {
  const std::map<std::string, std::string> items = {
      {"a", "b"},     {"", ""},     {"=", "="},        {"\\", "\\\\"},
      {"\n", "\n\n"}, {"n", "\\n"}, {"a=b\\=c", "\\"}, {std::string(1, '\0'), "x"}};
  EXPECT_EQ(from_lines(to_lines(items)), items);
  EXPECT_TRUE(from_lines("").empty());
  EXPECT_TRUE(from_lines("no end").empty());
  EXPECT_TRUE(from_lines("\\").empty());
}

TEST_F(CacheParts, ExclusiveLockWaitsForSharedOnes) {
  const fs::path name = folder() / "x.lock";
  FileLock first(name), second(name), third(name);
  first.lock(FileLock::Kind::shared, 0);
  second.lock(FileLock::Kind::shared, 0);
  EXPECT_THROW(third.lock(FileLock::Kind::exclusive, 5), SqliteError);
  first.unlock();
  EXPECT_THROW(third.lock(FileLock::Kind::exclusive, 5), SqliteError);
  second.unlock();
  third.lock(FileLock::Kind::exclusive, 0);
  EXPECT_THROW(first.lock(FileLock::Kind::shared, 5), SqliteError);
  third.unlock();
}

TEST_F(CacheParts, LockWhoseFileCannotBeCreated) {
  FileLock lock(folder() / "none" / "x.lock");
  EXPECT_NO_THROW(lock.lock(FileLock::Kind::shared, 0));
  EXPECT_THROW(lock.lock(FileLock::Kind::exclusive, 0), SqliteError);
}

TEST_F(CacheParts, MovesJournalsAsideWithTheirFile) {
  for (const char* name : {"cache.db", "cache.db-journal", "cache.db-wal", "cache.db-shm"})
    write_file(folder() / name, name);
  const fs::path first = move_aside(file());
  EXPECT_EQ(read_file(first), "cache.db");
  EXPECT_EQ(read_file(fs::path(first) += "-journal"), "cache.db-journal");
  EXPECT_EQ(read_file(fs::path(first) += "-wal"), "cache.db-wal");
  EXPECT_EQ(read_file(fs::path(first) += "-shm"), "cache.db-shm");
  EXPECT_EQ(names().size(), 4u);
  write_file(file(), "second");
  const fs::path second = move_aside(file());
  EXPECT_NE(first, second) << "the first one is not overwritten";
  EXPECT_EQ(read_file(first), "cache.db");
}

TEST_F(CacheParts, RecognizesNetworkFileSystems) {
  for (const std::int64_t type : {0x6969LL, 0xff534d42LL, 0xfe534d42LL, 0x517bLL, 0x0bd00bd0LL, 0x47504653LL, 0x65735546LL,
                                  static_cast<long long>(static_cast<std::int32_t>(0xff534d42u))}) {
    EXPECT_TRUE(is_network_file_system(type)) << std::hex << type;
  }
  for (const std::int64_t type : {0xef53LL, 0x01021994LL, 0x9123683eLL, 0x58465342LL, 0x794c7630LL}) {
    EXPECT_FALSE(is_network_file_system(type)) << std::hex << type << ": ext4, tmpfs, btrfs, xfs, overlay";
  }
  EXPECT_FALSE(on_network_file_system("/proc/self"));
}

TEST(CacheUri, PathsArePercentEncoded) {
  EXPECT_EQ(file_uri("/a b/c%d?e#f&g=h"), "file:/a%20b/c%25d%3Fe%23f%26g%3Dh");
  EXPECT_EQ(file_uri("/\xc3\xbc"), "file:/%C3%BC");
}

TEST_F(CacheParts, ConnectionSettings) {
  Connection connection = Connection::open_file(file(), Connection::Access::create, 0);
  connection.configure();
  EXPECT_EQ(connection.value("PRAGMA journal_mode"), "delete");
  EXPECT_EQ(connection.value("PRAGMA synchronous"), "2") << "FULL";
  EXPECT_EQ(connection.value("PRAGMA foreign_keys"), "1");
  EXPECT_NE(connection.value("PRAGMA trusted_schema"), "1");
}

TEST_F(CacheParts, SwitchesAFileBackFromWalMode) {
  { Cache(options()).store_record(sample_record(64), {}); }
  Connection::open_file(file(), Connection::Access::read_write, 0).execute("PRAGMA journal_mode=WAL");
  Cache cache(options());
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_EQ(cache.info().journal_mode, "delete");
  EXPECT_EQ(names(), (std::vector<std::string>{"cache.db", "cache.db.lock"}));
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace tunesmith
