#include "api/cli/arguments/usage.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/nearest.h"

namespace tunesmith::cli {
namespace {

/// The command that was being read: "cache list" within the app.
const CLI::App* innermost(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::string full_name(const CLI::App* command) {
  const CLI::App* parent = command->get_parent();
  return parent == nullptr ? command->get_name() : full_name(parent) + " " + command->get_name();
}

std::vector<std::string> flags_of(const CLI::App* command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

std::vector<std::string> commands_of(const CLI::App* command) {
  std::vector<std::string> names;
  for (const CLI::App* child : command->get_subcommands({})) names.push_back(child->get_name());
  return names;
}

/// What the parser did not know.
std::string first_extra(const CLI::App* command) {
  const std::vector<std::string> extras = command->remaining();
  for (const std::string& extra : extras)
    if (extra.starts_with('-')) return extra;
  return extras.empty() ? "" : extras.front();
}

/// "--mask-inner" where the command takes --option and some operation has the option mask_inner: "mask_inner", else "".
std::string option_of(const CLI::App* command, std::string_view flag) {
  std::string field(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
  std::ranges::replace(field, '-', '_');
  return command->get_option_no_throw("--option") != nullptr && is_option(field) ? field : "";
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

}  // namespace

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = innermost(&app);
  const std::string help = " (" + full_name(command) + " --help lists what there is)";
  std::string extra = first_extra(command);
  if (!extra.empty() && extra.starts_with('-')) {
    extra = extra.substr(0, extra.find('='));
    if (const std::string option = option_of(command, extra); !option.empty())
      return full_name(command) + " has no flag " + extra + "; expected --option " + option + "=VALUE" + help;
    return full_name(command) + " has no flag " + extra + did_you_mean(extra, flags_of(command)) + help;
  }
  const std::vector<std::string> commands = commands_of(command);
  if (!extra.empty() && !commands.empty())
    return full_name(command) + " has no command '" + extra + "'" + did_you_mean(extra, commands) +
           " Commands: " + listed(commands);
  if (!extra.empty()) return full_name(command) + ": unexpected argument '" + extra + "'" + help;
  if (!commands.empty()) return full_name(command) + " needs a command: " + listed(commands);
  return full_name(command) + ": " + one_line(error.what()) + help;
}

}  // namespace tunesmith::cli
