// Files that cannot be written: results last for the process, with one warning.

#include <grp.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

class CacheUnwritable : public CacheTest {
 protected:
  // Changes to another user in this child process, because permissions do not stop root.
  static bool drop_privileges() {
    return geteuid() != 0 || (setgroups(0, nullptr) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
  }
  static bool can_drop_privileges() {
    return finished_well(start_process([] {
      if (!drop_privileges()) _exit(2);
    }));
  }
  static pid_t start_unprivileged(const std::function<void()>& body) {
    return start_process([&] {
      ASSERT_TRUE(drop_privileges());
      body();
    });
  }

  void expect_memory_only(Cache& cache) {
    EXPECT_FALSE(cache.find_record(sample_key(64)));
    cache.store_record(sample_record(64), sample_trials(2));
    cache.store_record(sample_record(128), {});
    cache.store_binary(sample_binary("a", 100), "text");
    ASSERT_TRUE(cache.find_record(sample_key(64)));
    expect_equal(*cache.find_record(sample_key(64)), sample_record(64));
    expect_equal(cache.find_trials(sample_key(64)), sample_trials(2));
    ASSERT_TRUE(cache.find_binary("a"));
    EXPECT_EQ(cache.find_source("source of a"), "text");
    EXPECT_EQ(cache.find_nearest(sample_key(64), 5).size(), 2u);
    const CacheInfo info = cache.info();
    EXPECT_FALSE(info.writable);
    EXPECT_NE(info.why_not_writable, "");
    EXPECT_EQ(warnings.size(), 1u);
  }
};

TEST_F(CacheUnwritable, FileInsteadOfAFolder) {
  write_file(folder() / "blocker", "x");
  Cache cache(options(folder() / "blocker" / "cache.db"));
  EXPECT_NE(cache.info().why_not_writable.find("not a folder"), std::string::npos) << "known without trying";
  expect_memory_only(cache);
  EXPECT_EQ(read_file(folder() / "blocker"), "x");
}

TEST_F(CacheUnwritable, FolderThatCannotBeCreated) {
  Cache cache(options("/proc/tunesmith-none/cache.db"));
  expect_memory_only(cache);
}

TEST_F(CacheUnwritable, ReadOnlyFolder) {
  if (!can_drop_privileges()) GTEST_SKIP() << "permissions do not stop root, and it cannot become another user";
  fs::permissions(folder(), fs::perms(0555));
  EXPECT_TRUE(finished_well(start_unprivileged([&] {
    Cache cache(options());
    expect_memory_only(cache);
    EXPECT_TRUE(names().empty());
  })));
  fs::permissions(folder(), fs::perms(0755));
}

TEST_F(CacheUnwritable, ReadOnlyFileIsStillRead) {
  if (!can_drop_privileges()) GTEST_SKIP() << "permissions do not stop root, and it cannot become another user";
  { Cache(options()).store_record(sample_record(1024), sample_trials(2)); }
  const std::string before = read_file(file());
  fs::permissions(file(), fs::perms(0444));
  fs::permissions(folder() / "cache.db.lock", fs::perms(0444));
  for (const auto mode : {0555, 0777}) {
    fs::permissions(folder(), fs::perms(mode));
    EXPECT_TRUE(finished_well(start_unprivileged([&] {
      Cache cache(options());
      expect_equal(cache.find_record(sample_key(1024)).value(), sample_record(1024));
      EXPECT_TRUE(warnings.empty()) << warnings.front();
      EXPECT_FALSE(cache.info().writable);
      EXPECT_TRUE(cache.verify().empty());
      cache.store_record(sample_record(64), {});
      cache.store_record(sample_record(128), {});
      EXPECT_TRUE(cache.find_record(sample_key(64)));
      EXPECT_TRUE(cache.find_record(sample_key(1024))) << "reads work after a failed write";
      EXPECT_EQ(cache.list_records().size(), 3u);
      EXPECT_EQ(cache.find_nearest(sample_key(100), 9).size(), 3u);
      EXPECT_THROW(cache.clear({}), Error);
      EXPECT_EQ(warnings.size(), 1u);
    })));
  }
  fs::permissions(folder(), fs::perms(0755));
  EXPECT_TRUE(read_file(file()) == before);
  EXPECT_EQ(count_aside(), 0);
}

TEST_F(CacheUnwritable, UnreadableFile) {
  if (!can_drop_privileges()) GTEST_SKIP() << "permissions do not stop root, and it cannot become another user";
  { Cache(options()).store_record(sample_record(64), {}); }
  fs::permissions(folder(), fs::perms(0777));
  fs::permissions(file(), fs::perms(0));
  fs::permissions(folder() / "cache.db.lock", fs::perms(0));
  EXPECT_TRUE(finished_well(start_unprivileged([&] {
    Cache cache(options());
    EXPECT_FALSE(cache.find_record(sample_key(64)));
    cache.store_record(sample_record(64), {});
    EXPECT_TRUE(cache.find_record(sample_key(64)));
    EXPECT_FALSE(cache.info().writable);
    EXPECT_LE(warnings.size(), 2u) << "one for reading, one for writing";
    EXPECT_GE(warnings.size(), 1u);
  })));
  EXPECT_EQ(count_aside(), 0);
}

TEST_F(CacheUnwritable, CorruptFileThatCannotBeMovedAside) {
  if (!can_drop_privileges()) GTEST_SKIP() << "permissions do not stop root, and it cannot become another user";
  write_file(file(), random_bytes(3000, 1));
  fs::permissions(folder(), fs::perms(0555));
  EXPECT_TRUE(finished_well(start_unprivileged([&] {
    Cache cache(options());
    expect_memory_only(cache);
  })));
  fs::permissions(folder(), fs::perms(0755));
  EXPECT_TRUE(read_file(file()) == random_bytes(3000, 1));
}

TEST_F(CacheUnwritable, FileSizeLimit) {
  // A limit on the file size has the effect of a quota.
  EXPECT_TRUE(finished_well(start_process([&] {
    Cache cache(options());
    cache.store_record(sample_record(1024), {});
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{200'000, 200'000};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cache.store_binary(sample_binary("large", 1'000'000), "text");
    cache.store_binary(sample_binary("larger", 2'000'000), "text");
    EXPECT_EQ(warnings.size(), 1u);
    EXPECT_NE(cache.info().why_not_writable, "");
    expect_equal(cache.find_binary("large").value(), sample_binary("large", 1'000'000));
    EXPECT_TRUE(cache.find_record(sample_key(1024)));
    cache.store_record(sample_record(64), {});  // this one fits
    EXPECT_EQ(cache.info().why_not_writable, "");
    EXPECT_TRUE(cache.verify().empty());
  })));
  Cache cache(options());
  EXPECT_TRUE(cache.find_record(sample_key(1024)));
  EXPECT_TRUE(cache.find_record(sample_key(64)));
  EXPECT_FALSE(cache.find_binary("large"));
  EXPECT_TRUE(cache.verify().empty());
  EXPECT_EQ(count_aside(), 0);
}

TEST_F(CacheUnwritable, FullDisk) {
  const fs::path disk = folder() / "disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=256k") != 0) GTEST_SKIP() << "no permission to mount a file system";
  {
    Cache cache(options(disk / "cache.db"));
    cache.store_record(sample_record(1024), {});
    cache.store_binary(sample_binary("large", 1'000'000), "text");
    EXPECT_EQ(warnings.size(), 1u);
    EXPECT_NE(cache.info().why_not_writable.find("full"), std::string::npos) << cache.info().why_not_writable;
    EXPECT_TRUE(cache.find_binary("large"));
    EXPECT_TRUE(cache.find_record(sample_key(1024)));
    write_file(disk / "filler", std::string(300'000, 'x'));
    cache.store_record(sample_record(64), sample_trials(40));
    EXPECT_TRUE(cache.find_record(sample_key(64)));
    EXPECT_THROW(cache.export_to(disk / "out.db", true), Error);
    EXPECT_FALSE(fs::exists(disk / "out.db"));
    fs::remove(disk / "filler");
    cache.store_record(sample_record(64, 2), {});
    EXPECT_TRUE(cache.info().writable) << "there is space again";
    EXPECT_TRUE(cache.verify().empty());
    EXPECT_EQ(warnings.size(), 1u);
  }
  {
    Cache cache(options(disk / "cache.db"));
    expect_equal(cache.find_record(sample_key(64)).value(), sample_record(64, 2));
  }
  fs::remove(disk / "cache.db");
  fs::remove(disk / "cache.db.lock");
  write_file(disk / "filler", std::string(300'000, 'x'));
  warnings.clear();
  {
    Cache cache(options(disk / "cache.db"));  // there is no space to create it
    expect_memory_only(cache);
    fs::remove(disk / "filler");
    cache.store_record(sample_record(256), {});
  }
  EXPECT_TRUE(Cache(options(disk / "cache.db")).find_record(sample_key(256)));
  EXPECT_EQ(umount(disk.c_str()), 0);
}

}  // namespace
}  // namespace tunesmith
