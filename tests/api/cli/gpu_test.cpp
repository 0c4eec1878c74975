// The command line on a GPU: the first process tunes, the next ones do not.

#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

class CliGpuTest : public CliTest {
 protected:
  void SetUp() override {
    if (!has_gpu() || !has_nvrtc()) GTEST_SKIP() << "needs a GPU and NVRTC";
  }
};

TEST_F(CliGpuTest, TheFirstRunTunesAndTheSecondLoads) {
  const std::vector<std::string> arguments{"run", "softmax", "--rows", "512", "--cols", "1000", "--dtype", "bf16"};
  const nlohmann::json first = run_json(arguments);
  EXPECT_EQ(first["origin"], "tuned");
  EXPECT_EQ(first["verified"], true);
  EXPECT_GT(first["tuning"]["timed"], 0);
  EXPECT_GT(first["time_us"], 0);
  EXPECT_GT(first["share_of_copy"], 0);
  const nlohmann::json second = run_json(arguments);
  EXPECT_EQ(second["origin"], "exact");
  EXPECT_EQ(second["compiled"], false);
  EXPECT_TRUE(second["tuning"].is_null());
  EXPECT_EQ(second["config"], first["config"]);
  EXPECT_EQ(run_json({"cache", "list"})["records"].size(), 1u);
  EXPECT_EQ(run_json({"cache", "verify"})["healthy"], true);
}

TEST_F(CliGpuTest, CheckOnlyMeasuresNothing) {
  const nlohmann::json result =
      run_json({"run", "softmax", "--rows", "64", "--cols", "777", "--mode", "off", "--check-only"});
  EXPECT_EQ(result["verified"], true) << result;
  EXPECT_TRUE(result["time_us"].is_null()) << result;
}

/// So that no candidate is left over for a second call, however busy the machine is.
constexpr const char* long_budget = "120s";

TEST_F(CliGpuTest, TuneKeepsItsTrials) {
  const std::vector<std::string> arguments{"tune", "softmax",  "--rows", "256",      "--cols",
                                           "777",  "--effort", "quick",  "--budget", long_budget};
  const nlohmann::json result = run_json(arguments);
  EXPECT_EQ(result["measured"], true);
  EXPECT_GE(result["speedup_over_default"], 0.97);  // the default competes, within the noise
  EXPECT_EQ(run_json({"cache", "show", "1"})["trials"].size(), result["trials"].size());
  EXPECT_EQ(run_json(arguments)["measured"], false);
  std::vector<std::string> again = arguments;
  again.emplace_back("--force");
  EXPECT_EQ(run_json(again)["measured"], true);
  const Outcome table = run(arguments);
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_NE(table.out.find("winner"), std::string::npos) << table.out;
}

TEST_F(CliGpuTest, TuneMeasuresAProgramOnceAndRunUsesTheRecord) {
  const std::string file = write("norm.row",
                                 "in x, r : float[row, col]\n"
                                 "num eps : f32 = 1e-5\n"
                                 "h = x + r\n"
                                 "mean ms = h * h\n"
                                 "out y : float[row, col] = h * rsqrt(ms + eps)\n");
  const std::vector<std::string> problem{"row_program", "--program", file,      "--rows", "256",
                                         "--cols",      "2048",      "--dtype", "bf16"};
  const auto command = [&](std::vector<std::string> arguments, const std::vector<std::string>& more = {}) {
    arguments.insert(arguments.end(), problem.begin(), problem.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments);
  };
  const std::vector<std::string> quick{"--effort", "quick", "--budget", long_budget};
  const nlohmann::json result = command({"tune"}, quick);
  EXPECT_EQ(result["measured"], true);
  EXPECT_GE(result["speedup_over_default"], 0.97);  // the default competes, within the noise
  EXPECT_EQ(command({"tune"}, quick)["measured"], false);
  const nlohmann::json found = command({"run"}, {"--numbers", "eps=0.5", "--mode", "replay"});
  EXPECT_EQ(found["origin"], "exact") << "numbers are parameters of the launch";
  EXPECT_EQ(found["verified"], true);
}

TEST_F(CliGpuTest, PrewarmTunesForReplay) {
  const std::string spec =
      write("spec.json", R"({"problems": [{"op": "softmax", "rows": 256, "cols": [512, 600], "dtype": "f16"}]})");
  const nlohmann::json result = run_json({"prewarm", "--spec", spec, "--effort", "quick", "--budget", "20s"});
  EXPECT_EQ(result["done"], 2);
  EXPECT_EQ(result["new"], 2);
  EXPECT_EQ(run_json({"run", "softmax", "--rows", "256", "--cols", "600", "--dtype", "f16", "--mode", "replay"})["origin"],
            "exact");
  EXPECT_EQ(run_json({"run", "softmax", "--rows", "256", "--cols", "610", "--dtype", "f16", "--mode", "replay", "--option",
                      "x_row_stride=616", "--option", "y_row_stride=616"})["origin"],
            "nearest");
}

}  // namespace
}  // namespace tunesmith::cli
