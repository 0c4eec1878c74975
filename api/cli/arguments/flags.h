#pragma once
// Flags that several commands share, and values in the forms that flags take.

#include <optional>
#include <string>
#include <vector>

#include "api/cli/arguments/cli11.h"
#include "cache/cache.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

/// --device, --mode, --cache: each command adds those that it supports.
class EngineFlags {
 public:
  void add_device(CLI::App& command);
  void add_mode(CLI::App& command);
  void add_cache(CLI::App& command);
  /// Adds --specialize. Without it, commands specialize for the problem that they name.
  void add_specialize(CLI::App& command, Specialize by_default = Specialize::exact);

  /// The environment's options, overridden by the flags; warnings go to stderr. Throws Error(invalid_argument).
  EngineOptions options() const;

 private:
  std::optional<std::string> device_, mode_, cache_, specialize_;
  Specialize specialize_by_default_ = Specialize::exact;
};

/// --config K=V,...: may be repeated.
class ConfigFlag {
 public:
  void add_to(CLI::App& command);
  /// Throws Error(invalid_argument).
  Config config() const;

 private:
  std::vector<std::string> texts_;
};

/// Adds a flag that takes a whole number from `least` to `most`.
CLI::Option* add_number(CLI::App& command, const std::string& flag, std::int64_t& number, std::int64_t least,
                        std::int64_t most, const std::string& meaning);

/// "NAME=REST" split at the first '='; throws Error(invalid_argument) that names the flag and the form it takes.
std::pair<std::string, std::string> split_pair(const std::string& text, std::string_view flag, std::string_view form);

/// Seconds in "500ms", "10s", "2m" or "10" (seconds). Throws Error(invalid_argument) that names `flag`.
double parse_duration(const std::string& text, std::string_view flag);

/// Opens the cache of the options; warnings go to options.log.
std::shared_ptr<Cache> open_cache(const EngineOptions& options);
/// Opens the templates of the options.
TemplateSet open_templates(const EngineOptions& options);

}  // namespace tunesmith::cli
