#pragma once
// A problem on the command line: every field of the operation is a flag.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/cli/arguments/cli11.h"
#include "templates/op.h"

namespace tunesmith::cli {

// Groups of flags in help.
inline constexpr const char* problem_group = "Problem";
inline constexpr const char* memory_layout_group = "Memory layout";

/// "x_row_stride" -> "--x-row-stride".
std::string flag_of(std::string_view field);

/// The fields of one operation's problem as flags, and --option NAME=VALUE, which takes any of them.
class ProblemFlags {
 public:
  explicit ProblemFlags(const Op& op) : op_(op) {}

  /// Adds the flags, except for the memory layout. `this` must outlive the parsing.
  void add_to(CLI::App& command);
  /// Adds strides and alignments: rarely needed, so they come last.
  void add_memory_layout_to(CLI::App& command);

  const Op& op() const noexcept { return op_; }
  /// The given fields, not normalized. Throws Error(invalid_argument) for a malformed or unknown --option, an unknown
  /// choice, and a field that is given twice.
  Problem problem() const;
  /// Every combination of the given fields, normalized, each once; the last field varies fastest. Numbers and choices may be
  /// lists: "1000,2000". Throws the errors of problem(), and Error(invalid_argument) for a problem that does not exist.
  std::vector<Problem> problems() const;

 private:
  struct Given {
    FieldInfo field;
    std::string typed;
    bool by_option;  ///< --option NAME=VALUE, which never names a file
  };

  void add(CLI::App& command, const FieldInfo& field);
  std::vector<Given> given() const;

  const Op& op_;
  std::map<std::string, std::string> typed_;  ///< by field
  std::vector<std::string> options_;          ///< NAME=VALUE
};

/// A normalized problem without the fields that would be the same if they were left out: "rows=4096,cols=1024,dtype=f32".
std::string brief(const Problem& problem);

}  // namespace tunesmith::cli
