#include "api/cli/arguments/operations.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/nearest.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

void add_all_flags(CLI::App& command, const Op& op, Parse& parse, const AddFlags& add_flags) {
  const auto problem = std::make_shared<ProblemFlags>(op);
  problem->add_to(command);
  const Action action = add_flags(command, problem);
  problem->add_memory_layout_to(command);
  command.callback([&parse, action] { parse.action = action; });
}

}  // namespace

void add_operations(CLI::App& command, Parse& parse, const AddFlags& add_flags) {
  command.require_subcommand(1);
  for (const Op* op : all_ops()) {
    CLI::App* subcommand = command.add_subcommand(std::string(op->name()), std::string(op->summary()));
    subcommand->footer("");
    subcommand->group(op->is_internal() ? "" : operations_group);
    if (parse.expand)
      add_all_flags(*subcommand, *op, parse, add_flags);
    else
      subcommand->preparse_callback(
          [subcommand, op, &parse, add_flags](std::size_t) { add_all_flags(*subcommand, *op, parse, add_flags); });
  }
}

std::vector<std::string> listed_operations() {
  std::vector<std::string> names;
  for (const Op* op : all_ops())
    if (!op->is_internal()) names.emplace_back(op->name());
  return names;
}

const Op& operation(std::string_view name) {
  const auto ops = all_ops();
  const auto found = std::ranges::find(ops, name, [](const Op* op) { return op->name(); });
  if (found != ops.end()) return **found;
  throw Error(ErrorCode::invalid_argument, "op is '", name, "'", suggestion(name, listed_operations()));
}

}  // namespace tunesmith::cli
