#pragma once
// Parse errors in one line that says what is wrong and what is allowed.

#include <CLI/CLI.hpp>
#include <string>

namespace tunesmith::cli {

std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tunesmith::cli
