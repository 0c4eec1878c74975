#pragma once
// The flags that several commands share: the problem (built from the operations' descriptors) and the engine.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/cli/arguments/cli11.h"
#include "cache/cache.h"
#include "templates/op.h"
#include "templates/template_set.h"
#include "tunesmith/engine.h"

namespace tunesmith::cli {

/// "x_row_stride" -> "--x-row-stride".
std::string flag_of(std::string_view field);
/// Whether some operation has an option of this name: --option takes it, and no flag of that operation.
bool is_option(std::string_view field);
/// Whether some operation has a text of this name, whose flag, and key in a spec, takes the name of a file.
bool names_file(std::string_view field);

/// OP and the fields of every operation's problem: shapes and element types as flags, options through --option. An operation
/// that is added needs no line here.
class ProblemFlags {
 public:
  /// `this` must outlive the parsing.
  void add_to(CLI::App& command);

  /// Throws Error(invalid_argument).
  const Op& op() const;
  /// What was given, not normalized: flags, then --option, which takes any field. Throws Error(invalid_argument) for a flag
  /// that the operation does not have, a malformed or unknown --option, and a field that is given twice.
  Problem problem() const;

 private:
  std::string op_;
  std::map<std::string, std::string> fields_;  // as typed, by field name
  std::vector<std::string> options_;
};

/// --device, --mode, --cache: each command adds those that it heeds.
class EngineFlags {
 public:
  void add_device(CLI::App& command);
  void add_mode(CLI::App& command);
  void add_cache(CLI::App& command);

  /// The environment's options, overridden by the flags; warnings go to stderr. Throws Error(invalid_argument).
  EngineOptions options() const;

 private:
  std::optional<std::string> device_, mode_, cache_;
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

/// A normalized problem without the fields that would be the same if they were left out: "rows=4096,cols=1024,dtype=f32".
std::string brief(const Problem& problem);

/// "NAME=REST" split at the first '='; throws Error(invalid_argument) that names the flag and the form it takes.
std::pair<std::string, std::string> split_pair(const std::string& text, std::string_view flag, std::string_view form);

/// Seconds in "500ms", "10s", "2m" or "10" (seconds). Throws Error(invalid_argument) that calls the text `flag`.
double parse_duration(const std::string& text, std::string_view flag);

/// The Cache that the options ask for; warnings as options.log has them.
std::shared_ptr<Cache> open_cache(const EngineOptions& options);
/// The templates that the options ask for.
TemplateSet open_templates(const EngineOptions& options);

}  // namespace tunesmith::cli
