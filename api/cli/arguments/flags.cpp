#include "api/cli/arguments/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>

#include "api/cli/arguments/errors.h"
#include "api/engine/cache_files.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

/// Reports whether a file starts with text. A cache file does not, even if it is damaged; it is moved aside then, which must
/// not happen to a file that was named by mistake.
bool is_text_file(const std::filesystem::path& file) {
  constexpr std::string_view database = "SQLite format 3";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;
  std::array<char, 64> bytes{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  const std::string_view start(bytes.data(), static_cast<std::size_t>(stream.gcount()));
  const auto is_text = [](char c) { return (c >= ' ' && c < 127) || c == '\n' || c == '\r' || c == '\t'; };
  return !start.empty() && !start.starts_with(database) && std::ranges::all_of(start, is_text);
}

}  // namespace

std::pair<std::string, std::string> split_pair(const std::string& text, std::string_view flag, std::string_view form) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(ErrorCode::invalid_argument, flag, " is '", text, "'; expected ", form);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void EngineFlags::add_device(CLI::App& command) {
  command.add_option("--device", device_, "where to run (default: auto, the first GPU, else the host executor)")
      ->type_name("auto|cuda|cuda:N|host");
}

void EngineFlags::add_mode(CLI::App& command) {
  command
      .add_option("--mode", mode_,
                  "tune: measure what has no record; replay, later: records only; off: the default configuration "
                  "(default: $TUNESMITH_MODE, else tune)")
      ->type_name("tune|later|replay|off");
}

void EngineFlags::add_cache(CLI::App& command) {
  command.add_option("--cache", cache_, "cache file (default: $TUNESMITH_CACHE, else in the user's cache folder)")
      ->type_name("FILE");
}

void EngineFlags::add_specialize(CLI::App& command, Specialize by_default) {
  specialize_by_default_ = by_default;
  command
      .add_option(
          "--specialize", specialize_,
          "row kernels for one number of columns, its bucket, or both (default: " + std::string(name(by_default)) + ")")
      ->type_name("exact|capacity|auto");
}

EngineOptions EngineFlags::options() const {
  EngineOptions options = EngineOptions::from_environment();
  options.specialize = specialize_ ? parse_specialize(*specialize_) : specialize_by_default_;
  if (device_) options.device = *device_;
  if (mode_) options.mode = parse_mode(*mode_);
  if (cache_) {
    std::error_code ignored;
    if (cache_->empty() || std::filesystem::is_directory(*cache_, ignored))
      throw Error(ErrorCode::invalid_argument, "--cache is '", *cache_, "'; expected a file",
                  cache_->empty() ? "" : ", this is a folder");
    if (is_text_file(*cache_))
      throw Error(ErrorCode::invalid_argument, "--cache is '", *cache_, "'; expected a cache file, this is a text file");
    options.cache_file = *cache_;
  }
  if (!options.log)
    options.log = [](EngineOptions::Level level, const std::string& text) {
      if (level == EngineOptions::Level::warning) warn(text);
    };
  return options;
}

void ConfigFlag::add_to(CLI::App& command) {
  command.add_option("--config", texts_, "pin all or some of the configuration, e.g. threads=512")
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

CLI::Option* add_number(CLI::App& command, const std::string& flag, std::int64_t& number, std::int64_t least,
                        std::int64_t most, const std::string& meaning) {
  const auto read = [flag, &number, least, most](const std::string& typed) {
    const char* const end = typed.data() + typed.size();
    const auto [rest, failure] = std::from_chars(typed.data(), end, number);
    if (failure != std::errc() || rest != end || number < least || number > most)
      throw Error(ErrorCode::invalid_argument, flag, " is '", typed, "'; allowed: ", least, " to ", most);
  };
  return command.add_option_function<std::string>(flag, read, meaning)->type_name("N");
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

std::shared_ptr<Cache> open_cache(const EngineOptions& options) { return std::make_shared<Cache>(cache_options(options)); }

TemplateSet open_templates(const EngineOptions& options) {
  return options.templates_folder.empty() ? TemplateSet::embedded() : TemplateSet::from_folder(options.templates_folder);
}

}  // namespace tunesmith::cli
