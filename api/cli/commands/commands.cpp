#include "api/cli/commands/commands.h"

#include <CLI/CLI.hpp>

#include "api/cli/arguments/help.h"
#include "tunesmith/version.h"

namespace tunesmith::cli {

void add_commands(CLI::App& app, Parse& parse) {
  app.name("tunesmith");
  app.description("Tunesmith generates CUDA kernels for a given problem, compiles, tunes, checks and caches them.");
  app.set_version_flag("--version", "tunesmith " TUNESMITH_VERSION, "print the version");
  app.set_help_flag("-h,--help", "print this help");
  app.formatter(std::make_shared<HelpPage>());
  app.require_subcommand(1);
  add_run(app, parse);
  add_source(app, parse);
  add_tune(app, parse);
  add_prewarm(app, parse);
  add_work(app, parse);
  add_report(app, parse);
  add_cache(app, parse);
  add_ops(app, parse);
  add_doctor(app, parse);
  add_row_gradient(app, parse);
  add_completion(app, parse);
  // Must be last: CLI11 copies the footer to commands that are added later.
  app.footer(
      "Try:\n"
      "  tunesmith run softmax --rows 4096 --cols 32000 --dtype bf16\n"
      "  tunesmith run attention --help\n"
      "Exit codes: 0 done, 1 failed (a failed check included), 2 wrong usage.");
}

}  // namespace tunesmith::cli
