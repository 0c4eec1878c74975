// The cache file that ships, as an installed program finds it: in share/tunesmith next to its bin folder.

#include <algorithm>
#include <filesystem>

#include "api/engine/parts.h"
#include "cache/cache.h"
#include "templates/op.h"
#include "tests/api/cli/process.h"
#include "tests/support/source_folder.h"
#include "tuner/select.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

/// The program in a prefix of its own. Lookups are made by the host executor in replay mode, which finds records of its
/// device class like a GPU does of its own.
class ShippedCacheTest : public CliTest {
 protected:
  ShippedCacheTest() {
    shipped_records = true;
    program = path("prefix/bin/tunesmith");
    fs::create_directories(path("prefix/bin"));
    fs::create_directories(path("prefix/share/tunesmith"));
    std::error_code other_file_system;
    fs::create_hard_link(built_program(), program, other_file_system);
    if (other_file_system) fs::copy_file(built_program(), program);
  }

  std::string shipped() const { return path("prefix/share/tunesmith/shipped.db"); }

  static Problem problem() {
    return find_op("softmax").normalize({"softmax", {{"rows", std::int64_t{4}}, {"cols", std::int64_t{256}}}});
  }
  /// Configurations of that problem, none of them the default.
  static std::string config(std::size_t number) {
    const DeviceInfo device = open_device("host")->info();
    return find_op("softmax").parse(problem())->search_space(device, Effort::full).at(1 + number).text();
  }
  /// A cache file whose record for that problem names config(number).
  static void write_cache(const std::string& file, std::size_t number) {
    TuningRecord record;
    record.key = tuning_key(*find_op("softmax").parse(problem()), open_device("host")->info(), TemplateSet::embedded());
    record.config = config(number);
    record.problem = problem().text();
    record.median_us = 1;
    record.provenance = {{"driver", "another"}, {"sm_clock_khz", "1"}};
    CacheOptions options;
    options.file = file;
    Cache(options).store_record(record, {});
  }
  nlohmann::json look_up() const {
    return run_json({"run", "softmax", "--rows", "4", "--cols", "256", "--device", "host", "--mode", "replay"});
  }
};

TEST_F(ShippedCacheTest, IsLoadedByDefaultAfterTheOthers) {
  EXPECT_EQ(look_up()["origin"], "default");
  write_cache(shipped(), 0);
  nlohmann::json answer = look_up();
  EXPECT_EQ(answer["origin"], "exact") << "whatever the driver it was measured under";
  EXPECT_EQ(answer["config"], config(0));

  write_cache(path("system.db"), 1);
  environment["TUNESMITH_SYSTEM_CACHE"] = path("system.db");
  EXPECT_EQ(look_up()["config"], config(1));
  write_cache(cache_file(), 2);
  EXPECT_EQ(look_up()["config"], config(2));

  fs::remove(cache_file());
  environment["TUNESMITH_SYSTEM_CACHE"] = path("none.db");
  EXPECT_EQ(look_up()["config"], config(0)) << "naming system files does not switch it off";
  environment["TUNESMITH_SYSTEM_CACHE"] = "";
  EXPECT_EQ(look_up()["origin"], "default") << "an empty list does";
}

TEST_F(ShippedCacheTest, IsNeverWritten) {
  write_cache(shipped(), 0);
  const std::string before = read("prefix/share/tunesmith/shipped.db");
  fs::remove(shipped() + ".lock");
  fs::permissions(path("prefix/share/tunesmith"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(look_up()["origin"], "exact");
  EXPECT_EQ(run({"cache", "clear"}).code, 0);
  EXPECT_EQ(run({"cache", "prune"}).code, 0);
  fs::permissions(path("prefix/share/tunesmith"), fs::perms::owner_all);
  EXPECT_TRUE(read("prefix/share/tunesmith/shipped.db") == before);
  EXPECT_FALSE(fs::exists(shipped() + ".lock"));
}

TEST_F(ShippedCacheTest, ADamagedOneCostsOneWarning) {
  write_cache(shipped(), 0);
  const std::string whole = read("prefix/share/tunesmith/shipped.db");
  const std::vector<std::string> arguments{"run", "softmax",  "--rows", "4",      "--cols",
                                           "256", "--device", "host",   "--mode", "replay"};
  for (const std::string& bytes : {std::string(9000, 'x'), whole.substr(0, 5000), std::string()}) {
    write("prefix/share/tunesmith/shipped.db", bytes);
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("default"), std::string::npos) << outcome.out;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
    EXPECT_NE(outcome.err.find("warning: system cache " + shipped() + " is ignored: "), std::string::npos) << outcome.err;
    const nlohmann::json facts = run_json({"doctor"})["shipped"];
    EXPECT_EQ(facts["records"], 0);
    EXPECT_NE(facts["ignored"], "");
  }
  fs::remove(shipped());
  EXPECT_EQ(run(arguments).err, "") << "none is no reason to complain";
  EXPECT_EQ(run_json({"doctor"})["shipped"]["ignored"], "no such file");
}

TEST_F(ShippedCacheTest, DoctorNamesItAndListShowsItWhenAsked) {
  write_cache(shipped(), 0);
  nlohmann::json facts = run_json({"doctor"})["shipped"];
  EXPECT_EQ(facts["file"], shipped());
  EXPECT_EQ(facts["records"], 1);
  EXPECT_EQ(facts["usable"], 1);
  EXPECT_EQ(facts["ignored"], "");
  EXPECT_NE(run({"doctor"}).out.find(shipped() + ", 1 records"), std::string::npos);
  EXPECT_EQ(run_json({"cache", "list"})["records"].size(), 0u);
  const nlohmann::json all = run_json({"cache", "list", "--all"})["records"];
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["shipped"], true);
  EXPECT_EQ(run_json({"cache", "show", "1", "--all"})["n_cols"], 256);
  EXPECT_EQ(run_json({"cache", "info"})["system_files"][0]["records"], 1);

  environment["TUNESMITH_SYSTEM_CACHE"] = "";
  facts = run_json({"doctor"})["shipped"];
  EXPECT_EQ(facts["file"], "");
  EXPECT_EQ(facts["ignored"], "TUNESMITH_SYSTEM_CACHE is empty");
}

TEST_F(ShippedCacheTest, RecordsOfOlderTemplatesAreUsedAndSaidToBe) {
  fs::create_directories(path("templates"));
  fs::copy(source_folder() / "templates", path("templates"), fs::copy_options::recursive);
  write_cache(shipped(), 0);
  environment["TUNESMITH_TEMPLATES"] = path("templates");
  EXPECT_EQ(look_up()["origin"], "exact") << "the same templates from a folder";
  const std::string kernel = "templates/softmax/resident.cuh";
  write(kernel, read(kernel) + "// changed\n");
  EXPECT_EQ(look_up()["origin"], "exact") << "comments do not count";
  write(kernel, read(kernel) + "struct Changed {};\n");
  const nlohmann::json answer = look_up();
  EXPECT_EQ(answer["origin"], "older");
  EXPECT_EQ(answer["config"], config(0));
  const nlohmann::json facts = run_json({"doctor"})["shipped"];
  EXPECT_EQ(facts["records"], 1);
  EXPECT_EQ(facts["usable"], 0);
}

// The one that this build made of the repository's records, which may be none.
TEST_F(ShippedCacheTest, TheBuildHasMadeOne) {
  program = built_program();
  const nlohmann::json facts = run_json({"doctor"})["shipped"];
  EXPECT_TRUE(facts["file"].get<std::string>().ends_with("/share/tunesmith/shipped.db")) << facts;
  EXPECT_EQ(facts["ignored"], "");
  const std::string lines =
      read("../" + fs::relative(source_folder() / "cache/shipped/records.jsonl", folder_.parent_path()).string());
  EXPECT_EQ(facts["records"], std::ranges::count(lines, '\n'));
}

}  // namespace
}  // namespace tunesmith::cli
