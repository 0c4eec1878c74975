// Who may read and change a cache: it is created for its user only, and code that others could have written is not loaded.

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cache/fixture.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

int mode_of(const fs::path& path) {
  struct stat facts {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
  return static_cast<int>(facts.st_mode & 07777);
}

class CachePrivate : public CacheTest {
 protected:
  void fill(const fs::path& file) {
    Cache cache(options(file));
    cache.store_record(sample_record(64), sample_trials(2));
    cache.store_binary(sample_binary("key-toolchain", 100), "text");
  }
  fs::path user_file() const { return folder() / "mine" / "cache.db"; }
  /// Opens the cache anew and looks for its binary in both ways.
  bool loads_code(CacheOptions options) {
    Cache cache(std::move(options));
    EXPECT_TRUE(cache.find_record(sample_key(64))) << "records are text and are checked, so they are used";
    const bool found = cache.find_binary("key-toolchain").has_value();
    EXPECT_EQ(cache.find_binary_of_source("key", sample_binary("key-toolchain", 1).arch).has_value(), found);
    return found;
  }
  void expect_warning(const std::string& what_to_do) {
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("not loaded"), std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].find(what_to_do), std::string::npos) << warnings[0];
    warnings.clear();
  }
};

TEST_F(CachePrivate, FilesAndFoldersAreCreatedForTheirUser) {
  const mode_t before = umask(0);
  const fs::path file = folder() / "new" / "deep" / "cache.db";
  fill(file);
  umask(before);
  EXPECT_EQ(mode_of(folder() / "new"), 0700);
  EXPECT_EQ(mode_of(folder() / "new" / "deep"), 0700);
  for (const auto& entry : fs::directory_iterator(file.parent_path()))
    EXPECT_EQ(mode_of(entry.path()), 0600) << entry.path();
}

TEST_F(CachePrivate, PermissionsOfAnExistingFolderAreKept) {
  fs::create_directory(user_file().parent_path());
  fs::permissions(user_file().parent_path(), fs::perms(0755));
  fill(user_file());
  EXPECT_EQ(mode_of(user_file().parent_path()), 0755);
  EXPECT_TRUE(loads_code(options(user_file()))) << "others may read the folder";
  EXPECT_TRUE(warnings.empty());
}

TEST_F(CachePrivate, CodeThatOthersCanWriteIsNotLoaded) {
  fill(user_file());
  EXPECT_TRUE(loads_code(options(user_file())));
  for (const fs::path& path : {user_file(), user_file().parent_path()})
    for (const fs::perms others : {fs::perms::group_write, fs::perms::others_write}) {
      fs::permissions(path, others, fs::perm_options::add);
      EXPECT_FALSE(loads_code(options(user_file()))) << path;
      expect_warning("chmod go-w '" + path.string() + "'");
      Cache cache(options(user_file()));
      EXPECT_NE(cache.info().why_not_private.find("chmod"), std::string::npos);
      fs::permissions(path, others, fs::perm_options::remove);
      EXPECT_TRUE(cache.find_binary("key-toolchain")) << "no restart is needed";
      EXPECT_EQ(cache.info().why_not_private, "");
    }
  EXPECT_TRUE(warnings.empty());
}

// SQLite would play back a journal that somebody else puts there; chmod is no advice for a system's /tmp.
TEST_F(CachePrivate, StickyFoldersAreNotToBeChanged) {
  fill(user_file());
  fs::permissions(user_file().parent_path(), fs::perms(01777));
  EXPECT_FALSE(loads_code(options(user_file())));
  expect_warning("keep the cache in a folder of your own there");
}

TEST_F(CachePrivate, TheSameHoldsForSystemFilesAndTheOthersAreUsed) {
  for (const char* name : {"open", "closed"}) fill(folder() / name / "cache.db");
  fs::permissions(folder() / "open" / "cache.db", fs::perms(0666));
  CacheOptions both = options("");
  both.system_files = {folder() / "open" / "cache.db"};
  EXPECT_FALSE(loads_code(both));
  expect_warning("chmod go-w");
  both.system_files.push_back(folder() / "closed" / "cache.db");
  EXPECT_TRUE(loads_code(both));
  expect_warning("chmod go-w");
}

TEST_F(CachePrivate, CodeOfAnotherUserIsNotLoaded) {
  fill(user_file());
  if (geteuid() != 0 || chown(user_file().c_str(), 65534, 65534) != 0) GTEST_SKIP() << "only root can give a file away";
  EXPECT_FALSE(loads_code(options(user_file())));
  expect_warning("belongs to user 65534");
}

TEST_F(CachePrivate, CodeOfRootIsLoaded) {
  fill(user_file());
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  fs::permissions(folder(), fs::perms(0755));
  fs::permissions(user_file().parent_path(), fs::perms(0755));
  fs::permissions(user_file(), fs::perms(0644));
  EXPECT_TRUE(finished_well(start_process([&] {
    if (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0) return;  // not in this container
    CacheOptions system = options("");
    system.system_files = {user_file()};
    EXPECT_TRUE(loads_code(system));
    EXPECT_TRUE(warnings.empty());
  })));
}

TEST_F(CachePrivate, CodeThatOthersCanWriteIsNotImported) {
  fill(user_file());
  fs::permissions(user_file(), fs::perms(0622));
  Cache into(options());
  into.import_from(user_file());
  EXPECT_TRUE(into.find_record(sample_key(64)));
  EXPECT_FALSE(into.find_binary("key-toolchain"));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("not imported"), std::string::npos) << warnings[0];
  fs::permissions(user_file(), fs::perms(0600));
  into.import_from(user_file());
  EXPECT_TRUE(into.find_binary("key-toolchain"));
}

}  // namespace
}  // namespace tunesmith
