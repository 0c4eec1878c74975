// Flags of a problem: every field by its flag and by --option, and the forms of switches.

#include "api/cli/arguments/problem_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/cli/arguments/field_kind.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

Problem parsed(const Op& op, std::vector<std::string> arguments) {
  CLI::App app;
  ProblemFlags flags(op);
  flags.add_to(app);
  flags.add_memory_layout_to(app);
  std::ranges::reverse(arguments);
  app.parse(arguments);
  return flags.problem();
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

}  // namespace
}  // namespace tunesmith::cli
