// Runs a command without a shell.
#pragma once

#include <string>
#include <vector>

namespace tunesmith::host {

struct ProcessResult {
  int exit_code = 0;  ///< 128 + signal if a signal ended it; not_found if there is no such program
  static constexpr int not_found = -1;
};

/// Runs a command and waits for it. Looks command[0] up on PATH unless it has a slash. Writes standard output and error to
/// `output_path`; the C locale keeps messages in English. Throws Error(io) if no process can be created.
ProcessResult run_process(const std::vector<std::string>& command, const std::string& output_path);

}  // namespace tunesmith::host
