#pragma once
// The layout of help pages: at most 110 columns wide, flags in groups, similar flags on one line.

#include <CLI/CLI.hpp>
#include <string>

namespace tunesmith::cli {

class HelpPage : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* command, std::string name, CLI::AppFormatMode mode) const override;
};

}  // namespace tunesmith::cli
