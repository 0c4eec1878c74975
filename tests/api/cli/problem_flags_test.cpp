// Flags of a problem: every field by its flag and by --option, and the forms of switches.

#include "api/cli/arguments/problem_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/cli/arguments/field_kind.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

template <typename Result>
Result parsed_as(const Op& op, std::vector<std::string> arguments, Result (ProblemFlags::*result)() const) {
  CLI::App app;
  ProblemFlags flags(op);
  flags.add_to(app);
  flags.add_memory_layout_to(app);
  std::ranges::reverse(arguments);
  app.parse(arguments);
  return (flags.*result)();
}

Problem parsed(const Op& op, std::vector<std::string> arguments) {
  return parsed_as(op, std::move(arguments), &ProblemFlags::problem);
}

std::vector<Problem> parsed_lists(const Op& op, std::vector<std::string> arguments) {
  return parsed_as(op, std::move(arguments), &ProblemFlags::problems);
}

/// The message of the error, or "accepted".
std::string rejection(const Op& op, std::vector<std::string> arguments) {
  try {
    parsed_lists(op, std::move(arguments));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string a_value_of(const FieldInfo& field) {
  switch (kind_of(field)) {
    case FieldKind::choice: return std::string(field.choices.back());
    case FieldKind::toggle: return "1";
    case FieldKind::number: return "16";
    case FieldKind::file:
    case FieldKind::free_text: return "slopes:f32[heads]";
  }
  return "";
}

TEST(ProblemFlags, SetEveryFieldLikeOptions) {
  int fields = 0;
  for (const Op* op : all_ops())
    for (const FieldInfo& field : op->problem_fields()) {
      SCOPED_TRACE(std::string(op->name()) + " " + std::string(field.name));
      const std::string value = a_value_of(field);
      const Problem by_option = parsed(*op, {"--option", std::string(field.name) + "=" + value});
      ASSERT_TRUE(by_option.fields.contains(field.name));
      EXPECT_EQ(text(*by_option.fields.find(field.name)), value);
      if (kind_of(field) == FieldKind::file) continue;  // the flag reads a file
      EXPECT_EQ(parsed(*op, {flag_of(field.name), value}), by_option);
      EXPECT_EQ(parsed(*op, {flag_of(field.name) + "=" + value}), by_option);
      if (kind_of(field) == FieldKind::toggle) {
        EXPECT_EQ(parsed(*op, {flag_of(field.name)}), by_option);
      }
      ++fields;
    }
  EXPECT_GT(fields, 150);
}

TEST(ProblemFlags, SwitchesTakeZeroAndOne) {
  const Op& op = find_op("softmax");
  const auto causal = [&](std::vector<std::string> arguments) { return parsed(op, std::move(arguments)).fields; };
  EXPECT_EQ(causal({"--causal", "--safe"}), (Fields{{"causal", 1}, {"safe", 1}}));
  EXPECT_EQ(causal({"--causal=0"}), (Fields{{"causal", 0}}));
  EXPECT_EQ(causal({"--causal", "0"}), (Fields{{"causal", 0}}));
  EXPECT_EQ(causal({}), Fields());
}

TEST(ProblemFlags, CausalAloneIsBottomRightForAttention) {
  const Op& op = find_op("attention");
  EXPECT_EQ(parsed(op, {"--causal", "--heads", "4"}).fields.string("causal"), "bottom-right");
  EXPECT_EQ(parsed(op, {"--causal=top-left"}).fields.string("causal"), "top-left");
  EXPECT_EQ(parsed(op, {"--causal", "none"}).fields.string("causal"), "none");
}

TEST(ProblemFlags, RejectFieldsThatAreGivenTwice) {
  const Op& op = find_op("softmax");
  EXPECT_THROW(parsed(op, {"--rows", "4", "--option", "rows=4"}), Error);
  EXPECT_THROW(parsed(op, {"--option", "rows=4", "--option", "rows=4"}), Error);
  EXPECT_THROW(parsed(op, {"--rows", "4", "--rows", "5"}), CLI::ParseError);
}

TEST(ProblemFlags, ListsMultiply) {
  const Op& op = find_op("softmax");
  const std::vector<Problem> problems =
      parsed_lists(op, {"--cols", "1000,2000,1000", "--rows=64", "--option", "dtype=f32,bf16", "--causal", "0,1"});
  std::vector<Problem> expected;
  for (const char* dtype : {"f32", "bf16"})
    for (const std::int64_t cols : {1000, 2000})
      for (const std::int64_t causal : {0, 1})
        expected.push_back(op.normalize({"softmax", {{"rows", 64}, {"cols", cols}, {"dtype", dtype}, {"causal", causal}}}));
  ASSERT_EQ(problems.size(), expected.size()) << "each problem is listed once";
  for (const Problem& problem : expected) EXPECT_EQ(std::ranges::count(problems, problem), 1) << problem.text();
  EXPECT_EQ(parsed_lists(op, {"--rows", "4", "--cols", "8"}),
            (std::vector{op.normalize({"softmax", {{"rows", 4}, {"cols", 8}}})}));
}

TEST(ProblemFlags, CommasOfOtherFieldsSeparateNothing) {
  const Op& op = find_op("attention");
  const std::string aux = "slopes:f32[heads];depth:i32=64";
  const std::vector<Problem> problems = parsed_lists(
      op,
      {"--heads", "4,8", "--seq-q", "64", "--head-dim", "64", "--aux", aux, "--option",
       "score_mod=__device__ float score_mod(float score, int b, int h, int q, int k, const Aux& aux) { return score; }"});
  ASSERT_EQ(problems.size(), 2u);
  for (const Problem& problem : problems)
    EXPECT_NE(problem.fields.string("score_mod").find("score, int b, int h"), std::string::npos);
}

TEST(ProblemFlags, RejectListsWithValuesThatAreNone) {
  const Op& op = find_op("softmax");
  const auto cols = [&](const std::string& list) { return rejection(op, {"--rows", "4", "--cols", list}); };
  for (const char* list : {"8,", ",8", "8,,9", ","})
    EXPECT_EQ(cols(list), "cols is '" + std::string(list) + "', a list with an empty value; expected e.g. 8,16");
  EXPECT_NE(cols("8,x").find("cols is 'x'"), std::string::npos) << cols("8,x");
  EXPECT_NE(cols("8,-1").find("cols is -1"), std::string::npos) << cols("8,-1");
  EXPECT_NE(rejection(op, {"--rows", "4", "--cols", "8", "--dtype", "f32,bf17"}).find("dtype is 'bf17'"), std::string::npos);
  EXPECT_THROW(parsed(op, {"--rows", "4", "--cols", "8", "--dtype", "f32,bf16"}), Error) << "problem() takes no lists";
  std::string many = "1";
  for (int i = 2; i <= 101; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(rejection(op, {"--rows", many, "--cols", many}), "the lists make more than 10000 problems");
}

}  // namespace
}  // namespace tunesmith::cli
