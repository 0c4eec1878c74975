// tunesmith prewarm --compile-only: a cache made on a machine without a GPU.

#include <chrono>
#include <csignal>
#include <thread>

#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

constexpr const char* four_problems =
    R"({"problems": [{"op": "softmax", "rows": [8, 16], "cols": [100, 1000], "dtype": ["f32", "bf16"]}]})";

TEST_F(CliTest, CompilesEachSourceOncePerArchitecture) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::vector<std::string> arguments{"prewarm",        "--spec", write("spec.json", four_problems),
                                           "--compile-only", "--arch", "sm_80,sm_90a,sm_80",
                                           "--jobs",         "2"};
  const nlohmann::json first = run_json(arguments);
  EXPECT_EQ(first["problems"], 8);
  // Rows are no part of a source: a kernel for each of 4 widths and dtypes, and for its bucket, on 2 architectures.
  EXPECT_EQ(first["total"], 16);
  EXPECT_EQ(first["done"], 16);
  EXPECT_EQ(first["new"], 16);
  EXPECT_TRUE(first["failed"].empty());
  const nlohmann::json second = run_json(arguments);
  EXPECT_EQ(second["new"], 0);
  EXPECT_EQ(second["already_there"], 16);
  EXPECT_EQ(run_json({"cache", "info"})["binaries"], 16);
  std::vector<std::string> exact = arguments;
  exact.insert(exact.end(), {"--specialize", "exact"});
  EXPECT_EQ(run_json(exact)["already_there"], 8);
  EXPECT_EQ(run({"cache", "verify"}).code, 0);
}

TEST_F(CliTest, AllConfigsCompilesTheSearchSpace) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string spec = write("spec.json", R"({"problems": [{"op": "softmax", "rows": 8, "cols": 64}]})");
  const nlohmann::json result =
      run_json({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a", "--all-configs", "--effort", "quick"});
  EXPECT_GT(result["total"], 3);
  EXPECT_EQ(result["done"], result["total"]);
}

TEST_F(CliTest, PrewarmReadsWhatAProgramAskedFor) {
  environment["TUNESMITH_PROBLEM_LOG"] = path("problems.jsonl");
  for (const char* cols : {"64", "96", "64"})
    EXPECT_EQ(run({"source", "softmax", "--rows", "8", "--cols", cols}).code, 0) << "prepares nothing";
  EXPECT_EQ(files(), (std::vector<std::string>{}));
  for (const char* cols : {"64", "96", "64"})
    EXPECT_EQ(run({"run", "softmax", "--rows", "8", "--cols", cols, "--device", "host"}).code, 0);
  environment.erase("TUNESMITH_PROBLEM_LOG");
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const nlohmann::json result =
      run_json({"prewarm", "--spec", path("problems.jsonl"), "--compile-only", "--arch", "sm_90a", "--specialize", "exact"});
  EXPECT_EQ(result["problems"], 2);
  EXPECT_EQ(result["done"], 2);
}

TEST_F(CliTest, PrewarmRejectsWhatItCannotDo) {
  const std::string spec = write("spec.json", four_problems);
  expect_rejected({"prewarm"}, {"--spec is required"});
  expect_rejected({"prewarm", "--spec", path("none.json"), "--compile-only"}, {path("none.json"), "does not exist"}, 1);
  expect_rejected({"prewarm", "--spec", folder_.string(), "--compile-only"}, {"--spec: '", "' is a folder"}, 1);
  expect_rejected({"prewarm", "--spec", write("empty.json", ""), "--compile-only"}, {path("empty.json"), "is empty"}, 1);
  expect_rejected(
      {"prewarm", "--spec", write("bad.json", R"({"problems": [{"op": "softmax", "rows": 1, "cols": [4, -4]}]})"),
       "--compile-only", "--arch", "sm_90a"},
      {path("bad.json"), "problems[0].cols[1] is -4"});
  expect_rejected({"prewarm", "--spec", spec, "--arch", "sm_90a"}, {"--arch", "--compile-only"});
  expect_rejected({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a,,sm_80"}, {"sm_90a"});
  expect_rejected({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a", "--jobs", "-1"}, {"--jobs"});
  if (!has_gpu()) {
    expect_rejected({"prewarm", "--spec", spec, "--compile-only"}, {"--arch is missing", "sm_90a"});
    expect_rejected({"prewarm", "--spec", spec}, {"tuning needs a GPU", "--compile-only"}, 1);
  }
  if (has_nvrtc()) expect_rejected({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_30"}, {"sm_30", "sm_90a"}, 1);
  EXPECT_EQ(files(), (std::vector<std::string>{"bad.json", "empty.json", "spec.json"}));
}

TEST_F(CliTest, ACacheThatKeepsNothingIsAnErrorHere) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::string spec = write("spec.json", R"({"problems": [{"op": "softmax", "rows": 8, "cols": 64}]})");
  write("file", "");
  const Outcome outcome =
      run({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a", "--cache", path("file/cache.db")});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.err.find("nothing was kept"), std::string::npos) << outcome.err;
  environment["TUNESMITH_CACHE"] = "";
  expect_rejected({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a"}, {"no cache file", "--cache FILE"});
}

TEST_F(CliTest, CtrlCLeavesAValidCache) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  std::string cols;
  for (int i = 1; i <= 400; ++i) cols += (i == 1 ? "" : ",") + std::to_string(i * 8);
  const std::string spec = write("spec.json", R"({"problems": [{"op": "softmax", "rows": 8, "cols": [)" + cols + "]}]}");
  const int process = start({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a"});
  for (int i = 0; i < 600 && !std::filesystem::exists(cache_file()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  kill(process, SIGINT);
  const Outcome outcome = wait_for(process);
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_NE(outcome.err.find("interrupted"), std::string::npos) << outcome.err;
  const nlohmann::json verified = run_json({"cache", "verify"});
  EXPECT_EQ(verified["healthy"], true);
  EXPECT_LT(run_json({"cache", "info"})["binaries"], 400);
}

}  // namespace
}  // namespace tunesmith::cli
