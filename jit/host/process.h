// Runs a command without a shell.
#pragma once

#include <string>
#include <vector>

namespace tunesmith::host {

struct ProcessResult {
  int exit_code = 0;  ///< 128 + signal when one ended it; not_found when there is no such program
  static constexpr int not_found = -1;
};

/// Looks words[0] up on PATH unless it has a slash. Standard output and error go to `output_path`, messages in English.
/// Throws Error(io) when no process can be made.
ProcessResult run_process(const std::vector<std::string>& words, const std::string& output_path);

}  // namespace tunesmith::host
