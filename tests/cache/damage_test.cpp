// Damaged files: the cache never throws or crashes, never returns a row that was not stored, and recovers.

#include <algorithm>
#include <random>
#include <set>

#include "core/utf8.h"
#include "tests/cache/fixture.h"
#include "tests/support/torture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

class CacheDamage : public CacheTest {
 protected:
  static constexpr int count = 12;

  static std::string fingerprint(int i) { return source_key(i) + "-toolchain"; }
  static std::string source_key(int i) { return "key " + std::to_string(i); }
  static std::size_t image_bytes(int i) { return 100u << i % 8; }  // on leaves and on overflow pages
  static std::string source(int i) { return "// source " + std::string(static_cast<std::size_t>(i) * 300, 'x'); }

  // Returns the bytes of a healthy file with rows of every table.
  std::string healthy_file() {
    const fs::path path = folder() / "healthy" / "cache.db";
    {
      Cache cache(options(path));
      for (int i = 0; i < count; ++i) {
        cache.store_record(sample_record(64 << i, i + 1), sample_trials(8, i));
        cache.store_binary(sample_binary(fingerprint(i), image_bytes(i), i), source(i));
      }
    }
    return read_file(path);
  }

  // Checks that every row found equals the one stored. Returns the number of rows found.
  static int check_all(Cache& cache) {
    int found = 0;
    for (int i = 0; i < count; ++i) {
      if (const auto record = cache.find_record(sample_key(64 << i))) {
        ++found;
        expect_equal(*record, sample_record(64 << i, i + 1));
      }
      const auto expected = sample_trials(8, i);
      for (const Trial& trial : cache.find_trials(sample_key(64 << i))) {
        const auto same = [&](const Trial& other) {
          return other.config == trial.config && other.median_us == trial.median_us && other.status == trial.status &&
                 other.mad_us == trial.mad_us && other.samples == trial.samples && other.reason == trial.reason;
        };
        EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), same)) << trial.config;
      }
      if (const auto binary = cache.find_binary(fingerprint(i))) {
        ++found;
        expect_equal(*binary, sample_binary(fingerprint(i), image_bytes(i), i));
      }
      if (const auto binary = cache.find_binary_of_source(source_key(i), "sm_90a")) {
        ++found;
        expect_equal(*binary, sample_binary(fingerprint(i), image_bytes(i), i));
      }
      if (const auto text = cache.find_source("source of " + fingerprint(i))) {
        ++found;
        EXPECT_EQ(*text, source(i));
      }
    }
    const auto near = cache.find_nearest(sample_key(4096), 2 * count);
    const auto listed = cache.list_records();
    for (const auto& records : {near, listed}) {
      for (const TuningRecord& record : records) {
        int i = 0;
        while (i < count && (64 << i) != record.key.n_cols) ++i;
        if (i == count) {
          ADD_FAILURE() << "a record with n_cols=" << record.key.n_cols << " was never stored";
        } else {
          expect_equal(record, sample_record(64 << i, i + 1));
        }
      }
    }
    return found;
  }

  // Makes every call on a damaged file.
  void survive(const std::string& bytes) {
    const fs::path path = folder() / "sick" / "cache.db";
    fs::remove_all(path.parent_path());
    fs::create_directory(path.parent_path());
    write_file(path, bytes);
    warnings.clear();
    {
      Cache cache(options(path));
      EXPECT_NO_THROW(check_all(cache));
      EXPECT_NO_THROW(cache.store_record(sample_record(4096, 7), sample_trials(3)));
      EXPECT_NO_THROW(cache.store_binary(sample_binary("new", 20'000), "new text"));
      // A later call may find damage that earlier ones did not, and replace the file with all that was stored in it. Then
      // the new file must work.
      auto record = cache.find_record(sample_key(4096));
      auto binary = cache.find_binary("new");
      if (!record || !binary) {
        const auto moved = [](const std::string& text) { return text.find(".corrupt-") != std::string::npos; };
        EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), moved));
        cache.store_record(sample_record(4096, 7), sample_trials(3));
        cache.store_binary(sample_binary("new", 20'000), "new text");
        record = cache.find_record(sample_key(4096));
        binary = cache.find_binary("new");
      }
      ASSERT_TRUE(record);
      expect_equal(*record, sample_record(4096, 7));
      ASSERT_TRUE(binary);
      expect_equal(*binary, sample_binary("new", 20'000));
      EXPECT_NO_THROW(cache.verify());
      EXPECT_NO_THROW(cache.info());
    }
    std::set<std::string> distinct(warnings.begin(), warnings.end());
    EXPECT_EQ(distinct.size(), warnings.size()) << "each warning is given once";
    for (const std::string& warning : warnings) EXPECT_EQ(printable(warning), warning) << "it quotes the file's bytes";
    Cache next(options(path));
    EXPECT_NO_THROW(next.find_record(sample_key(4096)));
  }
};

TEST_F(CacheDamage, FindsEveryRowOfAHealthyFile) {
  const std::string bytes = healthy_file();
  write_file(file(), bytes);
  Cache cache(options());
  EXPECT_EQ(check_all(cache), 4 * count) << "the tests below need all rows";
  EXPECT_EQ(cache.list_records().size(), static_cast<std::size_t>(count));
}

TEST_F(CacheDamage, SurvivesFlippedBytes) {
  const std::string healthy = healthy_file();
  for (unsigned seed = 0; seed < torture_rounds(120); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string bytes = healthy;
    const unsigned flips = 1u << seed % 6;
    for (unsigned i = 0; i < flips; ++i) bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    survive(bytes);
  }
}

TEST_F(CacheDamage, SurvivesFlippedBytesInTheHeaderAndSchema) {
  const std::string healthy = healthy_file();
  for (std::size_t offset = 0; offset < 112; offset += 1) {  // the file header and the b-tree header of the schema
    SCOPED_TRACE("offset " + std::to_string(offset));
    std::string bytes = healthy;
    bytes[offset] ^= static_cast<char>(offset % 2 ? 0xff : 0x01);
    survive(bytes);
  }
  for (unsigned seed = 0; seed < torture_rounds(40); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string bytes = healthy;
    bytes[112 + random() % 3984] ^= static_cast<char>(1 << random() % 8);
    survive(bytes);
  }
}

TEST_F(CacheDamage, SurvivesLostAndSwappedPages) {
  const std::string healthy = healthy_file();
  const std::size_t page = 4096, pages = healthy.size() / page;
  for (unsigned seed = 0; seed < torture_rounds(30); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string bytes = healthy;
    const std::size_t a = random() % pages * page, b = random() % pages * page;
    switch (seed % 3) {
      case 0: std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(a), page, '\0'); break;
      case 1: bytes.replace(a, page, random_bytes(page, static_cast<int>(seed))); break;
      default:
        std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(a),
                         bytes.begin() + static_cast<std::ptrdiff_t>(a + page),
                         bytes.begin() + static_cast<std::ptrdiff_t>(b));
    }
    survive(bytes);
  }
}

TEST_F(CacheDamage, SurvivesTruncation) {
  const std::string healthy = healthy_file();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16}, std::size_t{99},
                                 std::size_t{100}, std::size_t{511}, std::size_t{512}, std::size_t{4095}, std::size_t{4096},
                                 std::size_t{4097}, healthy.size() / 2, healthy.size() - 4096, healthy.size() - 1}) {
    SCOPED_TRACE("size " + std::to_string(size));
    survive(healthy.substr(0, size));
  }
}

TEST_F(CacheDamage, ReplacesACorruptFile) {
  const std::string garbage = "this is not a database\n" + random_bytes(10'000, 4);
  write_file(file(), garbage);
  write_file(folder() / "cache.db-journal", "old journal");
  {
    Cache cache(options());
    EXPECT_FALSE(cache.find_record(sample_key(64)));
    EXPECT_FALSE(cache.find_record(sample_key(64)));
    cache.store_record(sample_record(64), {});
    EXPECT_TRUE(cache.find_record(sample_key(64)));
    EXPECT_TRUE(cache.info().writable);
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(count_aside(), 1);
  bool kept = false;
  for (const std::string& name : names()) {
    if (!name.starts_with("cache.db.corrupt-")) continue;
    if (!name.ends_with("-journal")) kept = read_file(folder() / name) == garbage;
    EXPECT_NE(warnings[0].find("cache.db.corrupt-"), std::string::npos) << warnings[0];
  }
  EXPECT_TRUE(kept) << "the corrupt file is kept";
  EXPECT_TRUE(Cache(options()).find_record(sample_key(64))) << "the old journal was not played back";
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(CacheDamage, UsesAnEmptyFile) {
  write_file(file(), "");
  Cache cache(options());
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  cache.store_record(sample_record(64), {});
  EXPECT_TRUE(Cache(options()).find_record(sample_key(64)));
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(count_aside(), 0);
}

TEST_F(CacheDamage, ReplacesAFileThatIsDamagedWhileOpen) {
  Cache cache(options());
  for (int i = 0; i < 40; ++i) cache.store_binary(sample_binary(fingerprint(i), 3000, i), source(1));
  // Damages the file in place. The next process must notice it, although this one has cached pages.
  {
    std::string bytes = read_file(file());
    for (std::size_t i = 4096; i < bytes.size(); i += 4096) bytes.replace(i, 64, 64, '\xee');
    FILE* handle = std::fopen(file().c_str(), "r+b");
    ASSERT_TRUE(handle);
    std::fwrite(bytes.data(), 1, bytes.size(), handle);
    std::fclose(handle);
  }
  for (int i = 0; i < 40; ++i) {
    if (const auto found = cache.find_binary(fingerprint(i))) expect_equal(*found, sample_binary(fingerprint(i), 3000, i));
  }
  cache.store_binary(sample_binary("after", 100), "text");
  EXPECT_TRUE(cache.find_binary("after"));
  Cache next(options());
  for (int i = 0; i < 40; ++i) {
    if (const auto found = next.find_binary(fingerprint(i))) expect_equal(*found, sample_binary(fingerprint(i), 3000, i));
  }
  next.store_binary(sample_binary("later", 100), "text");
  EXPECT_TRUE(Cache(options()).find_binary("later"));
}

TEST_F(CacheDamage, DamagedSystemFilesReturnNoWrongRows) {
  const std::string healthy = healthy_file();
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::string bytes = healthy;
    for (unsigned i = 0; i < 1u << seed % 6; ++i) bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
    write_file(file(), bytes);
    CacheOptions shipped = options("");
    shipped.system_files = {file()};
    Cache cache(shipped);
    for (int i = 0; i < count; ++i) {
      if (auto record = cache.find_record(sample_key(64 << i))) {
        EXPECT_TRUE(record->shipped);
        record->shipped = false;
        expect_equal(*record, sample_record(64 << i, i + 1));
      }
      if (const auto binary = cache.find_binary(fingerprint(i))) {
        expect_equal(*binary, sample_binary(fingerprint(i), image_bytes(i), i));
      }
    }
    EXPECT_TRUE(read_file(file()) == bytes) << "never written";
  }
}

}  // namespace
}  // namespace tunesmith
