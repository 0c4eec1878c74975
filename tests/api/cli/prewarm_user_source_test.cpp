// Prewarm specs with source code: score_mod and row programs in files of their own, gradients by name.

#include <regex>
#include <tuple>

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

// `tunesmith source` takes a program from a file; tuning needs a GPU, which the error says.
TEST_F(CliTest, SourceAndTuneTakeAProgram) {
  const std::string file = write("shift.row", "in x : float[row, col]\nmean m = x\nout y : float[row, col] = x - m\n");
  const Outcome source = run({"source", "row_program", "--program", file, "--rows", "8", "--cols", "128", "--dtype", "bf16",
                              "--arch", "sm_90a", "--kernel"});
  EXPECT_EQ(source.code, 0) << source.err;
  for (const char* part : {"struct Program {", "reads x:bf16[row, col]", "algorithm", "threads"})
    EXPECT_NE(source.out.find(part), std::string::npos) << part;
  const Outcome tune = run({"tune", "row_program", "--program", file, "--rows", "8", "--cols", "128", "--device", "host"});
  EXPECT_NE(tune.code, 0);
  EXPECT_NE(tune.err.find("tuning needs a GPU"), std::string::npos) << tune.err;
}

// The head of a kernel states the algorithm, in every family of the backward pass.
TEST_F(CliTest, HeadsOfBackwardKernelsExplainTheAlgorithm) {
  for (const auto& [arch, dtype, config, parts] :
       std::vector<std::tuple<const char*, const char*, const char*, std::vector<const char*>>>{
           {"sm_80", "f32", "variant=simt", {"attention_backward/simt.cuh"}},
           {"sm_80", "bf16", "variant=mma", {"attention_backward/mma.cuh", "FlashAttention-2"}},
           {"sm_90a", "bf16", "variant=wgmma", {"attention_backward/wgmma.cuh", "FlashAttention-3", "TMA"}}}) {
    const Outcome source = run({"source", "attention_backward", "--heads", "2", "--seq-q", "4096", "--head-dim", "128",
                                "--dtype", dtype, "--arch", arch, "--config", config});
    EXPECT_EQ(source.code, 0) << source.err;
    // In the opening comment: what is computed, in which order, by which threads.
    const std::string head = std::regex_replace(source.out.substr(0, source.out.find("#line")), std::regex("\n// +"), " ");
    for (const char* part :
         {"algorithm", "delta = rowsum(o * dout)", "P = exp(S - lse)", "dS = P * (dP - delta)", "threads"})
      EXPECT_NE(head.find(part), std::string::npos) << config << ": " << part << "\n" << head;
    for (const char* part : parts) EXPECT_NE(source.out.find(part), std::string::npos) << config << ": " << part;
  }
}

}  // namespace
}  // namespace tunesmith::cli
