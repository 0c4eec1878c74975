// tunesmith run on the host executor: what it reports, what it keeps, and how it fails.

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/api/cli/process.h"
#include "tests/support/source_folder.h"

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

TEST_F(CliTest, EveryDtypeRunsAndVerifies) {
  for (const std::vector<std::string>& dtypes :
       {std::vector<std::string>{"--dtype", "f32"}, {"--dtype", "f16"}, {"--dtype", "bf16", "--out-dtype", "f32"}}) {
    std::vector<std::string> arguments{"run", "softmax", "--device", "host", "--rows", "5", "--cols", "77"};
    arguments.insert(arguments.end(), dtypes.begin(), dtypes.end());
    const nlohmann::json report = run_json(arguments);
    EXPECT_EQ(report["verified"], true);
    EXPECT_EQ(report["problem"]["dtype"], dtypes[1]);
    EXPECT_EQ(report["checked_rows"], 5);
    EXPECT_EQ(report["total_rows"], 5);
    EXPECT_GT(report["max_error"], 0);
    EXPECT_LE(report["max_error"], report["allowed_error"]);
    EXPECT_EQ(report["device_kind"], "host");
    EXPECT_TRUE(report["time_us"].is_null());  // the host executor never claims a speed
    EXPECT_TRUE(report["gb_per_s"].is_null());
  }
}

TEST_F(CliTest, TheSecondProcessCompilesNothing) {
  const std::vector<std::string> arguments{"run", "softmax", "--device", "host", "--rows", "3", "--cols", "40"};
  const nlohmann::json first = run_json(arguments);
  EXPECT_EQ(first["compiled"], true);
  EXPECT_GT(first["compile_ms"], 0);
  EXPECT_EQ(first["origin"], "default");
  const nlohmann::json second = run_json(arguments);
  EXPECT_EQ(second["compiled"], false);
  EXPECT_EQ(second["config"], first["config"]);
  // Rows are no part of the source.
  EXPECT_EQ(run_json({"run", "softmax", "--device", "host", "--rows", "9", "--cols", "40"})["compiled"], false);
}

TEST_F(CliTest, TheTableHasTheFacts) {
  const Outcome outcome =
      run({"run", "softmax", "--device", "host", "--rows", "4", "--cols", "100", "--config", "variant=two_pass,threads=64"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char* text : {"operation  softmax", "problem    rows=4,cols=100,dtype=f32", "host executor",
                           "variant    two_pass", "threads=64", "origin     pinned", "compiled in",
                           "not measured: the host executor never claims a speed", "passed: max error", "against float64"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << " in:\n" << outcome.out;
  EXPECT_EQ(outcome.err, "");
}

// The arrays, of 4 PB here, are made after the device was found.
TEST_F(CliTest, AMissingDeviceIsReportedBeforeInputsAreMade) {
  expect_rejected({"run", "softmax", "--device", "cuda:99", "--rows", "1000000000", "--cols", "1000000"},
                  {has_gpu() ? "cuda:99" : "no CUDA driver was found"}, 1);
}

TEST_F(CliTest, NoRowsAreNoWork) {
  const nlohmann::json report = run_json({"run", "softmax", "--device", "host", "--rows", "0", "--cols", "8"});
  EXPECT_EQ(report["verified"], true);
  EXPECT_EQ(report["compiled"], false);
  EXPECT_EQ(report["total_rows"], 0);
  for (const char* op :
       {"softmax", "log_softmax_backward", "rms_norm", "cross_entropy_backward", "layer_norm", "layer_norm_gradient"}) {
    const nlohmann::json empty = run_json({"run", op, "--device", "host", "--rows", "3", "--cols", "0"});
    EXPECT_EQ(empty["verified"], true);
    EXPECT_EQ(empty["compiled"], false);
  }
}

TEST_F(CliTest, InPlaceAndSeeds) {
  const auto with_seed = [&](const char* seed, const char* file) {
    run_json({"run", "softmax", "--device", "host", "--rows", "4", "--cols", "33", "--in-place", "--seed", seed, "--output",
              "y=" + path(file)});
    return read(file);
  };
  const std::string first = with_seed("7", "a.npy");
  EXPECT_EQ(first, with_seed("7", "b.npy"));
  EXPECT_NE(first, with_seed("8", "c.npy"));
}

TEST_F(CliTest, AutoSaysWhenThereIsNoGpu) {
  if (has_gpu()) GTEST_SKIP() << "this machine has a GPU";
  const Outcome outcome = run({"run", "softmax", "--rows", "2", "--cols", "8"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("no GPU here; the host executor runs the same generated source"), std::string::npos);
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  expect_rejected({"run", "softmax", "--rows", "2", "--cols", "8", "--device", "cuda"}, {"cuda"}, 1);
  expect_rejected({"tune", "softmax", "--rows", "2", "--cols", "8"}, {"tuning needs a GPU", "--compile-only"}, 1);
}

TEST_F(CliTest, TuningOnTheHostExecutorIsRejected) {
  expect_rejected({"tune", "softmax", "--rows", "2", "--cols", "8", "--device", "host"},
                  {"tuning needs a GPU", "times of the host executor mean nothing"}, 1);
}

TEST_F(CliTest, AFolderThatCannotBeWrittenCostsPersistenceOnly) {
  if (geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  fs::create_directory(path("closed"));
  chmod(path("closed").c_str(), 0500);
  environment["TUNESMITH_CACHE"] = path("closed/cache.db");
  const Outcome outcome = run({"run", "softmax", "--device", "host", "--rows", "2", "--cols", "8", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["verified"], true);
  EXPECT_TRUE(outcome.err.starts_with("tunesmith: warning: ")) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  chmod(path("closed").c_str(), 0700);
  EXPECT_TRUE(fs::is_empty(path("closed")));
}

TEST_F(CliTest, ACachePathThroughAFileCostsPersistenceOnly) {  // fails for root too
  write("file", "");
  environment["TUNESMITH_CACHE"] = path("file/cache.db");
  const Outcome outcome = run({"run", "softmax", "--device", "host", "--rows", "2", "--cols", "8", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["verified"], true);
  EXPECT_TRUE(outcome.err.starts_with("tunesmith: warning: ")) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
}

TEST_F(CliTest, AGarbageCacheIsMovedAside) {
  const std::string garbage = "this is no database " + std::string(5000, 'x');
  write("cache.db", garbage);
  const std::vector<std::string> arguments{"run", "softmax", "--device", "host", "--rows", "2", "--cols", "8", "--json"};
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("tunesmith: warning: ")) << outcome.err;
  bool kept = false;
  for (const std::string& file : files()) kept = kept || (file != "cache.db" && read(file) == garbage);
  EXPECT_TRUE(kept);
  EXPECT_EQ(run({"cache", "verify"}).code, 0);
  const Outcome second = run(arguments);
  EXPECT_EQ(second.err, "");
  EXPECT_EQ(nlohmann::json::parse(second.out)["compiled"], false);
}

class BrokenTemplates : public CliTest {
 protected:
  BrokenTemplates() {
    for (const char* folder : {"device", "row", "softmax", "strided"})
      for (const fs::directory_entry& entry : fs::recursive_directory_iterator(source_folder() / "templates" / folder)) {
        const fs::path to = path("templates") / entry.path().lexically_relative(source_folder() / "templates");
        fs::create_directories(to.parent_path());
        if (entry.path().extension() == ".cuh") fs::copy(entry.path(), to);
      }
    for (const fs::directory_entry& entry : fs::directory_iterator(path("templates/softmax")))
      std::ofstream(entry.path(), std::ios::app) << "\nstatic_assert(sizeof(int) == 1, \"a broken kernel\");\n";
    environment["TUNESMITH_TEMPLATES"] = path("templates");
    fs::create_directory(path("dump"));
    environment["TUNESMITH_DUMP_DIR"] = path("dump");
  }

  void expect_compile_error(const std::vector<std::string>& arguments) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("tunesmith: error: ")) << outcome.err;
    EXPECT_NE(outcome.err.find("a broken kernel"), std::string::npos) << outcome.err;  // the log
    const std::size_t at = outcome.err.find("source: " + path("dump"));
    ASSERT_NE(at, std::string::npos) << outcome.err;
    const std::string file = outcome.err.substr(at + 8, outcome.err.find('\n', at) - at - 8);
    std::ifstream dumped(file);
    const std::string text((std::istreambuf_iterator<char>(dumped)), std::istreambuf_iterator<char>());
    EXPECT_NE(text.find("a broken kernel"), std::string::npos) << file;
  }
};

TEST_F(BrokenTemplates, TheHostCompilersLogIsShown) {
  expect_compile_error({"run", "softmax", "--device", "host", "--rows", "2", "--cols", "8"});
}

TEST_F(BrokenTemplates, NvrtcsLogIsShown) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  expect_compile_error({"source", "softmax", "--rows", "2", "--cols", "8", "--arch", "sm_80", "--ptx"});
}

}  // namespace
}  // namespace tunesmith::cli
