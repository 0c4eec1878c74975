// tunesmith row-gradient: prints the program that computes the gradient of a row program.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "api/cli/arguments/errors.h"
#include "api/cli/commands/commands.h"
#include "api/cli/input/text_file.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/passes/gradient.h"

namespace tunesmith::cli {

void add_row_gradient(CLI::App& app, Parse& parse) {
  CLI::App* command = app.add_subcommand("row-gradient", "print the gradient of a row program, which is a row program");
  auto path = std::make_shared<std::string>();
  command->add_option("FILE", *path, "the program, or the name of a shipped one (docs/row-programs.md)")
      ->required()
      ->type_name("FILE.row");
  command->callback([&parse, path] {
    parse.action = [path] {
      const std::string text = read_source("program", "FILE.row", *path);
      std::fputs(row_program::gradient_text(row_program::parse(text, *path)).c_str(), stdout);
      return exit_done;
    };
  });
}

}  // namespace tunesmith::cli
