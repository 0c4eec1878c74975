// The problem on the command line, and its help, both from the operations' descriptors.

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/nearest.h"
#include "api/cli/input/text_file.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op* op : all_ops()) names.emplace_back(op->name());
  return names;
}

std::string list_of_ops() {
  std::string text = "operation:";
  for (const Op* op : all_ops()) text += "\n" + std::string(op->name()) + ": " + std::string(op->summary());
  return text;
}

std::string help_of(const FieldInfo& field) {
  std::string text(field.meaning);
  for (std::size_t i = 0; i < field.words.size(); ++i) text += (i == 0 ? ": " : "|") + std::string(field.words[i]);
  text += field.default_text.empty() ? " (required)" : " (default: " + std::string(field.default_text) + ")";
  return text;
}

void append(std::string& names, std::string_view name) { names += (names.empty() ? "" : ", ") + std::string(name); }

/// A flag or an option, over all operations that have it.
struct SharedField {
  std::string name, ops;                                   ///< "in_place", "softmax, log_softmax"
  const char* type = "N";                                  ///< as the first of them has it
  std::vector<std::pair<std::string, std::string>> texts;  ///< what it means, and to which of them

  std::string help() const {
    if (texts.size() == 1) return texts.front().first;
    std::string help;
    for (const auto& [text, owners] : texts) help += (help.empty() ? "" : "\n") + owners + ": " + text;
    return help;
  }
};

const char* type_of(const FieldInfo& info) {
  if (info.text) return "FILE";
  return info.words.empty() ? "N" : "WORD";
}

/// In the order in which the operations name them.
std::vector<SharedField> shared_flags() {
  std::vector<SharedField> fields;
  for (const Op* op : all_ops())
    for (const FieldInfo& info : op->problem_fields()) {
      if (info.option) continue;
      auto field = std::ranges::find(fields, info.name, &SharedField::name);
      if (field == fields.end()) field = fields.insert(fields.end(), {std::string(info.name), "", type_of(info), {}});
      append(field->ops, op->name());
      const std::string help = help_of(info);
      auto text = std::ranges::find(field->texts, help, &std::pair<std::string, std::string>::first);
      if (text == field->texts.end()) text = field->texts.insert(field->texts.end(), {help, ""});
      append(text->second, op->name());
    }
  return fields;
}

/// "scale=N  positive factor of x (default: 1)".
std::string option_line(const FieldInfo& info) {
  std::string line = std::string(info.name) + "=";
  for (std::size_t i = 0; i < info.words.size(); ++i) line += (i == 0 ? "" : "|") + std::string(info.words[i]);
  const char* const value = info.text ? "TEXT  " : "N  ";
  return line + (info.words.empty() ? value : "  ") + std::string(info.meaning) +
         " (default: " + std::string(info.default_text) + ")";
}

/// A line for each option, under the operations that have it.
std::string options_help() {
  std::vector<std::pair<std::string, std::string>> lines;  // and their owners
  for (const Op* op : all_ops())
    for (const FieldInfo& info : op->problem_fields()) {
      if (!info.option) continue;
      const std::string line = option_line(info);
      auto known = std::ranges::find(lines, line, &std::pair<std::string, std::string>::first);
      if (known == lines.end()) known = lines.insert(lines.end(), {line, ""});
      append(known->second, op->name());
    }
  std::vector<std::pair<std::string, std::string>> groups;  // owners and their lines
  for (const auto& [line, owners] : lines) {
    auto group = std::ranges::find(groups, owners, &std::pair<std::string, std::string>::first);
    if (group == groups.end()) group = groups.insert(groups.end(), {owners, ""});
    group->second += "\n  " + line;
  }
  std::string text = "an option of the operation; may be repeated";
  for (const auto& [owners, list] : groups) text += "\nOf " + owners + ":" + list;
  return text;
}

/// "; did you mean 'rows'? Allowed: rows, cols".
std::string suggestion(std::string_view word, const std::vector<std::string>& allowed) {
  const std::string nearest = did_you_mean(word, allowed);
  return (nearest.empty() ? "; allowed: " : nearest + " Allowed: ") + listed(allowed);
}

/// A word stays one even when it looks like a number; a number that is none is left for the operation to judge.
Value value_of(const FieldInfo& field, const std::string& typed) {
  if (!field.words.empty() || field.text) return typed;
  Value value = parse_value(typed);
  const bool digits = typed.find_first_not_of("+-0123456789") == std::string::npos;
  if (digits && !std::holds_alternative<std::int64_t>(value))
    throw Error(ErrorCode::invalid_argument, field.name, " is ", typed, "; expected a number that fits 64 bits");
  return value;
}

/// Whether some operation has a field of this name that is so.
template <typename Is>
bool of_any_op(std::string_view field, const Is& is) {
  for (const Op* op : all_ops())
    for (const FieldInfo& info : op->problem_fields())
      if (info.name == field && is(info)) return true;
  return false;
}

}  // namespace

bool is_option(std::string_view field) {
  return of_any_op(field, [](const FieldInfo& info) { return info.option; });
}

bool names_file(std::string_view field) {
  return of_any_op(field, [](const FieldInfo& info) { return info.text && !info.option; });
}

void ProblemFlags::add_to(CLI::App& command) {
  command.add_option("op", op_, list_of_ops())->required()->type_name("OP");
  for (const SharedField& field : shared_flags())
    command
        .add_option_function<std::string>(
            flag_of(field.name), [this, key = field.name](const std::string& typed) { fields_[key] = typed; }, field.help())
        ->type_name(field.type)
        ->group("Problem of " + field.ops);
  command.add_option("--option", options_, options_help())->type_name("NAME=VALUE")->allow_extra_args(false);
}

const Op& ProblemFlags::op() const {
  try {
    return find_op(op_);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), did_you_mean(op_, op_names()));
  }
}

Problem ProblemFlags::problem() const {
  const Op& operation = op();
  const std::vector<FieldInfo> infos = operation.problem_fields();
  std::vector<std::string> flags, names;
  for (const FieldInfo& info : infos) {
    if (!info.option) flags.push_back(flag_of(info.name));
    names.emplace_back(info.name);
  }
  const auto info_of = [&](std::string_view field) {
    const auto found = std::ranges::find(infos, field, &FieldInfo::name);
    return found == infos.end() ? nullptr : &*found;
  };

  Problem problem{op_, {}};
  for (const auto& [field, typed] : fields_) {
    const FieldInfo* info = info_of(field);
    if (info == nullptr)
      throw Error(ErrorCode::invalid_argument, op_, " has no flag ", flag_of(field), suggestion(flag_of(field), flags));
    if (info->option)  // the flag is another operation's
      throw Error(ErrorCode::invalid_argument, op_, " has no flag ", flag_of(field), "; expected --option ", field,
                  "=VALUE");
    problem.fields.set(field, info->text ? read_text_file(flag_of(field), typed) : value_of(*info, typed));
  }
  for (const std::string& option : options_) {
    const auto [field, typed] = split_pair(option, "--option", "NAME=VALUE");
    const FieldInfo* info = info_of(field);
    if (info == nullptr)
      throw Error(ErrorCode::invalid_argument, op_, " has no option '", field, "'", suggestion(field, names));
    if (problem.fields.contains(field))
      throw Error(ErrorCode::invalid_argument, "--option ", field, " is given twice",
                  info->option ? "" : ", or beside " + flag_of(field));
    problem.fields.set(field, value_of(*info, typed));
  }
  return problem;
}

}  // namespace tunesmith::cli
