// prewarm specs: lists multiply, and every mistake is named with its place.

#include <gtest/gtest.h>

#include "api/cli/tuning/prewarm_spec.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

std::vector<Problem> problems_of(std::string_view text) {
  std::vector<Problem> problems;
  for (const SpecProblem& asked : parse_spec(text, "spec.json")) {
    EXPECT_EQ(asked.sources, "");
    problems.push_back(asked.problem);
  }
  return problems;
}

std::string error_of(std::string_view text) {
  try {
    parse_spec(text, "spec.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "no error";
}

TEST(Spec, ListsMultiply) {
  const std::vector<Problem> problems = problems_of(
      R"({"problems": [{"op": "softmax", "rows": 64, "cols": [1024, 32000], "dtype": ["bf16", "f32"]},
                       {"op": ["softmax"], "rows": [1, 2], "cols": 7, "in_place": true}]})");
  ASSERT_EQ(problems.size(), 6u);
  EXPECT_EQ(problems[0].fields.string("dtype"), "bf16");
  EXPECT_EQ(problems[1].fields.string("dtype"), "f32");
  EXPECT_EQ(problems[1].fields.integer("cols"), 1024);
  EXPECT_EQ(problems[2].fields.integer("cols"), 32000);
  EXPECT_EQ(problems[4].fields.integer("in_place"), 1);
  EXPECT_EQ(problems[5].fields.integer("rows"), 2);
  EXPECT_EQ(problems[0].fields.integer("x_row_stride"), 1024);  // normalized
}

TEST(Spec, OptionsAreKeysLikeAnyOther) {
  const std::vector<Problem> problems = problems_of(
      R"({"problems": [{"op": ["softmax", "log_softmax"], "rows": 64, "cols": 128, "scale": [1, 0.125, 2], "causal": true,
                        "mask": ["none", "keep"]},
                       {"op": "softmax_backward", "rows": 64, "cols": 128, "safe": 1}]})");
  ASSERT_EQ(problems.size(), 13u);
  EXPECT_FALSE(problems[0].fields.contains("scale"));  // normalized: a scale of 1 is none
  EXPECT_EQ(problems[2].fields.real("scale"), 0.125);
  EXPECT_EQ(problems[4].fields.real("scale"), 2.0);
  EXPECT_EQ(problems[4].fields.integer("causal"), 1);
  EXPECT_FALSE(problems[2].fields.contains("mask"));
  EXPECT_EQ(problems[3].fields.string("mask"), "keep");
  EXPECT_EQ(problems[6].op, "log_softmax");
  EXPECT_EQ(problems[12].fields.integer("safe"), 1);
  EXPECT_EQ(problems_of(R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8, "scale": [2, 2.0]}]})").size(), 1u);
}

TEST(Spec, AKeyIsWhatItIsOfItsOperation) {
  // causal is 0 or 1 of softmax and a word of attention; scale an option there and a flag here.
  const std::vector<Problem> problems = problems_of(
      R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8, "causal": [0, 1], "scale": 2},
                       {"op": "attention", "seq_q": [1, 512], "seq_kv": 512, "heads": 8, "kv_heads": [1, 8], "head_dim": 64,
                        "causal": ["none", "bottom-right"], "scale": 0.5, "varlen": true, "total_q": 1, "total_kv": 512}]})");
  ASSERT_EQ(problems.size(), 10u);
  EXPECT_EQ(problems[1].fields.integer("causal"), 1);
  EXPECT_FALSE(problems[2].fields.contains("causal"));
  EXPECT_EQ(problems[3].fields.string("causal"), "bottom-right");
  EXPECT_EQ(problems[3].fields.integer("seq_q"), 1);
  EXPECT_EQ(problems[3].fields.real("scale"), 0.5);
  EXPECT_EQ(problems[9].fields.integer("kv_heads"), 8);
  EXPECT_EQ(problems[9].fields.integer("total_q"), 1);
}

TEST(Spec, TheSameProblemCountsOnce) {
  EXPECT_EQ(problems_of(R"({"problems": [{"op": "softmax", "rows": [4, 4], "cols": 8},
                                         {"op": "softmax", "rows": 4, "cols": 8, "dtype": "f32"}]})")
                .size(),
            1u);
}

TEST(Spec, NamesTheMistakeAndItsPlace) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"{", {"not JSON", "line 1"}},
      {"[]", {"expected an object"}},
      {"{}", {"\"problems\" is missing"}},
      {R"({"problems": []})", {"\"problems\" is an empty list; expected {"}},
      {R"({"problems": {}})", {"\"problems\" is not a list; expected {"}},
      {R"({"problems": [1], "extra": 1})", {"unknown key 'extra' at the top; allowed: problems"}},
      {R"({"problem": []})", {"unknown key 'problem' at the top; did you mean 'problems'? Allowed: problems"}},
      {R"({"problems": [1]})", {"problems[0] is 1"}},
      {R"({"problems": [{"rows": 4, "cols": 8}]})", {"problems[0] has no \"op\""}},
      {R"({"problems": [{"op": "sofmax", "rows": 4, "cols": 8}]})", {"problems[0].op", "sofmax", "softmax"}},
      {R"({"problems": [{"op": "softmax", "rows": 4}]})", {"problems[0]", "cols is missing"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8}, {"op": "softmax", "rows": 4, "colz": 8}]})",
       {"problems[1].colz", "did you mean 'cols'? Allowed: op, rows"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8, "bananas": 1}]})",
       {"problems[0].bananas is not a field of softmax; allowed: op, rows"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": [8, -1]}]})", {"problems[0].cols[1] is -1", "allowed: 0 to"}},
      {R"({"problems": [{"op": "softmax", "rows": -1, "cols": 8}]})", {"problems[0].rows is -1"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": "8"}]})", {"problems[0].cols is '8'", "expected an integer"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8.5}]})", {"problems[0].cols is '8.5'"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": []}]})", {"problems[0].cols is an empty list"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": null}]})", {"problems[0].cols is null"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": [[8]]}]})", {"problems[0].cols[0] is [8]"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": 18446744073709551615}]})", {"problems[0].cols", "64 bits"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8, "dtype": ["f32", "f128"]}]})",
       {"problems[0].dtype[1] is 'f128'", "bf16"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8, "scale": [1, -0.5]}]})",
       {"problems[0].scale[1] is -0.5", "allowed: 1e-30 to 1e+30"}},
      {R"({"problems": [{"op": "softmax_backward", "rows": 4, "cols": 8, "mask": "add"}]})", {"problems[0].mask is 'add'"}},
      {R"({"problems": [{"op": "attention", "seq_q": 4}]})", {"problems[0]: head_dim is missing"}},
      {R"({"problems": [{"op": "attention", "seq_q": 4, "head_dim": 8, "causal": true}]})",
       {"problems[0].causal is 1", "expected a string"}},
      {R"({"problems": [{"op": "attention", "seq_q": 4, "head_dim": 8, "heads": 8, "kv_heads": [2, 3]}]})",
       {"problems[0].heads is 8 and kv_heads is 3"}},
      {R"({"problems": [{"op": "softmax", "rows": 4, "cols": 8, "cols": 9}]})", {"'cols' appears twice"}},
  };
  for (const auto& [text, parts] : cases) {
    const std::string message = error_of(text);
    EXPECT_TRUE(message.starts_with("'spec.json': ")) << message;
    for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
}

TEST(ProblemLog, AddsCountsUpAndSortsByThem) {
  const std::vector<Problem> problems = problems_of(R"({"op": "softmax", "rows": 4, "cols": 8, "count": 1}
{"op": "softmax", "rows": 4, "cols": 9, "count": 3}
{"op": "softmax", "rows": 4, "cols": 10, "count": 1}

{"op": "softmax", "rows": 4, "cols": 10, "count": 4}
{"op": "softmax", "ro)");
  ASSERT_EQ(problems.size(), 3u) << "the last line was cut off";
  EXPECT_EQ(problems[0].fields.integer("cols"), 10);
  EXPECT_EQ(problems[1].fields.integer("cols"), 9);
  EXPECT_EQ(problems[2].fields.integer("cols"), 8);
}

TEST(ProblemLog, HasUserFunctionsInPlace) {
  const std::vector<Problem> problems = problems_of(
      R"({"op": "attention", "seq_q": 4, "head_dim": 64, "mask_mod": "__device__ bool mask_mod(int b, int h, int q, int k, const Aux& aux) {\n  return k <= q;\n}\n", "count": 2})");
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].fields.string("mask_mod").find("return k <= q;"), std::string::npos);
}

TEST(ProblemLog, NamesTheLineOfAMistake) {
  const std::string good = R"({"op": "softmax", "rows": 4, "cols": 8, "count": 1})"
                           "\n";
  EXPECT_NE(
      error_of(good + "{\"op\": \"softmax\", \"rows\": 0, \"cols\": 8, \"count\": 1, \"dtype\": \"f128\"}\n").find("line 2"),
      std::string::npos);
  EXPECT_NE(error_of(good + "nonsense\n").find("line 2"), std::string::npos);
  EXPECT_NE(error_of(good + "{\"op\": \"softmax\", \"rows\": 4, \"cols\": 8, \"count\": \"x\"}\n").find("line 2.count"),
            std::string::npos);
}

}  // namespace
}  // namespace tunesmith::cli
