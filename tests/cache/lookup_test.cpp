// Lookup of the nearest n_cols, and the order of the layers: the user's file, then system files.

#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

class CacheLookup : public CacheTest {
 protected:
  void ship(const fs::path& file, const std::vector<TuningRecord>& records) {
    Cache cache(options(file));
    for (const TuningRecord& record : records) cache.store_record(record, sample_trials(1));
  }
  static std::vector<std::int64_t> n_cols_of(const std::vector<TuningRecord>& records) {
    std::vector<std::int64_t> n_cols;
    for (const TuningRecord& record : records) n_cols.push_back(record.key.n_cols);
    return n_cols;
  }
};

TEST_F(CacheLookup, FindsTheNearestRatioOfNCols) {
  Cache cache(options());
  for (const std::int64_t n_cols : {64, 900, 1024, 1500, 3000, 32768}) cache.store_record(sample_record(n_cols), {});
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(n_cols_of(cache.find_nearest(sample_key(1024), 10)), (List{1024, 900, 1500, 3000, 64, 32768}));
  EXPECT_EQ(n_cols_of(cache.find_nearest(sample_key(2000), 3)), (List{1500, 3000, 1024}));
  EXPECT_EQ(n_cols_of(cache.find_nearest(sample_key(5000), 2)), (List{3000, 1500}));
  EXPECT_EQ(n_cols_of(cache.find_nearest(sample_key(10000), 1)), (List{32768})) << "3.28 times, against 3.33";
  EXPECT_TRUE(cache.find_nearest(sample_key(1024), 0).empty());
  EXPECT_TRUE(cache.find_nearest(sample_key(1024), -1).empty());
}

TEST_F(CacheLookup, ComparesRatiosNotDifferences) {
  Cache cache(options());
  cache.store_record(sample_record(100), {});
  cache.store_record(sample_record(1000), {});
  // The differences are 250 and 650, the ratios 3.5 and 2.9.
  EXPECT_EQ(n_cols_of(cache.find_nearest(sample_key(350), 1)), (std::vector<std::int64_t>{1000}));
}

TEST_F(CacheLookup, RowsBucketBreaksTiesOfNCols) {
  Cache cache(options());
  for (const std::int64_t rows : {1, 256, 8192, 65536}) {
    TuningRecord record = sample_record(1024);
    record.key.rows_bucket = rows;
    cache.store_record(record, {});
  }
  TuningRecord other = sample_record(2048);
  other.key.rows_bucket = 4096;
  cache.store_record(other, {});
  std::vector<std::int64_t> rows;
  for (const auto& record : cache.find_nearest(sample_key(1024, 4096), 5)) rows.push_back(record.key.rows_bucket);
  EXPECT_EQ(rows, (std::vector<std::int64_t>{8192, 256, 65536, 1, 4096}));
}

TEST_F(CacheLookup, NearestAgreesInTheRestOfTheKey) {
  Cache cache(options());
  cache.store_record(sample_record(1024), {});
  for (std::string TuningKey::*part : {&TuningKey::op, &TuningKey::problem_class, &TuningKey::device_class,
                                       &TuningKey::template_digest, &TuningKey::policy}) {
    TuningKey key = sample_key(1024);
    key.*part += "'";
    EXPECT_TRUE(cache.find_nearest(key, 5).empty());
  }
}

TEST_F(CacheLookup, InvalidNColsAreHarmless) {
  Cache cache(options());
  for (const std::int64_t n_cols : {-5, 0, 1}) cache.store_record(sample_record(n_cols), {});
  EXPECT_EQ(cache.find_nearest(sample_key(0), 5).size(), 3u);
}

TEST_F(CacheLookup, SearchesTheUserFileThenSystemFilesInOrder) {
  const fs::path first = folder() / "first.db", second = folder() / "second.db";
  ship(first, {sample_record(1024, 1), sample_record(2048, 1)});
  ship(second, {sample_record(1024, 2), sample_record(2048, 2), sample_record(4096, 2)});
  CacheOptions layered = options();
  layered.system_files = {first, second};
  Cache cache(layered);
  cache.store_record(sample_record(1024, 9), {});

  const auto user = cache.find_record(sample_key(1024));
  ASSERT_TRUE(user);
  expect_equal(*user, sample_record(1024, 9));
  TuningRecord expected = sample_record(2048, 1);
  expected.shipped = true;
  expect_equal(cache.find_record(sample_key(2048)).value(), expected);
  EXPECT_EQ(cache.find_record(sample_key(4096)).value().config, sample_record(4096, 2).config);
  EXPECT_EQ(cache.find_trials(sample_key(4096)).size(), 1u);

  const auto nearest = cache.find_nearest(sample_key(1024), 10);
  EXPECT_EQ(n_cols_of(nearest), (std::vector<std::int64_t>{1024, 2048, 4096})) << "one record per key";
  EXPECT_FALSE(nearest[0].shipped);
  EXPECT_EQ(nearest[1].config, sample_record(2048, 1).config);
  EXPECT_EQ(cache.list_records().size(), 3u);
  EXPECT_EQ(cache.info().records, 1) << "system files are not counted as the user's";
  EXPECT_EQ(cache.info().system_files.size(), 2u);
}

TEST_F(CacheLookup, UserFileWinsAmongEquallyNearRecords) {
  const fs::path shipped = folder() / "shipped.db";
  ship(shipped, {sample_record(512)});
  CacheOptions layered = options();
  layered.system_files = {shipped};
  Cache cache(layered);
  cache.store_record(sample_record(2048), {});
  EXPECT_EQ(n_cols_of(cache.find_nearest(sample_key(1024), 2)), (std::vector<std::int64_t>{2048, 512}));
}

TEST_F(CacheLookup, NeverChangesSystemFiles) {
  const fs::path shipped = folder() / "ro" / "shipped.db";
  ship(shipped, {sample_record(512)});
  fs::remove(fs::path(shipped) += ".lock");
  const std::string before = read_file(shipped);
  CacheOptions layered = options();
  layered.system_files = {shipped};
  Cache cache(layered);
  EXPECT_TRUE(cache.find_record(sample_key(512)));
  cache.store_record(sample_record(512, 2), {});
  cache.clear({});
  EXPECT_EQ(cache.find_record(sample_key(512)).value().config, sample_record(512, 1).config);
  EXPECT_TRUE(read_file(shipped) == before);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(shipped.parent_path())) ++files;
  EXPECT_EQ(files, 1);
}

TEST_F(CacheLookup, FindsABinaryInASystemFile) {
  const fs::path shipped = folder() / "shipped.db";
  { Cache(options(shipped)).store_binary(sample_binary("a", 500), "text"); }
  CacheOptions layered = options();
  layered.system_files = {shipped};
  Cache cache(layered);
  expect_equal(cache.find_binary("a").value(), sample_binary("a", 500));
  EXPECT_EQ(cache.find_source("source of a"), "text");
}

TEST_F(CacheLookup, FindsTheNewestBinaryOfASourceForTheArchitecture) {
  Cache cache(options());
  const auto add = [&](const std::string& fingerprint, const std::string& arch) {
    BinaryRecord binary = sample_binary(fingerprint, 50);
    binary.arch = arch;
    cache.store_binary(binary, "text");
  };
  add("s-old", "sm_90a");
  add("s-new", "sm_90a");
  add("s-other", "sm_80");
  for (const char* const other : {"s", "s.", "s1-newest", "r-newest"}) add(other, "sm_90a");
  EXPECT_EQ(cache.find_binary_of_source("s", "sm_90a").value().fingerprint, "s-new");
  EXPECT_EQ(cache.find_binary_of_source("s", "sm_80").value().fingerprint, "s-other");
  EXPECT_FALSE(cache.find_binary_of_source("s", "sm_75"));
  EXPECT_FALSE(cache.find_binary_of_source("t", "sm_90a"));
}

TEST_F(CacheLookup, ListsOlderRecordsNewestFirst) {
  const auto measured = [](const std::string& templates, std::int64_t created_unix_s, std::int64_t n_cols = 1024) {
    TuningRecord record = sample_record(n_cols);
    record.key.template_digest = templates;
    record.created_unix_s = created_unix_s;
    return record;
  };
  const fs::path shipped = folder() / "shipped.db";
  ship(shipped, {measured("third", 300), measured("first", 100)});
  CacheOptions layered = options();
  layered.system_files = {shipped};
  Cache cache(layered);
  cache.store_record(measured("first", 100), {});
  cache.store_record(measured("second", 200), {});
  cache.store_record(measured("present", 50), {});
  cache.store_record(measured("other columns", 400, 2048), {});

  const auto digests = [&](const TuningKey& key, int limit) {
    std::vector<std::string> found;
    for (const TuningRecord& record : cache.find_older(key, limit))
      found.push_back(record.key.template_digest + (record.shipped ? " shipped" : ""));
    return found;
  };
  const TuningKey key = measured("present", 0).key;
  EXPECT_EQ(digests(key, 9), (std::vector<std::string>{"third shipped", "second", "first"}));
  EXPECT_EQ(digests(key, 1), (std::vector<std::string>{"third shipped"}));
  for (std::string TuningKey::*part :
       {&TuningKey::op, &TuningKey::problem_class, &TuningKey::device_class, &TuningKey::policy}) {
    TuningKey other = key;
    other.*part += "'";
    EXPECT_TRUE(cache.find_older(other, 9).empty());
  }
}

TEST_F(CacheLookup, IgnoresUnusableSystemFilesWithOneWarningEach) {
  write_file(folder() / "garbage.db", random_bytes(5000, 1));
  write_file(folder() / "empty.db", "");
  fs::create_directory(folder() / "folder.db");
  const fs::path good = folder() / "good.db";
  ship(good, {sample_record(512)});
  ship(folder() / "newer.db", {sample_record(512, 7)});
  Connection::open_file(folder() / "newer.db", Connection::Access::read_write, 0).execute("PRAGMA user_version=99");

  CacheOptions layered = options();
  layered.system_files = {folder() / "garbage.db", folder() / "empty.db", folder() / "folder.db",
                          folder() / "none.db",    folder() / "newer.db", good};
  Cache cache(layered);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.find_record(sample_key(512)).value().config, sample_record(512).config);
    EXPECT_EQ(cache.find_nearest(sample_key(512), 9).size(), 1u);
  }
  EXPECT_EQ(warnings.size(), 5u);
  EXPECT_TRUE(read_file(folder() / "garbage.db") == random_bytes(5000, 1));
}

}  // namespace
}  // namespace tunesmith
