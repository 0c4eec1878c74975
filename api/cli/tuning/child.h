#pragma once
// Runs this program again in a child process, which may crash without harm.

#include <chrono>
#include <string>
#include <vector>

namespace tunesmith::cli {

struct ChildExit {
  int code = 0;     ///< exit code; 0 if a signal ended it
  int signal = 0;   ///< 0: it exited by itself
  std::string out;  ///< what it wrote to stdout
};

/// Runs this executable with the arguments, waits for it and collects its stdout. stdin and stderr are shared, and Ctrl-C
/// reaches both processes. An interrupt of this process (interrupt.h) interrupts the child, and kills it after `grace`,
/// because a kernel may never end. Throws Error(io) if the child cannot be started.
ChildExit run_self(const std::vector<std::string>& arguments, std::chrono::milliseconds grace = std::chrono::seconds(10));

}  // namespace tunesmith::cli
