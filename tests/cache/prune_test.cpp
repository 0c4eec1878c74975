// prune(), list_binaries(), import_records(), and info() about system files.

#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

class CachePrune : public CacheTest {
 protected:
  // Stores three records with two trials each, and five binaries of 100 kB; two binaries share a source.
  void fill() {
    Cache cache(options());
    for (const std::int64_t n_cols : {64, 128, 256}) cache.store_record(sample_record(n_cols), sample_trials(2));
    for (const char* fingerprint : {"e", "d", "c", "b", "a"}) {
      BinaryRecord binary = sample_binary(fingerprint, 100'000);
      if (binary.fingerprint < "c") binary.source_hash = "shared";
      cache.store_binary(binary, "text");
    }
  }
  static std::vector<std::string> fingerprints(Cache& cache) {
    std::vector<std::string> list;
    for (const BinaryInfo& binary : cache.list_binaries()) list.push_back(binary.fingerprint);
    return list;
  }
};

using Names = std::vector<std::string>;

TEST_F(CachePrune, ListsBinariesWithoutTheirImages) {
  fill();
  Cache cache(options());
  EXPECT_EQ(fingerprints(cache), (Names{"a", "b", "c", "d", "e"}));
  const BinaryInfo binary = cache.list_binaries().front();
  EXPECT_EQ(binary.source_hash, "shared");
  EXPECT_EQ(binary.arch, "sm_90a");
  EXPECT_EQ(binary.toolchain, "nvrtc 13.0 1");
  EXPECT_EQ(binary.op, "softmax");
  EXPECT_EQ(binary.image_bytes, 100'000);
  EXPECT_GT(binary.created_unix_s, 1'700'000'000);
}

TEST_F(CachePrune, RemovesOnlyTheNamedRows) {
  fill();
  Cache cache(options());
  const Cache::PruneResult result =
      cache.prune({.records = {sample_key(64), sample_key(9999)}, .binaries = {"a", "c", "none"}, .max_file_bytes = {}});
  EXPECT_EQ(result.records, 1);
  EXPECT_EQ(result.trials, 2);
  EXPECT_EQ(result.binaries, 2);
  EXPECT_EQ(result.sources, 1) << "b needs the other one";
  EXPECT_TRUE(result.for_size.empty());
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  EXPECT_TRUE(cache.find_record(sample_key(128)));
  EXPECT_EQ(cache.find_trials(sample_key(256)).size(), 2u);
  EXPECT_EQ(fingerprints(cache), (Names{"b", "d", "e"}));
  EXPECT_TRUE(cache.find_source("shared"));
  EXPECT_FALSE(cache.find_source("source of c"));
  EXPECT_LT(result.bytes_after, result.bytes_before - 200'000);
  EXPECT_EQ(result.bytes_after, static_cast<std::int64_t>(fs::file_size(file()))) << "the space is released";
  EXPECT_TRUE(cache.verify().empty());
}

TEST_F(CachePrune, ADryRunReportsTheSameAndRemovesNothing) {
  fill();
  const std::string bytes = read_file(file());
  Cache cache(options());
  Cache::PruneRequest request{.records = {sample_key(64)}, .binaries = {"c"}, .max_file_bytes = 300'000, .dry_run = true};
  const Cache::PruneResult pretended = cache.prune(request);
  EXPECT_TRUE(read_file(file()) == bytes);
  EXPECT_EQ(cache.info().records, 3);
  request.dry_run = false;
  const Cache::PruneResult done = cache.prune(request);
  EXPECT_EQ(pretended.records, done.records);
  EXPECT_EQ(pretended.trials, done.trials);
  EXPECT_EQ(pretended.binaries, done.binaries);
  EXPECT_EQ(pretended.sources, done.sources);
  EXPECT_EQ(pretended.for_size, done.for_size);
  EXPECT_EQ(pretended.bytes_before, done.bytes_before);
  EXPECT_GE(pretended.bytes_after, done.bytes_after);
  EXPECT_EQ(cache.info().records, 2);
}

TEST_F(CachePrune, SizeLimitRemovesTheOldestBinariesAndKeepsRecords) {
  fill();
  Cache cache(options());
  const Cache::PruneResult result = cache.prune({.records = {}, .binaries = {}, .max_file_bytes = 330'000});
  EXPECT_LE(fs::file_size(file()), 330'000u);
  EXPECT_GT(fs::file_size(file()), 200'000u) << "it removes no more than needed";
  EXPECT_EQ(result.for_size.front(), "e") << "stored first";
  EXPECT_EQ(result.binaries, static_cast<std::int64_t>(result.for_size.size()));
  EXPECT_TRUE(cache.find_binary("a")) << "stored last";
  const Cache::PruneResult all = cache.prune({.records = {}, .binaries = {}, .max_file_bytes = 1});
  EXPECT_TRUE(cache.list_binaries().empty());
  EXPECT_EQ(all.records, 0);
  EXPECT_EQ(cache.info().records, 3) << "a limit removes only binaries";
}

TEST_F(CachePrune, DoesNotCreateAFile) {
  Cache cache(options());
  EXPECT_EQ(cache.prune({.records = {sample_key(64)}, .binaries = {"a"}, .max_file_bytes = 0}).records, 0);
  EXPECT_TRUE(cache.list_binaries().empty());
  EXPECT_TRUE(names().empty());
  Cache memory(options(""));
  EXPECT_EQ(memory.prune({.records = {sample_key(64)}, .binaries = {}, .max_file_bytes = {}}).records, 0);
}

TEST_F(CachePrune, FailsForAFileOfAnotherProgramAndKeepsIt) {
  Connection::open_file(file(), Connection::Access::create, 0).execute("CREATE TABLE t (x)");
  const std::string bytes = read_file(file());
  Cache cache(options());
  EXPECT_THROW(cache.prune({.records = {}, .binaries = {}, .max_file_bytes = 0}), Error);
  EXPECT_TRUE(read_file(file()) == bytes);
}

TEST_F(CachePrune, ImportedRecordsReplaceOnlyOlderOnes) {
  Cache cache(options());
  cache.store_record(sample_record(64, 5), sample_trials(2));
  cache.store_record(sample_record(128, 1), {});
  EXPECT_EQ(cache.import_records({sample_record(64, 1), sample_record(128, 5), sample_record(256, 1)}), 2);
  expect_equal(cache.find_record(sample_key(64)).value(), sample_record(64, 5));
  expect_equal(cache.find_record(sample_key(128)).value(), sample_record(128, 5));
  expect_equal(cache.find_record(sample_key(256)).value(), sample_record(256, 1));
  EXPECT_EQ(cache.find_trials(sample_key(64)).size(), 2u);
  EXPECT_EQ(cache.import_records({}), 0);
}

TEST_F(CachePrune, ImportingNoRecordsMakesAValidSystemCache) {
  Cache(options()).import_records({});
  CacheOptions shipped = options("");
  shipped.system_files = {file()};
  Cache cache(shipped);
  EXPECT_FALSE(cache.find_record(sample_key(64)));
  EXPECT_TRUE(warnings.empty()) << warnings.front();
}

TEST_F(CachePrune, InfoListsSystemFilesAndWhyOneIsIgnored) {
  fill();
  write_file(folder() / "garbage.db", random_bytes(9000, 1));
  CacheOptions layered = options(folder() / "own.db");
  layered.system_files = {file(), folder() / "garbage.db", folder() / "none.db"};
  Cache cache(layered);
  const std::vector<SystemFileInfo> files = cache.info().system_files;
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].file, file());
  EXPECT_EQ(files[0].records, 3);
  EXPECT_EQ(files[0].binaries, 5);
  EXPECT_EQ(files[0].ignored, "");
  EXPECT_NE(files[1].ignored.find("not a database"), std::string::npos) << files[1].ignored;
  EXPECT_EQ(files[2].ignored, "there is no such file");
  EXPECT_EQ(cache.info().records, 0) << "they are not the user's";
}

}  // namespace
}  // namespace tunesmith
