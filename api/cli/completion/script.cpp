#include "api/cli/completion/script.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "api/cli/arguments/operations.h"

namespace tunesmith::cli {
namespace {

// The kind of value that a flag takes, if it is not a list of choices.
constexpr const char* a_file = "@file";
constexpr const char* anything = "@any";

/// Completions after a command: its subcommands or flags, with their meanings, and the values of each flag.
struct Entries {
  std::vector<std::pair<std::string, std::string>> names;
  std::vector<std::pair<std::string, std::string>> values;  ///< by flag; an empty flag means plain arguments
};

/// Entries by a shell pattern of the command's path. A path such as "run softmax" matches more than one pattern: the flags
/// of a problem belong to the operation (*' softmax'), the other flags to the command ('run '*).
using Table = std::vector<std::pair<std::string, Entries>>;

Entries& entries_of(Table& table, const std::string& pattern) {
  const auto found = std::ranges::find(table, pattern, &Table::value_type::first);
  return found != table.end() ? found->second : table.emplace_back(pattern, Entries{}).second;
}

/// "f32 f16 bf16", "@file", "@any"; empty for a switch.
std::string values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.empty() || option.get_expected_max() == 0) return "";
  if (type.find("FILE") != std::string::npos) return a_file;
  std::string values;
  if (type == "OP") {
    for (const std::string& op : listed_operations()) values += (values.empty() ? "" : " ") + op;
    return values;
  }
  if (type.find('|') == std::string::npos) return anything;
  for (std::size_t at = 0; at <= type.size(); at = type.find('|', at) + 1) {
    const std::string choice = type.substr(at, type.find('|', at) - at);
    if (std::ranges::none_of(choice, [](unsigned char c) { return std::isupper(c) != 0; }))  // "cuda:N" is only a form
      values += (values.empty() ? "" : " ") + choice;
    if (type.find('|', at) == std::string::npos) break;
  }
  return values;
}

void add_flag(Entries& entries, const CLI::Option& option) {
  const std::string flag = option.get_lnames().empty() ? "" : "--" + option.get_lnames().front();
  if (!flag.empty()) entries.names.emplace_back(flag, option.get_description());
  const auto known = std::ranges::find(entries.values, flag, &std::pair<std::string, std::string>::first);
  if (const std::string values = values_of(option); !values.empty() && known == entries.values.end())
    entries.values.emplace_back(flag, values);
}

bool is_of_the_problem(const CLI::Option& option) {
  return option.get_group() == problem_group || option.get_group() == memory_layout_group;
}

void add_operation(Table& table, const std::string& command, const CLI::App& operation) {
  const std::string by_operation = "*' " + operation.get_name() + "'", by_command = "'" + command + " '*";
  for (const CLI::Option* option : operation.get_options()) {
    if (option->get_group().empty()) continue;
    const std::string flag = "--" + option->get_lnames().front();
    Entries& entries = entries_of(table, is_of_the_problem(*option) ? by_operation : by_command);
    const auto known = std::ranges::find(entries.names, flag, &std::pair<std::string, std::string>::first);
    if (known == entries.names.end()) add_flag(entries, *option);
  }
}

void add_command(Table& table, const std::string& path, const CLI::App& command) {
  const std::string pattern = "'" + path + "'";
  for (const CLI::App* child : command.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string child_path = path.empty() ? child->get_name() : path + " " + child->get_name();
    if (!child->get_group().empty())
      entries_of(table, pattern).names.emplace_back(child->get_name(), child->get_description());
    if (child->get_group() == operations_group)
      add_operation(table, path, *child);
    else if (!child->get_group().empty())
      add_command(table, child_path, *child);
  }
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty()) add_flag(entries_of(table, pattern), *option);
}

/// 'text' in single quotes, as both shells read it.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string names_function(const Table& table, Shell shell) {
  std::string text = "_tunesmith_names() {\n  case $1 in\n";
  for (const auto& [pattern, entries] : table) {
    if (entries.names.empty()) continue;
    text += "    " + pattern + ")\n";
    if (shell == Shell::zsh) {
      text += "      print -l --";
      for (const auto& entry : entries.names) text += " \\\n        " + quoted(entry.first + ":" + entry.second);
      text += " ;|\n";
    } else {
      text += "      echo '";
      for (const auto& [name, meaning] : entries.names) text += (text.ends_with('\'') ? "" : " ") + name;
      text += "' ;;&\n";
    }
  }
  return text + "  esac\n}\n";
}

std::string values_function(const Table& table, Shell shell) {
  std::string text = "_tunesmith_values() {\n  case $1 in\n";
  for (const auto& [pattern, entries] : table) {
    std::map<std::string, std::string> patterns;  // by values
    for (const auto& [flag, values] : entries.values) {
      std::string& known = patterns[values];
      known += (known.empty() ? "" : " | ") + pattern + "' " + flag + "'";
    }
    for (const auto& [values, keys] : patterns) {
      const std::string print = shell == Shell::zsh ? "print -r -- " : "echo ";
      text += "    " + keys + ") " + print + quoted(values) + " ;;\n";
    }
  }
  return text + "  esac\n}\n";
}

// Offers completions for the words before the cursor. Bash splits words at '=': --device=host, --input x=FILE.
constexpr const char* bash_function = R"shell(_tunesmith() {
  local current=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} command="" word values i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    [[ $word != -* && " $(_tunesmith_names "$command") " == *" $word "* ]] && command=${command:+$command }$word
  done
  if [[ $current == = ]]; then
    current=
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
    [[ $flag == -* || $COMP_CWORD -lt 3 ]] || flag=${COMP_WORDS[COMP_CWORD - 3]}
  elif [[ $current == -* ]]; then
    flag=
  fi
  [[ $flag == -* ]] || flag=
  values=$(_tunesmith_values "$command $flag")
  if [[ $values == @file && $current != -* ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$current")
  elif [[ $values == @any ]]; then
    COMPREPLY=()
  elif [[ -n $values && $values != @file ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$current")
  else
    mapfile -t COMPREPLY < <(compgen -W "$(_tunesmith_names "$command")" -- "$current")
  fi
}
complete -F _tunesmith tunesmith
)shell";

constexpr const char* zsh_function = R"shell(_tunesmith() {
  local command="" flag="" values word
  local -a entries
  integer i
  for (( i = 2; i < CURRENT; i++ )); do
    entries=(${(f)"$(_tunesmith_names "$command")"})
    word=$words[i]
    if [[ $word != -* ]] && (( ${entries[(I)$word:*]} )); then command=${command:+$command }$word; fi
  done
  flag=$words[CURRENT-1]
  if [[ $words[CURRENT] == -*=* ]]; then
    flag=${words[CURRENT]%%=*}
    compset -P '*='
  elif [[ $words[CURRENT] == -* || $flag != -* ]]; then
    flag=
  fi
  values=$(_tunesmith_values "$command $flag")
  if [[ $values == @file && $words[CURRENT] != --* ]]; then
    compset -P '*='
    _files
  elif [[ $values == @any ]]; then
    return 1
  elif [[ -n $values && $values != @file ]]; then
    compadd -- ${=values}
  else
    entries=(${(f)"$(_tunesmith_names "$command")"})
    _describe 'tunesmith' entries
  fi
}
_tunesmith "$@"
)shell";

}  // namespace

std::string completion_script(const CLI::App& app, Shell shell) {
  Table table;
  add_command(table, "", app);
  const bool zsh = shell == Shell::zsh;
  return std::string(zsh ? "#compdef tunesmith\n" : "") + "# Completion for " + (zsh ? "zsh" : "bash") +
         ", printed by `tunesmith completion " + (zsh ? "zsh" : "bash") + "`.\n\n" + names_function(table, shell) + "\n" +
         values_function(table, shell) + "\n" + (zsh ? zsh_function : bash_function);
}

}  // namespace tunesmith::cli
