// Export, import, clear and verify, which throw errors.

#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

class CacheMaintenance : public CacheTest {
 protected:
  // Returns the message of the Error(cache_failed) that `call` must throw.
  template <typename Call>
  std::string failure_of(const Call& call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cache_failed);
      return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
  }
};

#define EXPECT_MENTIONS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(CacheMaintenance, ExportWritesASystemCache) {
  Cache cache(options());
  cache.store_record(sample_record(64), sample_trials(3));
  cache.store_binary(sample_binary("a", 5000), "text");
  const fs::path all = folder() / "out %?.db", lean = folder() / "lean.db";
  cache.export_to(all, true);
  cache.export_to(lean, false);
  EXPECT_LT(fs::file_size(lean), fs::file_size(all));

  CacheOptions shipped;
  shipped.system_files = {all};
  Cache with(shipped);
  EXPECT_TRUE(with.find_record(sample_key(64)).value().shipped);
  EXPECT_EQ(with.find_trials(sample_key(64)).size(), 3u);
  expect_equal(with.find_binary("a").value(), sample_binary("a", 5000));
  EXPECT_EQ(with.find_source("source of a"), "text");
  shipped.system_files = {lean};
  Cache without(shipped);
  EXPECT_TRUE(without.find_record(sample_key(64)));
  EXPECT_FALSE(without.find_binary("a"));
  EXPECT_FALSE(without.find_source("source of a"));
  EXPECT_EQ(names(), (std::vector<std::string>{"cache.db", "cache.db.lock", "lean.db", "out %?.db"}))
      << "nothing is left over";
}

TEST_F(CacheMaintenance, ExportRejectsAnExistingTarget) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  write_file(folder() / "taken", "precious");
  EXPECT_MENTIONS(failure_of([&] { cache.export_to(folder() / "taken", true); }), "it exists");
  EXPECT_EQ(read_file(folder() / "taken"), "precious");
  fs::create_symlink(folder() / "nowhere", folder() / "dangling");
  failure_of([&] { cache.export_to(folder() / "dangling", true); });
  EXPECT_FALSE(fs::exists(folder() / "nowhere"));
}

TEST_F(CacheMaintenance, ExportToAMissingFolderLeavesTheCacheIntact) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  EXPECT_MENTIONS(failure_of([&] { cache.export_to(folder() / "none" / "x.db", true); }), "x.db");
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_EQ(count_aside(), 0);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheMaintenance, ExportsAnEmptyCacheAndAnInMemoryCache) {
  Cache(options()).export_to(folder() / "empty.db", true);
  Cache memory(options(""));
  memory.store_record(sample_record(64), sample_trials(2));
  memory.store_binary(sample_binary("a", 10), "text");
  memory.export_to(folder() / "memory.db", true);
  CacheOptions shipped = options("");
  shipped.system_files = {folder() / "empty.db", folder() / "memory.db"};
  Cache reader(shipped);
  EXPECT_TRUE(reader.find_record(sample_key(64)));
  EXPECT_TRUE(reader.find_binary("a"));
  EXPECT_TRUE(warnings.empty()) << warnings.front();
}

TEST_F(CacheMaintenance, ImportCopiesMissingAndNewerRows) {
  const fs::path from = folder() / "from.db";
  {
    Cache other(options(from));
    other.store_record(sample_record(64, 5), sample_trials(2));   // newer here
    other.store_record(sample_record(128, 1), sample_trials(1));  // older here, with a trial that is missing
    other.store_record(sample_record(256, 1), {});                // missing
    other.store_binary(sample_binary("a", 100), "text");
  }
  Cache cache(options());
  cache.store_record(sample_record(64, 1), {});
  cache.store_record(sample_record(128, 5), {});
  EXPECT_EQ(cache.import_from(from), 3 + 1 + 1 + 2);
  expect_equal(cache.find_record(sample_key(64)).value(), sample_record(64, 5));
  expect_equal(cache.find_record(sample_key(128)).value(), sample_record(128, 5));
  expect_equal(cache.find_record(sample_key(256)).value(), sample_record(256, 1));
  EXPECT_EQ(cache.find_trials(sample_key(64)).size(), 2u);
  EXPECT_EQ(cache.find_trials(sample_key(128)).size(), 1u);
  expect_equal(cache.find_binary("a").value(), sample_binary("a", 100));
  EXPECT_EQ(cache.find_source("source of a"), "text");
  EXPECT_EQ(cache.import_from(from), 0) << "a second import copies nothing";
}

TEST_F(CacheMaintenance, ImportsIntoAnInMemoryCache) {
  { Cache(options()).store_record(sample_record(64), {}); }
  Cache memory(options(""));
  EXPECT_EQ(memory.import_from(file()), 1);
  EXPECT_TRUE(memory.find_record(sample_key(64)));
}

TEST_F(CacheMaintenance, InvalidImportsFailAndLeaveTheCacheIntact) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  const fs::path from = folder() / "from.db";
  EXPECT_MENTIONS(failure_of([&] { cache.import_from(from); }), "no such file");
  EXPECT_MENTIONS(failure_of([&] { cache.import_from(file()); }), "the cache itself");
  EXPECT_MENTIONS(failure_of([&] { cache.import_from(folder()); }), "not a regular file");
  const std::string garbage = random_bytes(9000, 2);
  write_file(from, garbage);
  EXPECT_MENTIONS(failure_of([&] { cache.import_from(from); }), "not a database");
  EXPECT_TRUE(read_file(from) == garbage);
  fs::remove(from);
  { Cache(options(from)).store_record(sample_record(128), {}); }
  Connection::open_file(from, Connection::Access::read_write, 0).execute("PRAGMA user_version=3");
  EXPECT_MENTIONS(failure_of([&] { cache.import_from(from); }), "(schema 3, this one knows 2)");
  fs::remove(from);
  Connection::open_file(from, Connection::Access::create, 0).execute("CREATE TABLE t (x)");
  EXPECT_MENTIONS(failure_of([&] { cache.import_from(from); }), "is a database of another program");

  EXPECT_EQ(cache.list_records().size(), 1u);
  EXPECT_EQ(count_aside(), 0);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheMaintenance, ImportOfADamagedFileLeavesTheCacheIntact) {
  const fs::path from = folder() / "from.db";
  {
    Cache other(options(from));
    for (int i = 0; i < 50; ++i) other.store_binary(sample_binary("f" + std::to_string(i), 3000, i), "text");
  }
  std::string bytes = read_file(from);
  for (std::size_t i = 3 * 4096; i < bytes.size(); i += 4096) bytes[i] = '\x7f';  // every page's type
  write_file(from, bytes);
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  EXPECT_MENTIONS(failure_of([&] { cache.import_from(from); }), "from.db");
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_EQ(cache.info().binaries, 0) << "all or nothing";
  EXPECT_EQ(count_aside(), 0);
}

TEST_F(CacheMaintenance, ClearsByOperationAndKind) {
  Cache cache(options());
  const auto fill = [&] {
    TuningRecord attention = sample_record(64);
    attention.key.op = "attention";
    cache.store_record(sample_record(64), sample_trials(2));
    cache.store_record(attention, sample_trials(3));
    cache.store_binary(sample_binary("a", 10), "text");
    BinaryRecord binary = sample_binary("b", 10);
    binary.op = "attention";
    cache.store_binary(binary, "text");
  };
  fill();
  EXPECT_EQ(cache.clear({"attention", false}), 1 + 3 + 1 + 1);
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_TRUE(cache.find_binary("a"));
  EXPECT_FALSE(cache.find_binary("b"));
  EXPECT_FALSE(cache.find_source("source of b"));
  fill();
  EXPECT_EQ(cache.clear({"softmax", true}), 2);
  EXPECT_EQ(cache.info().records, 2);
  EXPECT_EQ(cache.info().binaries, 1);
  EXPECT_EQ(cache.clear({"", true}), 2);
  EXPECT_EQ(cache.info().trials, 5);
  EXPECT_EQ(cache.clear({}), 7);
  const CacheInfo info = cache.info();
  EXPECT_EQ(info.records + info.trials + info.binaries + info.sources, 0);
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CacheMaintenance, ClearShrinksTheFile) {
  Cache cache(options());
  cache.store_binary(sample_binary("a", 2'000'000), "text");
  const auto before = cache.info().file_bytes;
  cache.clear({});
  EXPECT_LT(cache.info().file_bytes, before / 10);
}

TEST_F(CacheMaintenance, RemovesDamagedRows) {
  struct Case {
    const char* damage;
    std::function<bool(Cache&)> found;
  };
  const std::vector<Case> cases = {
      {"UPDATE records SET config='variant=warp'", [](Cache& c) { return c.find_record(sample_key(64)).has_value(); }},
      {"UPDATE records SET median_us=1", [](Cache& c) { return !c.find_nearest(sample_key(64), 3).empty(); }},
      {"UPDATE records SET n_cols=65", [](Cache& c) { return c.find_record(sample_key(65)).has_value(); }},
      {"UPDATE trials SET median_us=0.001", [](Cache& c) { return !c.find_trials(sample_key(64)).empty(); }},
      {"UPDATE binaries SET image=x'00'", [](Cache& c) { return c.find_binary("a-b").has_value(); }},
      {"UPDATE binaries SET arch='sm_80'", [](Cache& c) { return c.find_binary_of_source("a", "sm_80").has_value(); }},
      {"UPDATE sources SET source='x'", [](Cache& c) { return c.find_source("source of a-b").has_value(); }},
  };
  for (const Case& damaged : cases) {
    for (const bool verify_first : {false, true}) {
      SCOPED_TRACE(damaged.damage);
      warnings.clear();
      fs::remove(file());
      {
        Cache cache(options());
        cache.store_record(sample_record(64), sample_trials(1));
        cache.store_binary(sample_binary("a-b", 10), "text");
      }
      Connection::open_file(file(), Connection::Access::read_write, 0).execute(damaged.damage);
      Cache cache(options());
      if (verify_first) {
        const auto problems = cache.verify();
        ASSERT_GE(problems.size(), 1u);
        EXPECT_MENTIONS(problems.front(), "checksum");
      } else {
        EXPECT_FALSE(damaged.found(cache));
        EXPECT_EQ(warnings.size(), 1u);
      }
      EXPECT_FALSE(damaged.found(cache));
      EXPECT_TRUE(cache.verify().empty()) << "the damaged row was removed";
      const CacheInfo info = cache.info();
      EXPECT_LT(info.records + info.trials + info.binaries + info.sources, 4);
      EXPECT_EQ(count_aside(), 0);
    }
  }
}

TEST_F(CacheMaintenance, ExportSkipsDamagedRows) {
  Cache cache(options());
  cache.store_record(sample_record(64), {});
  cache.store_record(sample_record(128), {});
  Connection::open_file(file(), Connection::Access::read_write, 0).execute("UPDATE records SET config='' WHERE n_cols=64");
  cache.export_to(folder() / "out.db", true);
  Cache out(options(folder() / "out.db"));
  EXPECT_EQ(out.info().records, 1);
  EXPECT_TRUE(out.verify().empty());
}

TEST_F(CacheMaintenance, VerifyReportsADamagedFile) {
  {
    Cache cache(options());
    for (int i = 0; i < 50; ++i) cache.store_binary(sample_binary("f" + std::to_string(i), 3000, i), "text");
  }
  std::string bytes = read_file(file());
  for (std::size_t i = 20 * 4096; i < bytes.size(); i += 4096) bytes[i] = '\x7f';
  write_file(file(), bytes);
  Cache cache(options());
  const auto problems = cache.verify();
  ASSERT_GE(problems.size(), 2u);
  EXPECT_MENTIONS(problems.back(), ".corrupt-");
  EXPECT_EQ(count_aside(), 1);
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(cache.verify().empty());
}

}  // namespace
}  // namespace tunesmith
