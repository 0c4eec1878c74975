#include "api/cli/flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "api/cli/errors.h"
#include "api/cli/nearest.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const Op* op : all_ops()) names.emplace_back(op->name());
  return names;
}

std::string help_of(const FieldInfo& field) {
  std::string text(field.meaning);
  for (std::size_t i = 0; i < field.words.size(); ++i) text += (i == 0 ? ": " : "|") + std::string(field.words[i]);
  text += field.default_text.empty() ? " (required)" : " (default: " + std::string(field.default_text) + ")";
  return text;
}

/// A word stays one even when it looks like a number; a number that is none is left for the operation to judge.
Value value_of(const FieldInfo& field, const std::string& typed) {
  if (!field.words.empty()) return typed;
  Value value = parse_value(typed);
  const bool digits = typed.find_first_not_of("+-0123456789") == std::string::npos;
  if (digits && !std::holds_alternative<std::int64_t>(value))
    throw Error(ErrorCode::invalid_argument, field.name, " is ", typed, "; expected a number that fits 64 bits");
  return value;
}

}  // namespace

std::string flag_of(std::string_view field) {
  std::string flag = "--" + std::string(field);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::pair<std::string, std::string> split_pair(const std::string& text, std::string_view flag, std::string_view form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(ErrorCode::invalid_argument, flag, " is '", text, "'; expected ", form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string brief(const Problem& problem) {
  const Op& op = find_op(problem.op);
  const std::vector<FieldInfo> infos = op.problem_fields();
  Problem shown{problem.op, {}};
  for (const FieldInfo& info : infos)
    if (const Value* value = problem.fields.find(info.name); info.default_text.empty() && value != nullptr)
      shown.fields.set(info.name, *value);
  for (const auto& [field, value] : problem.fields) {
    const Problem implied = op.normalize(shown);
    const Value* same = implied.fields.find(field);
    if (field == "dtype" || same == nullptr || *same != value) shown.fields.set(field, value);
  }
  return shown.fields.text();
}

void ProblemFlags::add_to(CLI::App& command) {
  command.add_option("op", op_, "operation: " + listed(op_names()))->required()->type_name("OP");
  // One flag per field name; the help groups it under the operations that have it.
  std::vector<std::pair<std::string, const FieldInfo*>> known;
  std::map<std::string, std::string> owners;
  std::vector<std::vector<FieldInfo>> lists;
  for (const Op* op : all_ops()) lists.push_back(op->problem_fields());
  for (std::size_t i = 0; i < lists.size(); ++i)
    for (const FieldInfo& field : lists[i]) {
      std::string& owner = owners[std::string(field.name)];
      if (owner.empty()) known.emplace_back(field.name, &field);
      owner += (owner.empty() ? "" : ", ") + std::string(all_ops()[i]->name());
    }
  for (const auto& [name, field] : known)
    command
        .add_option_function<std::string>(
            flag_of(name), [this, key = name](const std::string& typed) { fields_[key] = typed; }, help_of(*field))
        ->type_name(field->words.empty() ? "N" : "WORD")
        ->group("Problem of " + owners[name]);
  command.add_option("--option", options_, "the same by field name, e.g. --option rows=4096; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
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
    flags.push_back(flag_of(info.name));
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
      throw Error(ErrorCode::invalid_argument, op_, " has no flag ", flag_of(field), did_you_mean(flag_of(field), flags),
                  " Allowed: ", listed(flags));
    problem.fields.set(field, value_of(*info, typed));
  }
  for (const std::string& option : options_) {
    const auto [field, typed] = split_pair(option, "--option", "NAME=VALUE");
    const FieldInfo* info = info_of(field);
    if (info == nullptr)
      throw Error(ErrorCode::invalid_argument, op_, " has no option '", field, "'", did_you_mean(field, names),
                  " Allowed: ", listed(names));
    if (problem.fields.contains(field))
      throw Error(ErrorCode::invalid_argument, "--option ", field, " is given twice, or beside ", flag_of(field));
    problem.fields.set(field, value_of(*info, typed));
  }
  return problem;
}

void EngineFlags::add_device(CLI::App& command) {
  command
      .add_option("--device", device_, "auto, cuda, cuda:N or host (default: auto, the first GPU or else the host executor)")
      ->type_name("WHERE");
}

void EngineFlags::add_mode(CLI::App& command) {
  command.add_option("--mode", mode_, "tune: measure what is new; replay: records only; off: default configuration")
      ->type_name("tune|replay|off");
}

void EngineFlags::add_cache(CLI::App& command) {
  command.add_option("--cache", cache_, "cache file (default: $TUNESMITH_CACHE, else the user's cache folder)")
      ->type_name("FILE");
}

EngineOptions EngineFlags::options() const {
  EngineOptions options = EngineOptions::from_environment();
  if (device_) options.device = *device_;
  if (mode_) options.mode = parse_mode(*mode_);
  if (cache_) {
    std::error_code ignored;
    if (cache_->empty() || std::filesystem::is_directory(*cache_, ignored))
      throw Error(ErrorCode::invalid_argument, "--cache is '", *cache_, "'; expected a file",
                  cache_->empty() ? "" : ", this is a folder");
    options.cache_file = *cache_;
  }
  if (!options.log)
    options.log = [](EngineOptions::Level level, const std::string& text) {
      if (level == EngineOptions::Level::warning) warn(text);
    };
  return options;
}

void ConfigFlag::add_to(CLI::App& command) {
  command.add_option("--config", texts_, "pin the configuration, in whole or in part, e.g. variant=online,threads=512")
      ->type_name("K=V,...")
      ->allow_extra_args(false);
}

Config ConfigFlag::config() const {
  Config config;
  for (const std::string& text : texts_)
    for (const auto& [name, value] : parse_fields(text, "--config")) {
      if (config.fields.contains(name)) throw Error(ErrorCode::invalid_argument, "--config names '", name, "' twice");
      config.fields.set(name, value);
    }
  return config;
}

double parse_duration(const std::string& text, std::string_view flag) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  for (const auto& [name, seconds] : {std::pair("ms", 1e-3), std::pair("s", 1.0), std::pair("m", 60.0), std::pair("", 1.0)})
    if (failure == std::errc() && unit == name && std::isfinite(number) && number > 0) return number * seconds;
  throw Error(ErrorCode::invalid_argument, flag, " is '", text, "'; expected a time above 0 such as 500ms, 10s or 2m");
}

std::shared_ptr<Cache> open_cache(const EngineOptions& options) {
  CacheOptions cache;
  cache.file = options.cache_file;
  cache.system_files = options.system_caches;
  if (options.log) cache.warn = [log = options.log](const std::string& text) { log(EngineOptions::Level::warning, text); };
  return std::make_shared<Cache>(std::move(cache));
}

TemplateSet open_templates(const EngineOptions& options) {
  return options.templates_folder.empty() ? TemplateSet::embedded() : TemplateSet::from_folder(options.templates_folder);
}

}  // namespace tunesmith::cli
