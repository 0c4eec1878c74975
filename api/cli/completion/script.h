#pragma once
// Completion scripts for shells, made from the parser's commands and flags.

#include <cstdint>
#include <string>

#include "api/cli/arguments/cli11.h"

namespace tunesmith::cli {

enum class Shell : std::uint8_t { bash, zsh };

/// Returns the script. `app` must hold every flag of every command (Parse::expand).
std::string completion_script(const CLI::App& app, Shell shell);

}  // namespace tunesmith::cli
