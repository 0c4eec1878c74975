#include "api/cli/arguments/problem_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "api/cli/arguments/combinations.h"
#include "api/cli/arguments/field_kind.h"
#include "api/cli/arguments/flags.h"
#include "api/cli/arguments/nearest.h"
#include "api/cli/input/text_file.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

/// "N", "f32|f16|bf16", "FILE.cu"; empty for a plain switch.
std::string placeholder(const FieldInfo& field) {
  switch (kind_of(field)) {
    case FieldKind::toggle: return "";
    case FieldKind::file: return field.name == "program" ? "FILE.row" : "FILE.cu";
    case FieldKind::free_text: return "TEXT";
    case FieldKind::number: return "N";
    case FieldKind::choice: break;
  }
  std::string choices;
  for (const std::string_view word : field.choices) choices += (choices.empty() ? "" : "|") + std::string(word);
  return choices;
}

/// The allowed range of a number; empty if its end is so large that it is no limit in practice.
std::string range_of(const FieldInfo& field) {
  constexpr std::size_t many_digits = 7;
  if (kind_of(field) != FieldKind::number || is_memory_layout(field)) return "";
  std::size_t digits = 0;
  for (const char c : field.range_text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits == many_digits) return "";
  }
  return field.range_text;
}

/// "dimension of a head (8 to 256 in steps of 8; required)".
std::string help_of(const FieldInfo& field) {
  std::string facts = range_of(field);
  const auto add = [&](const std::string& fact) { facts += (facts.empty() ? "" : "; ") + fact; };
  const std::string_view alone = field.bare;
  if (field.default_text.empty())
    add("required");
  else if (field.default_text != (kind_of(field) == FieldKind::toggle ? "0" : "none") || !field.choices.empty())
    add("default: " + field.default_text);
  if (!alone.empty() && kind_of(field) != FieldKind::toggle) add("without a value: " + std::string(alone));
  return std::string(field.meaning) + (facts.empty() ? "" : " (" + facts + ")");
}

/// Reads a typed value. Strings stay strings even if they look like numbers; the operation checks numbers.
Value value_of(const FieldInfo& field, const std::string& typed) {
  const FieldKind kind = kind_of(field);
  if (kind == FieldKind::choice && std::ranges::find(field.choices, typed) == field.choices.end()) {
    const std::vector<std::string> choices(field.choices.begin(), field.choices.end());
    throw Error(ErrorCode::invalid_argument, field.name, " is '", typed, "'; allowed: ", listed(choices),
                did_you_mean(typed, choices));
  }
  if (kind != FieldKind::number && kind != FieldKind::toggle) return typed;
  Value value = parse_value(typed);
  const bool digits =
      typed.find_first_not_of("+-0123456789") == std::string::npos && typed.find_first_of("0123456789") != std::string::npos;
  if (digits && !std::holds_alternative<std::int64_t>(value))
    throw Error(ErrorCode::invalid_argument, field.name, " is ", typed, "; expected a number that fits 64 bits");
  return value;
}

/// Also reads the file that a flag names.
Value value_of(const FieldInfo& field, const std::string& typed, bool by_option) {
  if (!by_option && kind_of(field) == FieldKind::file) return read_source(field.name, flag_of(field.name), typed);
  return value_of(field, typed);
}

/// Splits lists of numbers and choices at commas. Other fields are one value, because they may contain commas.
std::vector<std::string> items_of(const FieldInfo& field, const std::string& typed) {
  const FieldKind kind = kind_of(field);
  if (kind != FieldKind::number && kind != FieldKind::choice && kind != FieldKind::toggle) return {typed};
  std::vector<std::string> items;
  std::string_view rest = typed;
  for (;;) {
    const std::size_t comma = rest.find(',');
    items.emplace_back(rest.substr(0, comma));
    if (items.back().empty() && typed.find(',') != std::string::npos)
      throw Error(ErrorCode::invalid_argument, field.name, " is '", typed,
                  "', a list with an empty value; expected e.g. 8,16");
    if (comma == std::string_view::npos) return items;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string flag_of(std::string_view field) {
  std::string flag = "--" + std::string(field);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

void ProblemFlags::add(CLI::App& command, const FieldInfo& field) {
  const auto keep = [this, key = std::string(field.name)](const std::string& typed) { typed_[key] = typed; };
  CLI::Option* option = command.add_option_function<std::string>(flag_of(field.name), keep, help_of(field));
  option->type_name(placeholder(field))
      ->group(field.hidden              ? ""
              : is_memory_layout(field) ? memory_layout_group
                                        : problem_group);
  if (const std::string_view alone = field.bare; !alone.empty()) option->expected(0, 1)->default_str(std::string(alone));
}

void ProblemFlags::add_to(CLI::App& command) {
  for (const FieldInfo& field : op_.problem_fields())
    if (!is_memory_layout(field)) add(command, field);
  command.add_option("--option", options_, "any field by its name, e.g. rows=8; may be repeated")
      ->type_name("NAME=VALUE")
      ->group(problem_group)
      ->allow_extra_args(false);
}

void ProblemFlags::add_memory_layout_to(CLI::App& command) {
  for (const FieldInfo& field : op_.problem_fields())
    if (is_memory_layout(field)) add(command, field);
}

std::vector<ProblemFlags::Given> ProblemFlags::given() const {
  const std::vector<FieldInfo> fields = op_.problem_fields();
  std::vector<Given> given;
  for (const FieldInfo& field : fields)
    if (const auto typed = typed_.find(std::string(field.name)); typed != typed_.end())
      given.push_back({field, typed->second, false});
  for (const std::string& option : options_) {
    const auto [name, typed] = split_pair(option, "--option", "NAME=VALUE");
    const auto field = std::ranges::find(fields, name, &FieldInfo::name);
    if (field == fields.end()) {
      std::vector<std::string> names;
      for (const FieldInfo& known : fields) names.emplace_back(known.name);
      throw Error(ErrorCode::invalid_argument, op_.name(), " has no option '", name, "'", suggestion(name, names));
    }
    if (std::ranges::find(given, field->name, [](const Given& one) { return one.field.name; }) != given.end())
      throw Error(ErrorCode::invalid_argument, name, " is given twice; expected either ", flag_of(name), " or --option ",
                  name, "=VALUE, once");
    given.push_back({*field, typed, true});
  }
  return given;
}

Problem ProblemFlags::problem() const {
  Problem problem{std::string(op_.name()), {}};
  for (const Given& one : given()) problem.fields.set(one.field.name, value_of(one.field, one.typed, one.by_option));
  return problem;
}

std::vector<Problem> ProblemFlags::problems() const {
  const std::vector<Given> all = given();
  std::vector<std::vector<Value>> values;
  std::vector<std::size_t> sizes;
  std::size_t combinations = 1;
  for (const Given& one : all) {
    values.emplace_back();
    for (const std::string& item : items_of(one.field, one.typed))
      values.back().push_back(value_of(one.field, item, one.by_option));
    sizes.push_back(values.back().size());
    combinations *= sizes.back();
    if (combinations > max_problems)
      throw Error(ErrorCode::invalid_argument, "the lists make more than ", max_problems, " problems");
  }
  std::vector<Problem> problems;
  for_each_combination(sizes, [&](const std::vector<std::size_t>& choice) {
    Problem problem{std::string(op_.name()), {}};
    for (std::size_t i = 0; i < all.size(); ++i) problem.fields.set(all[i].field.name, values[i][choice[i]]);
    problem = op_.normalize(problem);
    if (std::ranges::find(problems, problem) == problems.end()) problems.push_back(std::move(problem));
  });
  return problems;
}

namespace {

/// Reports whether a field of a problem with these fields has this value. Without others it may be incomplete.
bool implies(const Op& op, const Problem& shown, const std::string& field, const Value& value) {
  try {
    const Problem implied = op.normalize(shown);
    const Value* same = implied.fields.find(field);
    return same != nullptr && *same == value;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string brief(const Problem& problem) {
  const Op& op = find_op(problem.op);
  const std::vector<FieldInfo> infos = op.problem_fields();
  Problem shown{problem.op, {}};
  for (const FieldInfo& info : infos)
    if (const Value* value = problem.fields.find(info.name); info.default_text.empty() && value != nullptr)
      shown.fields.set(info.name, *value);
  for (const auto& [field, value] : problem.fields) {
    if (field == "dtype" || !implies(op, shown, field, value)) shown.fields.set(field, value);
  }
  return shown.fields.short_text();
}

}  // namespace tunesmith::cli
