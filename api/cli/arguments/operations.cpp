#include "api/cli/arguments/operations.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/nearest.h"
#include "templates/row_program/shipped_op.h"
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

std::string shipped_programs_text() {
  constexpr std::size_t width = 100;
  std::string text = "Shipped row programs are operations, too:", line;
  for (const Op* op : shipped_program_ops()) {
    if (op->name().ends_with("_gradient")) continue;
    const std::string item = (line.empty() ? "" : ", ") + std::string(op->name());
    if (line.size() + item.size() > width) {
      text += "\n  " + line + ",";
      line = op->name();
    } else {
      line += item;
    }
  }
  return text + "\n  " + line + "\n";
}

void add_operations(CLI::App& command, Parse& parse, const AddFlags& add_flags) {
  command.require_subcommand(1);
  command.footer(shipped_programs_text() + "\n" + command.get_footer());
  std::vector<const Op*> ops(all_ops().begin(), all_ops().end());
  ops.insert(ops.end(), shipped_program_ops().begin(), shipped_program_ops().end());
  for (const Op* op : ops) {
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

std::string suggested_operation(std::string_view typed) {
  std::vector<std::string> names = listed_operations();
  const std::string allowed = listed(names);
  for (const Op* op : shipped_program_ops()) names.emplace_back(op->name());
  const std::string hint = did_you_mean(typed, names);
  return (hint.empty() ? "; allowed: " : hint + " Allowed: ") + allowed + ", and shipped row programs such as layer_norm";
}

const Op& operation(std::string_view name) {
  for (const std::span<const Op* const> ops : {all_ops(), shipped_program_ops()})
    for (const Op* op : ops)
      if (op->name() == name) return *op;
  throw Error(ErrorCode::invalid_argument, "op is '", name, "'", suggested_operation(name));
}

}  // namespace tunesmith::cli
