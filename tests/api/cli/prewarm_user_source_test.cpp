// Prewarm specs with source code: score_mod and row programs in files of their own, gradients by name.

#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

TEST_F(CliTest, PrewarmCompilesGradientsOfAttentionAndRowPrograms) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  write("bias.cu",
        "// aux: bias:f32[heads]\n"
        "__device__ float score_mod(float score, int, int h, int, int, const Aux& aux) { return score + aux.bias[h]; }\n");
  write("shift.row", "in x : float[row, col]\nmean m = x\nout y : float[row, col] = x - m\n");
  const std::string spec = write("spec.json", R"({"problems": [
    {"op": "attention_backward", "heads": 4, "kv_heads": 2, "seq_q": 64, "head_dim": 64, "deterministic": [0, 1]},
    {"op": "attention_backward", "heads": 2, "seq_q": 64, "head_dim": 32, "dtype": "f32", "score_mod": "bias.cu",
     "daux": "bias"},
    {"op": "row_program", "program": "shift.row", "rows": 8, "cols": [128, 256]},
    {"op": ["layer_norm", "layer_norm_gradient"], "rows": 8, "cols": 128}]})");
  const nlohmann::json result =
      run_json({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a", "--specialize", "exact"});
  EXPECT_EQ(result["problems"], 7);
  EXPECT_EQ(result["done"], result["total"]);
  EXPECT_EQ(result["total"], 7);
  EXPECT_TRUE(result["failed"].empty()) << result["failed"];
}

// A mistake in the file is named with its line.
TEST_F(CliTest, PrewarmNamesTheMistakeInAProgram) {
  write("bad.row", "in x : float[row, col]\nout y : float[row, col] = sqr(x)\n");
  const std::string spec =
      write("spec.json", R"({"problems": [{"op": "row_program", "program": "bad.row", "rows": 8, "cols": 128}]})");
  const Outcome outcome = run({"prewarm", "--spec", spec, "--compile-only", "--arch", "sm_90a"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("2:27: 'sqr' is not defined"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace tunesmith::cli
