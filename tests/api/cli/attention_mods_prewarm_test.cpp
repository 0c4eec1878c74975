// score_mod and mask_mod in a prewarm spec: files next to it, and errors that name key, place and file.

#include "api/cli/tuning/prewarm_spec.h"
#include "tests/api/cli/process.h"
#include "tests/templates/attention/mods.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

constexpr const char* wrong_in_line_2 =
    "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {\n  return q < unheard_of;\n}\n";

/// A folder with a spec, and user sources next to it and below.
class Texts : public CliTest {
 protected:
  Texts() {
    std::filesystem::create_directory(folder_ / "masks");
    write("masks/documents.cu", test::mod_example("document_mask"));
    write("window.cu", test::mod_example("dilated_window"));
    write("alibi.cu", test::mod_example("alibi"));
    write("wrong.cu", wrong_in_line_2);
  }

  /// A spec of one entry, of attention, with these keys.
  std::string spec(const std::string& keys) const {
    return write("spec.json", R"({"problems": [{"op": "attention", "seq_q": 64, "head_dim": 64, )" + keys + "}]}");
  }
  void expect_spec_rejected(const std::string& keys, const std::vector<std::string>& parts, int code = 2) const {
    std::vector<std::string> all{"'" + path("spec.json") + "': problems[0]"};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_rejected({"prewarm", "--spec", spec(keys), "--compile-only", "--arch", "sm_90a"}, all, code);
  }
};

TEST_F(Texts, AreFilesWhoseNamesAreRelativeToTheSpec) {
  const std::vector<SpecProblem> problems = read_spec(
      spec(R"("heads": 2, "mask_mod": ["masks/documents.cu", "window.cu"], "aux": ["window:i32=4", "window:i32=8"])"));
  ASSERT_EQ(problems.size(), 4U);
  const auto expected = [](const char* example, const char* aux) {
    return test::modified("heads=2,seq_q=64,head_dim=64", {{"mask_mod", test::mod_example(example)}, {"aux", aux}});
  };
  EXPECT_EQ(problems[0].problem, expected("document_mask", "window:i32=4"));
  EXPECT_EQ(problems[1].problem, expected("document_mask", "window:i32=8"));
  EXPECT_EQ(problems[3].problem, expected("dilated_window", "window:i32=8"));
  EXPECT_EQ(problems[1].sources, "problems[0].mask_mod[0] ('" + path("masks/documents.cu") + "')");
  const std::vector<SpecProblem> both =
      read_spec(spec(R"("score_mod": "alibi.cu", "mask_mod": ")" + path("window.cu") + "\""));
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0].sources,
            "problems[0].score_mod ('" + path("alibi.cu") + "'), problems[0].mask_mod ('" + path("window.cu") + "')");
}

TEST_F(Texts, AreCompiledAhead) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const std::vector<std::string> arguments{
      "prewarm", "--spec", spec(R"("mask_mod": ["masks/documents.cu", "window.cu"])"), "--compile-only", "--arch", "sm_80"};
  const nlohmann::json first = run_json(arguments);
  EXPECT_EQ(first["total"], 2);
  EXPECT_EQ(first["new"], 2);
  EXPECT_EQ(run_json(arguments)["already_there"], 2);
}

TEST_F(Texts, WhatCannotBeReadIsNamed) {
  expect_spec_rejected(R"("mask_mod": ["window.cu", "masks/none.cu"])",
                       {".mask_mod[1]: '" + path("masks/none.cu") + "' does not exist"}, 1);
  expect_spec_rejected(R"("mask_mod": "masks")", {".mask_mod: '" + path("masks") + "' is a folder"}, 1);
  expect_spec_rejected(R"("score_mod": 1)", {".score_mod is 1; expected the name of a file"});
  expect_spec_rejected(R"("score_mod": [""])", {".score_mod[0] is \"\"; expected the name of a file"});
}

TEST_F(Texts, WhatCannotBeATextIsNamedWithItsFile) {
  write("open.cu", "\n__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {\n");
  write("undeclared.cu", "// aux: table:f32[rows]\n" + std::string(wrong_in_line_2));
  expect_spec_rejected(R"("score_mod": "window.cu")",
                       {".score_mod ('" + path("window.cu") + "') holds no function score_mod; expected __device__ float"});
  expect_spec_rejected(R"("mask_mod": ["window.cu", "open.cu"])",
                       {".mask_mod[1] ('" + path("open.cu") + "'): mask_mod.cu:2: '{' is never closed"});
  expect_spec_rejected(R"("mask_mod": "undeclared.cu")",
                       {": aux declares table:f32[rows]", "'rows' is no length",
                        "; user sources: problems[0].mask_mod ('" + path("undeclared.cu") + "')"});
  expect_rejected(
      {"prewarm", "--spec",
       write("softmax.json", R"({"problems": [{"op": "softmax", "rows": 1, "cols": 8, "mask_mod": "wrong.cu"}]})"),
       "--compile-only", "--arch", "sm_90a"},
      {"problems[0].mask_mod is not a field of softmax"});
}

TEST_F(Texts, AMistakeInATextIsShownOnceForAllThatItMadeFail) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC on this machine";
  const Outcome outcome = run(
      {"prewarm", "--spec", spec(R"("mask_mod": ["window.cu", "wrong.cu"])"), "--compile-only", "--arch", "sm_80,sm_86"});
  EXPECT_EQ(outcome.code, 1);
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (std::size_t at = outcome.err.find(text); at != std::string::npos; at = outcome.err.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("tunesmith: failed: attention "), 2) << outcome.err;
  EXPECT_EQ(count(", with problems[0].mask_mod[1] ('" + path("wrong.cu") + "')\n"), 2) << outcome.err;
  EXPECT_EQ(count("tunesmith: error: "), 1) << outcome.err;
  EXPECT_EQ(count("in 'return q < unheard_of;'"), 1) << outcome.err;
  EXPECT_NE(outcome.out.find("2 of 4 (2 new"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace tunesmith::cli
