// tunesmith ops: the operations, with all that is known about their problems as JSON.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/operations.h"
#include "api/cli/report/table.h"
#include "api/cli/tuning/tune_child.h"

namespace tunesmith::cli {
namespace {

int list_operations(bool json) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const Op* op : all_ops()) {
    if (is_internal(*op)) continue;
    rows.push_back({std::string(op->name()), std::string(op->summary())});
    all.push_back({{"op", op->name()}, {"summary", op->summary()}});
  }
  std::fputs(json ? (dump_pretty(all) + "\n").c_str() : table({{"operation"}, {"summary"}}, rows).c_str(), stdout);
  return exit_done;
}

}  // namespace

void add_ops(CLI::App& app, Parse& parse) {
  CLI::App* command = app.add_subcommand("ops", "list the operations");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "print fields, choices, defaults and arrays as JSON");
  command->callback([&parse, json] { parse.action = [json] { return list_operations(*json); }; });
}

}  // namespace tunesmith::cli
