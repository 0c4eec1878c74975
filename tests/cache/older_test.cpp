// Files of every schema version, each written by the code of its time (docs/versions.md). After a new migration, run this
// test once with TUNESMITH_UPDATE_GOLDEN=1: it writes the file of the new schema.

#include <sys/stat.h>

#include <cstdlib>

#include "cache/file_facts.h"
#include "cache/schema.h"
#include "tests/cache/fixture.h"
#include "tests/support/source_folder.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

constexpr const char* sample_fingerprint = "0123-4567";

fs::path file_of_schema(std::size_t version) {
  return source_folder() / "tests/cache/older" / ("schema_" + std::to_string(version) + ".db");
}

void write_samples(const fs::path& file) {
  CacheOptions options;
  options.file = file;
  Cache cache(options);
  for (const int seed : {1, 2}) cache.store_record(sample_record(64 * seed, seed), sample_trials(3, seed));
  cache.store_binary(sample_binary(sample_fingerprint, 100), "the source");
  fs::remove(fs::path(file) += ".lock");
}

void expect_samples(Cache& cache, bool shipped) {
  for (const int seed : {1, 2}) {
    TuningRecord expected = sample_record(64 * seed, seed);
    expected.shipped = shipped;
    const std::optional<TuningRecord> found = cache.find_record(expected.key);
    ASSERT_TRUE(found) << seed;
    expect_equal(*found, expected);
    expect_equal(cache.find_trials(expected.key), sample_trials(3, seed));
  }
  EXPECT_EQ(cache.find_nearest(sample_key(100), 9).size(), 2u);
  const std::optional<BinaryRecord> binary = cache.find_binary(sample_fingerprint);
  ASSERT_TRUE(binary);
  expect_equal(*binary, sample_binary(sample_fingerprint, 100));
}

class OlderCache : public CacheTest, public testing::WithParamInterface<std::size_t> {
 protected:
  OlderCache() {
    if (GetParam() == migrations().size() && std::getenv("TUNESMITH_UPDATE_GOLDEN") != nullptr && !fs::exists(original()))
      write_samples(original());
    fs::copy_file(original(), older());
    chmod(older().c_str(), 0600);
  }
  static fs::path original() { return file_of_schema(GetParam()); }
  fs::path older() const { return folder() / "older.db"; }
};

TEST_P(OlderCache, IsMigratedAsTheUsersFile) {
  const CacheFileFacts facts = examine_cache_file(older());
  EXPECT_EQ(facts.schema, static_cast<int>(GetParam()));
  EXPECT_EQ(facts.state, GetParam() == migrations().size() ? CacheFileFacts::State::current : CacheFileFacts::State::older);
  EXPECT_TRUE(read_file(older()) == read_file(original())) << "looking at a file changes it";
  Cache cache(options(older()));
  expect_samples(cache, false);
  cache.store_record(sample_record(512, 3), {});
  EXPECT_TRUE(cache.find_record(sample_key(512)));
  EXPECT_EQ(cache.info().schema, static_cast<int>(migrations().size()));
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_TRUE(warnings.empty()) << warnings.front();
}

TEST_P(OlderCache, ServesAsASystemFileAndStaysAsItIs) {
  chmod(older().c_str(), 0400);
  CacheOptions layered = options();
  layered.system_files = {older()};
  Cache cache(layered);
  expect_samples(cache, true);
  const CacheInfo info = cache.info();
  EXPECT_EQ(info.system_files.at(0).records, 2);
  EXPECT_EQ(info.system_files.at(0).ignored, "");
  EXPECT_TRUE(warnings.empty()) << warnings.front();
  EXPECT_TRUE(read_file(older()) == read_file(original()));
}

TEST_P(OlderCache, IsImportedAndStaysAsItIs) {
  Cache cache(options());
  EXPECT_EQ(cache.import_from(older()), 10) << "two records, six trials, a binary and its source";
  expect_samples(cache, false);
  EXPECT_TRUE(read_file(older()) == read_file(original()));
}

INSTANTIATE_TEST_SUITE_P(Schemas, OlderCache, testing::Range(std::size_t{1}, migrations().size() + 1));

}  // namespace
}  // namespace tunesmith
