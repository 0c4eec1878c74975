// Options from environment variables, and errors for invalid values.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/api/engine/fakes.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

using fakes::expect_error;

constexpr const char* names[] = {"TUNESMITH_CACHE",
                                 "TUNESMITH_SYSTEM_CACHE",
                                 "TUNESMITH_MODE",
                                 "TUNESMITH_LOG",
                                 "TUNESMITH_DUMP_DIR",
                                 "TUNESMITH_TEMPLATES",
                                 "TUNESMITH_CUDA",
                                 "TUNESMITH_TUNER",
                                 "TUNESMITH_PROBLEM_LOG",
                                 "TUNESMITH_REMOTE",
                                 "XDG_CACHE_HOME",
                                 "HOME",
                                 "CUDA_HOME",
                                 "CUDA_PATH",
                                 "LD_LIBRARY_PATH",
                                 "VIRTUAL_ENV",
                                 "NVRTC_APPEND_FLAGS"};

/// Unsets all variables before each test and restores them afterwards.
class Environment : public testing::Test {
 protected:
  Environment() {
    for (const char* name : names) {
      const char* value = std::getenv(name);
      before_.emplace_back(name, value == nullptr ? std::nullopt : std::optional<std::string>(value));
      unsetenv(name);
    }
    std::string pattern = (std::filesystem::temp_directory_path() / "tunesmith-options-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Environment() override {
    for (const auto& [name, value] : before_) value ? setenv(name, value->c_str(), 1) : unsetenv(name);
    std::filesystem::remove_all(folder_);
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

  std::filesystem::path folder_;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

TEST_F(Environment, EmptyGivesTheDefaults) {
  const EngineOptions options = EngineOptions::from_environment();
  EXPECT_EQ(options.device, "auto");
  EXPECT_EQ(options.mode, Mode::tune);
  EXPECT_EQ(options.effort, Effort::quick);
  EXPECT_TRUE(options.cache_file.empty());  // without a home folder there is no cache file
  EXPECT_TRUE(options.system_caches.empty());
  EXPECT_EQ(options.shipped_cache, EngineOptions::default_shipped_cache());
  EXPECT_FALSE(options.log);
  EXPECT_TRUE(options.cuda_environment.toolkits.empty());
}

TEST_F(Environment, DefaultCacheFollowsXdg) {
  set("HOME", "/h");
  EXPECT_EQ(EngineOptions::default_cache_file(), "/h/.cache/tunesmith/cache.db");
  set("XDG_CACHE_HOME", "/x");
  EXPECT_EQ(EngineOptions::default_cache_file(), "/x/tunesmith/cache.db");
  set("XDG_CACHE_HOME", "relative");  // the specification says to ignore it
  EXPECT_EQ(EngineOptions::default_cache_file(), "/h/.cache/tunesmith/cache.db");
}

TEST_F(Environment, ReadsEveryVariable) {
  set("TUNESMITH_CACHE", "/c/cache.db");
  set("TUNESMITH_SYSTEM_CACHE", "/s1.db::/s2.db:");
  set("TUNESMITH_MODE", "replay");
  set("TUNESMITH_LOG", "info");
  set("TUNESMITH_DUMP_DIR", (folder_ / "dump").string());
  set("TUNESMITH_TEMPLATES", folder_.string());
  set("TUNESMITH_CUDA", "/cuda-a:/cuda-b");
  set("TUNESMITH_TUNER", "/bin/tunesmith");
  set("TUNESMITH_PROBLEM_LOG", "/l/problems.jsonl");
  set("TUNESMITH_REMOTE", "redis://cache?ns=prod");
  set("CUDA_HOME", "/home-toolkit");
  set("CUDA_PATH", "/path-toolkit");
  set("LD_LIBRARY_PATH", "/l1:/l2");
  set("VIRTUAL_ENV", "/venv");
  set("NVRTC_APPEND_FLAGS", "-lineinfo");
  using Paths = std::vector<std::filesystem::path>;
  const EngineOptions options = EngineOptions::from_environment();
  EXPECT_EQ(options.cache_file, "/c/cache.db");
  EXPECT_EQ(options.system_caches, (Paths{"/s1.db", "/s2.db"}));
  EXPECT_EQ(options.mode, Mode::replay);
  EXPECT_EQ(options.dump_folder, folder_ / "dump");
  EXPECT_EQ(options.templates_folder, folder_);
  EXPECT_EQ(options.cuda_folders, (Paths{"/cuda-a", "/cuda-b"}));
  EXPECT_EQ(options.tuner_program, "/bin/tunesmith");
  EXPECT_EQ(options.problem_log, "/l/problems.jsonl");
  EXPECT_EQ(options.remote, "redis://cache?ns=prod");
  EXPECT_EQ(options.cuda_environment.toolkits, (Paths{"/home-toolkit", "/path-toolkit"}));
  EXPECT_EQ(options.cuda_environment.library_folders, (Paths{"/l1", "/l2"}));
  EXPECT_EQ(options.cuda_environment.python_folders, (Paths{"/venv"}));
  EXPECT_EQ(options.cuda_environment.nvrtc_append_flags, "-lineinfo");
  EXPECT_EQ(EngineOptions().cuda_environment.nvrtc_append_flags,
            "-lineinfo");                       // always read, as part of a binary's identity
  EXPECT_EQ(EngineOptions().mode, Mode::tune);  // only from_environment() reads the others
}

TEST_F(Environment, EmptyCacheVariableMeansNoFile) {
  set("HOME", "/h");
  set("TUNESMITH_CACHE", "");
  EXPECT_TRUE(EngineOptions::from_environment().cache_file.empty());
}

TEST_F(Environment, EmptySystemCacheVariableDisablesTheShippedCache) {
  set("TUNESMITH_SYSTEM_CACHE", "/s.db");
  EXPECT_EQ(EngineOptions::from_environment().shipped_cache, EngineOptions::default_shipped_cache());
  set("TUNESMITH_SYSTEM_CACHE", "");
  EXPECT_TRUE(EngineOptions::from_environment().shipped_cache.empty());
  EXPECT_TRUE(EngineOptions::from_environment().system_caches.empty());
}

TEST_F(Environment, LogLevelsGoToStderr) {
  const auto said_at = [](const char* level) {
    set("TUNESMITH_LOG", level);
    const EngineOptions options = EngineOptions::from_environment();
    testing::internal::CaptureStderr();
    options.log(EngineOptions::Level::info, "an info");
    options.log(EngineOptions::Level::warning, "a warning");
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said_at("info"), "tunesmith: an info\ntunesmith: a warning\n");
  EXPECT_EQ(said_at("warning"), "tunesmith: a warning\n");
}

TEST_F(Environment, ErrorsNameMalformedValues) {
  const auto rejected = [](const char* name, const std::string& value, std::initializer_list<std::string_view> words) {
    set(name, value);
    expect_error([] { (void)EngineOptions::from_environment(); }, ErrorCode::invalid_argument, {name, "'" + value + "'"});
    expect_error([] { (void)EngineOptions::from_environment(); }, ErrorCode::invalid_argument, words);
    unsetenv(name);
  };
  const std::filesystem::path file = folder_ / "file";
  std::ofstream(file) << "x";
  rejected("TUNESMITH_MODE", "fast", {"tune", "replay", "off"});
  rejected("TUNESMITH_LOG", "verbose", {"info", "warning"});
  rejected("TUNESMITH_CACHE", folder_.string(), {"a file"});
  rejected("TUNESMITH_TEMPLATES", (folder_ / "absent").string(), {"a folder"});
  rejected("TUNESMITH_DUMP_DIR", file.string(), {"a folder"});
}

TEST_F(Environment, EngineRejectsInvalidOptions) {
  EngineOptions options;
  options.cache_file.clear();
  for (const char* device : {"gpu", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "", "HOST"}) {
    options.device = device;
    expect_error([&] { Engine engine(options); }, ErrorCode::invalid_argument, {"device is '", device, "cuda:N", "host"});
  }
  options.device = "host";
  for (const double budget : {0.0, -1.0, std::nan("")}) {
    options.tune_budget_s = budget;
    expect_error([&] { Engine engine(options); }, ErrorCode::invalid_argument, {"tune_budget_s", "above 0"});
  }
  options.tune_budget_s = 1;
  options.templates_folder = folder_ / "absent";
  expect_error([&] { Engine engine(options); }, ErrorCode::io, {"absent"});
}

}  // namespace
}  // namespace tunesmith
