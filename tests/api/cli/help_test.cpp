// Help pages, flags and lists, which all follow from the operations' tables.

#include <algorithm>

#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/problem_flags.h"
#include "templates/op.h"
#include "tests/api/cli/process.h"

namespace tunesmith::cli {
namespace {

constexpr std::ptrdiff_t max_lines = 84;  // about two screens
constexpr std::size_t max_columns = 110;

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    widest = std::max(widest, end - at);
    at = end + 1;
  }
  return widest;
}

std::vector<const Op*> public_ops() {
  std::vector<const Op*> ops;
  for (const Op* op : all_ops())
    if (!op->is_internal()) ops.push_back(op);
  return ops;
}

/// A field's flag at the start of an entry of a help page: "  --rows N", "  --{q,k}-alignment N".
bool lists(const std::string& help, std::string_view field) {
  const std::string flag = flag_of(field);
  if (help.find("  " + flag) != std::string::npos) return true;
  const std::size_t dash = flag.find('-', 2);
  if (dash == std::string::npos) return false;
  const std::string array = flag.substr(2, dash - 2);
  for (std::size_t at = help.find("  --{"); at != std::string::npos; at = help.find("  --{", at + 1)) {
    const std::size_t close = help.find('}', at);
    const std::string arrays = "," + help.substr(at + 5, close - at - 5) + ",";
    if (arrays.find("," + array + ",") != std::string::npos && help.compare(close + 1, flag.size() - dash, flag, dash) == 0)
      return true;
  }
  return false;
}

TEST_F(CliTest, EveryPageFitsAndSucceeds) {
  std::vector<std::vector<std::string>> pages{{},        {"run"},           {"source"}, {"tune"},  {"prewarm"},
                                              {"cache"}, {"cache", "show"}, {"ops"},    {"doctor"}};
  for (const Op* op : public_ops())
    for (const char* command : {"run", "source", "tune"}) pages.push_back({command, std::string(op->name())});
  for (std::vector<std::string> page : pages) {
    page.emplace_back("--help");
    const Outcome outcome = run(page);
    SCOPED_TRACE(outcome.out);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(outcome.out.find("\nUsage: tunesmith"), std::string::npos);
    EXPECT_LE(std::ranges::count(outcome.out, '\n'), max_lines);
    EXPECT_LE(widest_line(outcome.out), max_columns);
  }
  EXPECT_EQ(run({"--version"}).out.substr(0, 10), "tunesmith ");
}

TEST_F(CliTest, EveryFieldIsAFlagOfItsOperationAlone) {
  for (const Op* op : public_ops()) {
    const std::string help = run({"run", std::string(op->name()), "--help"}).out;
    for (const FieldInfo& field : op->problem_fields())
      EXPECT_EQ(lists(help, field.name), !field.hidden) << op->name() << " " << field.name;
  }
  EXPECT_FALSE(lists(run({"run", "softmax", "--help"}).out, "label_smoothing"));
  EXPECT_FALSE(lists(run({"run", "attention", "--help"}).out, "rows"));
}

TEST_F(CliTest, RareFlagsComeLast) {
  const std::string help = run({"run", "attention", "--help"}).out;
  const std::size_t layout = help.find("\nMemory layout:\n");
  ASSERT_NE(layout, std::string::npos) << help;
  EXPECT_LT(help.find("--input NAME=FILE.npy"), layout);
  EXPECT_LT(layout, help.find("--{q,k,v,o}-batch-stride N"));
  EXPECT_LT(layout, help.find("--{q,k,v,o}-alignment N"));
}

TEST_F(CliTest, InternalOperationsRunButAreNotListed) {
  for (const std::vector<std::string>& list :
       {std::vector<std::string>{"run", "--help"}, {"tune", "--help"}, {"ops"}, {"ops", "--json"}, {"completion", "bash"}}) {
    const std::string text = run(list).out;
    EXPECT_NE(text.find("cross_entropy_backward"), std::string::npos) << text;
    for (const char* internal : {"cross_entropy_divisor", "cross_entropy_upstream", "cross_entropy_reduce"})
      EXPECT_EQ(text.find(internal), std::string::npos) << text;
  }
  EXPECT_EQ(run({"run"}).err.find("cross_entropy_divisor"), std::string::npos);
  EXPECT_EQ(run({"cache", "list", "--op", "x"}).err.find("cross_entropy_divisor"), std::string::npos);
  EXPECT_EQ(run_json({"run", "cross_entropy_divisor", "--rows", "8", "--cols", "4", "--device", "host"})["verified"], true);
}

TEST_F(CliTest, OpsPrintsTheTableAsJson) {
  const nlohmann::json ops = run_json({"ops"});
  ASSERT_EQ(ops.size(), public_ops().size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const Op& op = *public_ops()[i];
    EXPECT_EQ(ops[i]["op"], op.name());
    EXPECT_EQ(ops[i]["summary"], op.summary());
    EXPECT_EQ(ops[i]["templates"].get<std::string>().size(), 32u);
    for (const nlohmann::json& field : ops[i]["fields"]) {
      EXPECT_FALSE(field["meaning"].get<std::string>().empty()) << field;
      EXPECT_EQ(field["kind"] == "choice", field.contains("choices")) << field;
      EXPECT_EQ(field["required"] == true, !field.contains("default")) << field;
    }
  }
  const nlohmann::json& softmax = ops[0];
  EXPECT_EQ(softmax["fields"][0]["name"], "rows");
  EXPECT_EQ(softmax["fields"][0]["kind"], "integer");
  EXPECT_EQ(softmax["fields"][2]["choices"], (std::vector<std::string>{"f32", "f16", "bf16", "f64"}));
  EXPECT_EQ(softmax["fields"][2]["default"], "f32");
  const auto x = std::ranges::find_if(softmax["arrays"], [](const nlohmann::json& array) { return array["name"] == "x"; });
  ASSERT_NE(x, softmax["arrays"].end());
  EXPECT_EQ((*x)["role"], "input");
  EXPECT_EQ((*x)["shape"], (std::vector<std::string>{"rows", "cols"}));
}

TEST_F(CliTest, SwitchesTakeZeroAndOne) {
  const auto causal = [&](const std::vector<std::string>& form) {
    std::vector<std::string> arguments{"run", "softmax", "--device", "host", "--rows", "8", "--cols", "8"};
    arguments.insert(arguments.end(), form.begin(), form.end());
    return run_json(arguments)["problem"].value("causal", 0);
  };
  EXPECT_EQ(causal({"--causal"}), 1);
  EXPECT_EQ(causal({"--causal", "--safe"}), 1);
  EXPECT_EQ(causal({"--causal=1"}), 1);
  EXPECT_EQ(causal({"--causal=0"}), 0);
  EXPECT_EQ(causal({"--causal", "0"}), 0);
  EXPECT_EQ(causal({}), 0);
  expect_rejected({"run", "softmax", "--rows", "8", "--cols", "8", "--device", "host", "--causal=2"}, {"causal is 2"});
  expect_rejected({"run", "softmax", "--rows", "8", "--cols", "8", "--device", "host", "--causal=yes"}, {"causal is 'yes'"});
}

}  // namespace
}  // namespace tunesmith::cli
