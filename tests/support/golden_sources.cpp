#include "tests/support/golden_sources.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/hash.h"
#include "tests/support/source_folder.h"

namespace tunesmith::test {
namespace {

namespace fs = std::filesystem;

fs::path folder() { return source_folder() / "tests/templates/golden"; }
fs::path readable_file(const std::string& key) { return folder() / (key + ".cu"); }
fs::path saved_file(const std::string& digest) { return source_folder() / "build/golden" / (digest + ".cu"); }

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  return content.str();
}

// Programs that run side by side save the same texts. A checkout that cannot be written saves none.
void save(const std::string& digest, std::string_view text) {
  const fs::path path = saved_file(digest), part = path.string() + "." + std::to_string(getpid());
  std::error_code failed;
  if (fs::exists(path, failed)) return;
  fs::create_directories(path.parent_path(), failed);
  if (std::ofstream(part, std::ios::binary) << text) fs::rename(part, path, failed);
}

std::map<std::string, std::string> read_digests() {
  std::map<std::string, std::string> digests;
  std::ifstream lines(folder() / "digests.txt");
  for (std::string key, digest; lines >> key >> digest;) digests[key] = digest;
  return digests;
}

}  // namespace

GoldenSources::GoldenSources(std::string group)
    : group_(std::move(group)), digests_(read_digests()), update_(std::getenv("TUNESMITH_UPDATE_GOLDEN") != nullptr) {}

void GoldenSources::check(const std::string& name, std::string_view text) {
  const std::string key = group_ + "/" + name, digest = hash_hex(text), golden = digests_[key];
  EXPECT_TRUE(checked_.emplace(key, digest).second) << key << " is the name of two texts";
  const fs::path readable = readable_file(key);
  if (update_) {
    save(digest, text);
    if (fs::exists(readable)) std::ofstream(readable, std::ios::binary) << text;
    return;
  }
  if (fs::exists(readable)) {
    EXPECT_EQ(hash_hex(read(readable)), golden) << readable << " is not the text that digests.txt has for " << key;
  }
  if (digest == golden) return save(digest, text);
  const std::string before = fs::exists(readable) ? read(readable) : read(saved_file(golden));
  if (before.empty()) {
    ADD_FAILURE() << key << " has changed: its digest is " << digest << ", not \"" << golden
                  << "\". scripts/golden_diff.sh COMMIT shows the difference to an earlier commit.";
  } else {
    EXPECT_EQ(before, text) << key;
  }
}

void GoldenSources::finish() {
  const auto in_group = [&](const auto& entry) { return entry.first.starts_with(group_ + "/"); };
  if (update_) {
    std::map<std::string, std::string> digests = read_digests();
    std::erase_if(digests, in_group);
    digests.insert(checked_.begin(), checked_.end());
    std::ofstream file(folder() / "digests.txt");
    for (const auto& [key, digest] : digests) file << key << ' ' << digest << '\n';
    return;
  }
  for (const auto& entry : digests_)
    EXPECT_TRUE(!in_group(entry) || checked_.contains(entry.first)) << entry.first << " in digests.txt: no such text";
  if (!fs::exists(folder() / group_)) return;
  for (const auto& file : fs::directory_iterator(folder() / group_))
    EXPECT_TRUE(checked_.contains(group_ + "/" + file.path().stem().string())) << file.path() << ": no such text";
}

}  // namespace tunesmith::test
