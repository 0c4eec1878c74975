#pragma once
// The commands of the tool. Each adds itself to the parser and, when it is chosen, leaves what shall be done.

#include <functional>

#include "api/cli/arguments/cli11.h"

namespace tunesmith::cli {

/// Does a command's work and returns the exit code; may throw Error.
using Action = std::function<int()>;

// `chosen` must outlive the parsing.
void add_run(CLI::App& app, Action& chosen);
void add_source(CLI::App& app, Action& chosen);
void add_tune(CLI::App& app, Action& chosen);
void add_prewarm(CLI::App& app, Action& chosen);
void add_cache(CLI::App& app, Action& chosen);
void add_doctor(CLI::App& app, Action& chosen);

}  // namespace tunesmith::cli
