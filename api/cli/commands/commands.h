#pragma once
// The commands of the tool. Each adds itself to the parser and, if it is chosen, leaves its work in Parse::action.

#include <functional>

#include "api/cli/arguments/cli11.h"

namespace tunesmith::cli {

/// Does a command's work and returns the exit code; may throw Error.
using Action = std::function<int()>;

/// State that the commands share while the command line is parsed.
struct Parse {
  Action action;        ///< of the chosen command
  bool expand = false;  ///< add the flags of every operation, not only of the chosen one
};

// `parse` must outlive the parsing.
void add_run(CLI::App& app, Parse& parse);
void add_source(CLI::App& app, Parse& parse);
void add_tune(CLI::App& app, Parse& parse);
void add_prewarm(CLI::App& app, Parse& parse);
void add_work(CLI::App& app, Parse& parse);
void add_report(CLI::App& app, Parse& parse);
void add_cache(CLI::App& app, Parse& parse);
void add_row_gradient(CLI::App& app, Parse& parse);
void add_ops(CLI::App& app, Parse& parse);
void add_doctor(CLI::App& app, Parse& parse);
void add_completion(CLI::App& app, Parse& parse);

/// Sets up the tool's name, version and help, and adds all commands.
void add_commands(CLI::App& app, Parse& parse);

}  // namespace tunesmith::cli
