#pragma once
// What was wrong with the command line, in one line that says what would be right.

#include <CLI/CLI.hpp>
#include <string>

namespace tunesmith::cli {

std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tunesmith::cli
