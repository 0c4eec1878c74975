#pragma once
// Parse errors in one line: the mistake and the allowed values.

#include <CLI/CLI.hpp>
#include <string>

namespace tunesmith::cli {

std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tunesmith::cli
