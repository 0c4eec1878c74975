#include "api/cli/arguments/usage.h"

#include <CLI/CLI.hpp>

#include "api/cli/arguments/nearest.h"
#include "api/cli/arguments/operations.h"

namespace tunesmith::cli {
namespace {

/// The outermost command with arguments that it does not know, else the innermost one.
const CLI::App* command_in_error(const CLI::App* app) {
  while (app->remaining().empty() && !app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::string full_name(const CLI::App* command) {
  const CLI::App* parent = command->get_parent();
  return parent == nullptr ? command->get_name() : full_name(parent) + " " + command->get_name();
}

std::vector<std::string> flags_of(const CLI::App* command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command->get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> commands_of(const CLI::App* command) {
  std::vector<std::string> names;
  for (const CLI::App* child : command->get_subcommands({}))
    if (!child->get_group().empty()) names.push_back(child->get_name());
  return names;
}

bool takes_operations(const CLI::App* command) {
  const auto children =
      command->get_subcommands([](const CLI::App* child) { return child->get_group() == operations_group; });
  return !children.empty();
}

/// The first argument that the command does not know. A flag comes before the value that follows it.
std::string first_unknown(const CLI::App* command) {
  const std::vector<std::string> unknown = command->remaining();
  if (commands_of(command).empty())
    for (const std::string& argument : unknown)
      if (argument.starts_with('-')) return argument;
  return unknown.empty() ? "" : unknown.front();
}

/// CLI11's "--rows: 1 required N missing" and "--rows: At Most 1 required but received 2" in plain words.
std::string wrong_count(const std::string& message) {
  const std::string flag = message.substr(0, message.find(':'));
  if (message.find("received") != std::string::npos) return flag + " is given more than once";
  return flag + " needs a value";
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* const command = command_in_error(&app);
  const std::string name = full_name(command), page = "see " + name + " --help";
  const std::string unknown = first_unknown(command), flag = unknown.substr(0, unknown.find('='));
  const std::vector<std::string> commands = commands_of(command);
  const bool operations = takes_operations(command);
  if (unknown.starts_with('-') && operations)
    return name + " " + flag + ": flags follow the operation: " + name + " OP " + flag + " ...";
  if (unknown.starts_with('-')) {
    const std::string hint = did_you_mean(flag, flags_of(command));
    return name + " has no flag " + flag + (hint.empty() ? "; " + page : hint + " (" + page + ")");
  }
  if (!unknown.empty() && !commands.empty())
    return name + " has no " + (operations ? "operation" : "command") + " '" + unknown + "'" +
           (operations ? suggested_operation(unknown) : suggestion(unknown, commands));
  if (!unknown.empty()) return name + ": unexpected argument '" + unknown + "'" + "; " + page;
  if (!commands.empty()) return name + (operations ? " needs an operation: " : " needs a command: ") + listed(commands);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return name + ": " + wrong_count(error.what()) + "; " + page;
  return name + ": " + one_line(error.what()) + "; " + page;
}

}  // namespace tunesmith::cli
