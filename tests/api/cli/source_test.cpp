// tunesmith source.

#include <regex>
#include <tuple>

#include "templates/render.h"
#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

TEST_F(CliTest, SourceIsTheRenderedTextAndNothingElse) {
  const Outcome outcome = run({"source", "softmax", "--rows", "4096", "--cols", "32000", "--dtype", "bf16", "--arch",
                               "sm_90a", "--config", "variant=two_pass,threads=512"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Op& op = find_op("softmax");
  const Problem problem = op.normalize({"softmax", parse_fields("rows=4096,cols=32000,dtype=bf16", "problem")});
  const Config config = op.parse(problem)->complete_config(generic_device({9, 0, 'a'}),
                                                           {parse_fields("variant=two_pass,threads=512", "config")});
  EXPECT_EQ(outcome.out, render(*op.parse(problem), config));
  EXPECT_TRUE(files().empty());  // looking writes nothing
}

TEST_F(CliTest, SourceOfTheKernelForABucketOfWidths) {
  const auto source_of = [&](const char* cols) {
    const Outcome outcome =
        run({"source", "softmax", "--rows", "4096", "--cols", cols, "--arch", "sm_90a", "--specialize", "capacity"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string source = source_of("1100");
  EXPECT_NE(source.find(".min_cols = 1028"), std::string::npos) << source;  // of the next whole vector
  EXPECT_EQ(source_of("1536"), source);
  EXPECT_NE(source_of("1540"), source);
  expect_rejected({"source", "softmax", "--rows", "4", "--cols", "8", "--specialize", "both"},
                  {"specialize", "both", "exact"});
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

TEST_F(CliTest, PtxAndResourcesNeedNoGpu) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::vector<std::string> problem{"source", "softmax", "--rows", "64", "--cols", "1000", "--arch", "sm_80"};
  std::vector<std::string> arguments = problem;
  arguments.emplace_back("--ptx");
  const Outcome ptx = run(arguments);
  EXPECT_EQ(ptx.code, 0) << ptx.err;
  EXPECT_NE(ptx.out.find(".target sm_80"), std::string::npos);
  EXPECT_NE(ptx.out.find(".entry softmax"), std::string::npos);
  arguments.back() = "--resources";
  const Outcome resources = run(arguments);
  EXPECT_EQ(resources.code, 0) << resources.err;
  for (const char* text : {"generic sm_80", "registers", "spill stores", "occupancy", "softmax"})
    EXPECT_NE(resources.out.find(text), std::string::npos) << text << " in:\n" << resources.out;
}

TEST_F(CliTest, AnArchitectureThatNvrtcDoesNotKnow) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  expect_rejected({"source", "softmax", "--rows", "4", "--cols", "8", "--arch", "sm_30", "--ptx"}, {"sm_30"}, 1);
}

TEST_F(CliTest, AnNvrtcThatCannotBeOpened) {
  write("libnvrtc.so.13", "not a library");
  environment["TUNESMITH_CUDA"] = folder_.string();
  const Outcome outcome = run({"source", "softmax", "--rows", "4", "--cols", "8", "--arch", "sm_90a", "--ptx"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("tunesmith: error: ")) << outcome.err;
  EXPECT_NE(outcome.err.find(path("libnvrtc.so.13")), std::string::npos) << outcome.err;
  const nlohmann::json report = run_json({"doctor"});
  EXPECT_EQ(report["nvrtc"]["found"], false);
  EXPECT_NE(report["nvrtc"]["error"].get<std::string>().find("libnvrtc"), std::string::npos);
  // What needs no compiler works all the same.
  EXPECT_EQ(run({"source", "softmax", "--rows", "4", "--cols", "8", "--arch", "sm_90a"}).code, 0);
}

}  // namespace
}  // namespace tunesmith::cli
