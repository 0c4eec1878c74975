#include "api/cli/arguments/help.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "api/cli/arguments/operations.h"

namespace tunesmith::cli {
namespace {

constexpr std::size_t page_columns = 110, meaning_column = 30;

/// Breaks a description into lines that fit to the right of the flags.
std::vector<std::string> wrapped(const std::string& description) {
  std::vector<std::string> lines(1);
  std::istringstream words(description);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > page_columns - meaning_column) lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

/// "  --rows N                    number of rows\n".
std::string entry(const std::string& name, const std::string& description) {
  std::string text = "  " + name;
  if (text.size() + 2 > meaning_column) text += '\n';
  std::size_t column = text.ends_with('\n') ? 0 : text.size();
  for (const std::string& line : wrapped(description)) {
    text += std::string(meaning_column - column, ' ') + line + "\n";
    column = 0;
  }
  return text;
}

std::string placeholder_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.empty()) return "";
  return option.get_expected_min() == 0 ? "[=" + type + "]" : " " + type;
}

/// "q" and "batch-stride" of --q-batch-stride.
std::pair<std::string, std::string> split_flag(const CLI::Option& option) {
  const std::string name = option.get_lnames().empty() ? "" : option.get_lnames().front();
  const std::size_t dash = name.find('-');
  return {name.substr(0, dash), dash == std::string::npos ? "" : name.substr(dash + 1)};
}

bool same_for_another_array(const CLI::Option& a, const CLI::Option& b) {
  const std::string rest = split_flag(a).second;
  return !rest.empty() && rest == split_flag(b).second && a.get_description() == b.get_description() &&
         a.get_type_name() == b.get_type_name();
}

/// Lists a group's flags. Flags that differ only in the array they begin with share a line: --{q,k}-batch-stride.
std::string flags_text(std::vector<const CLI::Option*> options) {
  std::string text;
  while (!options.empty()) {
    const CLI::Option& option = *options.front();
    std::string arrays;
    int alike = 0;
    std::erase_if(options, [&](const CLI::Option* other) {
      if (other != &option && !same_for_another_array(option, *other)) return false;
      arrays += (alike++ == 0 ? "" : ",") + split_flag(*other).first;
      return true;
    });
    std::string name = option.get_name(false, true);
    if (alike > 1) name = "--{" + arrays + "}-" + split_flag(option).second;
    text +=
        entry(option.get_positional() ? option.get_type_name() : name + placeholder_of(option), option.get_description());
  }
  return text;
}

bool is_operation(const CLI::App& command) { return command.get_group() == operations_group; }

std::string usage_of(const CLI::App& command, const std::string& name) {
  std::string text = "Usage: " + name;
  bool optional = false;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional())
      text += " " + option->get_type_name();
    else if (option->get_required())
      text += " " + option->get_name() + placeholder_of(*option);
    else
      optional = true;
  }
  const auto commands = command.get_subcommands([](const CLI::App* child) { return !child->get_group().empty(); });
  if (!commands.empty()) return text + (is_operation(*commands.front()) ? " OP [FLAGS]\n" : " COMMAND [FLAGS]\n");
  return text + (optional ? " [FLAGS]" : "") + "\n";
}

std::string groups_text(const CLI::App& command) {
  const CLI::Option* const help = command.get_help_ptr();
  std::vector<std::string> groups;
  for (const CLI::Option* option : command.get_options())
    if (const std::string& group = option->get_group();
        option != help && !group.empty() && std::ranges::find(groups, group) == groups.end())
      groups.push_back(group);
  if (groups.empty()) groups.push_back(help->get_group());
  std::string text;
  for (const std::string& group : groups) {
    std::vector<const CLI::Option*> options =
        command.get_options([&](const CLI::Option* option) { return option != help && option->get_group() == group; });
    if (group == help->get_group()) options.push_back(help);
    text += "\n" + group + ":\n" + flags_text(options);
  }
  return text;
}

std::string commands_text(const CLI::App& command) {
  std::string text;
  for (const CLI::App* child : command.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
    if (text.empty()) text = is_operation(*child) ? "\nOperations:\n" : "\nCommands:\n";
    text += entry(child->get_name(), child->get_description());
  }
  return text;
}

}  // namespace

std::string HelpPage::make_help(const CLI::App* command, std::string name, CLI::AppFormatMode) const {
  std::string text =
      command->get_description() + "\n\n" + usage_of(*command, name) + commands_text(*command) + groups_text(*command);
  if (const std::string footer = command->get_footer(); !footer.empty()) text += "\n" + footer + "\n";
  return text;
}

}  // namespace tunesmith::cli
