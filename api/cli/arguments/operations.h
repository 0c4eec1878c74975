#pragma once
// The operations as subcommands: tunesmith run OP, tunesmith source OP, tunesmith tune OP.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/cli/arguments/problem_flags.h"
#include "api/cli/commands/commands.h"

namespace tunesmith::cli {

/// The group of an operation's subcommand.
inline constexpr const char* operations_group = "Operations";

/// Adds a command's own flags to the subcommand of an operation, and returns what the subcommand does. The problem's flags
/// are already there.
using AddFlags = std::function<Action(CLI::App& command, const std::shared_ptr<const ProblemFlags>& problem)>;

/// Adds a subcommand for each operation. Only the operation on the command line gets its flags, unless `parse.expand`.
/// `parse` must outlive the parsing.
void add_operations(CLI::App& command, Parse& parse, const AddFlags& add_flags);

/// Names of the operations that help and errors list.
std::vector<std::string> listed_operations();

/// Names of the shipped row programs in lines for help. Their gradients have the same names, followed by "_gradient".
std::string shipped_programs_text();

/// "; did you mean 'softmax'? Allowed: ..." for a name that no operation has. Shipped row programs may be the nearest.
std::string suggested_operation(std::string_view typed);

/// The operation of this name; throws Error(invalid_argument) that suggests the nearest one.
const Op& operation(std::string_view name);

}  // namespace tunesmith::cli
