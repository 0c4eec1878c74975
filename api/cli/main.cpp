// tunesmith: the command-line tool. Parses, runs the command, and turns a failure into one line and an exit code.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "api/cli/arguments/errors.h"
#include "api/cli/arguments/usage.h"
#include "api/cli/commands/commands.h"

namespace tunesmith::cli {
namespace {

int parse_and_run(int argc, char** argv) {
  CLI::App app;
  Parse parse;
  add_commands(app, parse);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "tunesmith: error: %s\n", usage_error(app, error).c_str());
    return exit_usage;
  }
  return parse.action();
}

}  // namespace
}  // namespace tunesmith::cli

int main(int argc, char** argv) {
  using namespace tunesmith;
  try {
    const int code = cli::parse_and_run(argc, argv);
    if (std::fflush(stdout) == 0) return code;
    std::fputs("tunesmith: error: stdout cannot be written\n", stderr);
  } catch (const Error& error) {
    return cli::report(error);
  } catch (const std::bad_alloc&) {
    std::fputs("tunesmith: error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tunesmith: error: %s\n", error.what());
  }
  return cli::exit_failed;
}
