// Shipped records: an engine that finds one does not tune; its own results take precedence.

#include <gtest/gtest.h>

#include <cstdlib>

#include "api/c/options.h"
#include "api/engine/cache_files.h"
#include "tests/api/engine/fakes.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;
using fakes::FakeEngine;

Problem problem() { return {"softmax", {{"rows", std::int64_t{8}}, {"cols", std::int64_t{100}}}}; }

class ShippedRecords : public testing::Test {
 protected:
  // Makes a shipped file: tuned on another machine, only records.
  ShippedRecords() {
    std::string pattern = (fs::temp_directory_path() / "tunesmith-shipped-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    FakeEngine fake(fakes::in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder_ / "elsewhere.db");
    EXPECT_EQ(fake.engine->prepare(problem()).origin(), Origin::tuned);
    fake.engine->parts().cache->export_to(file(), false);
  }
  ~ShippedRecords() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "shipped.db"; }
  EngineOptions tuning_with_it() const {
    EngineOptions options = fakes::in_mode(Mode::tune);
    options.system_caches = {file()};
    return options;
  }

  fs::path folder_;
};

TEST_F(ShippedRecords, ExactRecordIsUsedEvenWithAnotherDriver) {
  FakeEngine fake(tuning_with_it(), DeviceInfo::Kind::cuda, folder_ / "own.db");
  fake.device->driver = "2";
  const Plan plan = fake.engine->prepare(problem());
  EXPECT_EQ(plan.origin(), Origin::exact);
  EXPECT_EQ(plan.tune_s(), 0);
  EXPECT_EQ(fake.device->measurements, 0);
  EXPECT_EQ(fake.compiler->compilations, 1);  // the file has no binaries
}

TEST_F(ShippedRecords, EngineTunesWithoutThem) {
  FakeEngine fake(fakes::in_mode(Mode::tune), DeviceInfo::Kind::cuda, folder_ / "own.db");
  EXPECT_EQ(fake.engine->prepare(problem()).origin(), Origin::tuned);
  EXPECT_GT(fake.device->measurements, 0);
}

TEST_F(ShippedRecords, AreSearchedAfterUserAndSystemFiles) {
  EngineOptions options;
  options.cache_file = "own.db";
  options.shipped_cache = "shipped.db";
  set_system_caches(options, "a.db:b.db");
  using Paths = std::vector<fs::path>;
  EXPECT_EQ(cache_options(options).file, "own.db");
  EXPECT_EQ(cache_options(options).system_files, (Paths{"a.db", "b.db", "shipped.db"}));
  set_system_caches(options, "");
  EXPECT_TRUE(cache_options(options).system_files.empty());
}

TEST_F(ShippedRecords, COptionsDisableThemLikeTheVariable) {
  tunesmith_options given{};
  given.struct_size = sizeof given;
  setenv("TUNESMITH_SYSTEM_CACHE", "a.db", 1);  // CTest sets it empty, which disables them already
  given.system_caches = "";
  EXPECT_TRUE(options_from_c(&given).shipped_cache.empty());
  EXPECT_TRUE(options_from_c(&given).system_caches.empty());
  given.system_caches = "b.db";
  EXPECT_EQ(options_from_c(&given).shipped_cache, EngineOptions::default_shipped_cache());
  EXPECT_EQ(options_from_c(&given).system_caches, std::vector<fs::path>{"b.db"});
  setenv("TUNESMITH_SYSTEM_CACHE", "", 1);
}

}  // namespace
}  // namespace tunesmith
