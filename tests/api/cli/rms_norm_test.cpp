// tunesmith run rms_norm and its help, which derive from the description.

#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

TEST_F(CliTest, RmsNormRunsAndVerifies) {
  const nlohmann::json plain = run_json({"run", "rms_norm", "--device", "host", "--rows", "8", "--cols", "1024"});
  EXPECT_EQ(plain["verified"], true);
  EXPECT_EQ(plain["checked_rows"], 8);
  const nlohmann::json weighted =
      run_json({"run", "rms_norm", "--device", "host", "--rows", "5", "--cols", "77", "--dtype", "bf16", "--weight",
                "--weight-dtype", "f32", "--weight-offset", "1", "--eps", "1e-5", "--output", "rstd=" + path("rstd.npy")});
  EXPECT_EQ(weighted["verified"], true);
  EXPECT_EQ(weighted["problem"]["weight_dtype"], "f32");
  EXPECT_EQ(weighted["problem"]["rstd"], 1);  // the output switches it on
  EXPECT_EQ(read("rstd.npy").size() % 64, 5 * 4U);
  expect_rejected({"run", "rms_norm", "--rows", "5", "--cols", "77", "--weight-offset", "1"}, {"weight_offset", "weight=1"});
}

TEST_F(CliTest, RmsNormHasItsOwnHelp) {
  const Outcome help = run({"run", "rms_norm", "--help"});
  EXPECT_EQ(help.code, 0) << help.err;
  for (const char* flag : {"--rows", "--cols", "--out-dtype", "--eps", "--weight ", "--weight-dtype", "--weight-offset",
                           "--rstd", "--in-place", "--x-row-stride"})
    EXPECT_NE(help.out.find(flag), std::string::npos) << flag << " in:\n" << help.out;
  for (const char* flag : {"--causal", "--label-smoothing"}) EXPECT_EQ(help.out.find(flag), std::string::npos) << flag;
}

}  // namespace
}  // namespace tunesmith::cli
