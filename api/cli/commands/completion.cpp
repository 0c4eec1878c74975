// tunesmith completion: prints the completion script of a shell, made from the parser's own tables.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/commands/commands.h"
#include "api/cli/completion/script.h"

namespace tunesmith::cli {

void add_completion(CLI::App& app, Parse& parse) {
  CLI::App* command = app.add_subcommand("completion", "print the completion script of a shell");
  command->group("");
  for (const Shell shell : {Shell::bash, Shell::zsh}) {
    CLI::App* child = command->add_subcommand(shell == Shell::bash ? "bash" : "zsh", "print the script for this shell");
    child->group("Shells");
    child->callback([&parse, shell] {
      parse.action = [shell] {
        CLI::App expanded;
        Parse ignored;
        ignored.expand = true;
        add_commands(expanded, ignored);
        std::fputs(completion_script(expanded, shell).c_str(), stdout);
        return exit_done;
      };
    });
  }
  command->require_subcommand(1);
}

}  // namespace tunesmith::cli
