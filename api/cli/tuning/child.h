#pragma once
// This program once more, in a process of its own that may die.

#include <chrono>
#include <string>
#include <vector>

namespace tunesmith::cli {

struct ChildExit {
  int code = 0;     ///< exit code; 0 when a signal ended it
  int signal = 0;   ///< 0: it exited by itself
  std::string out;  ///< what it wrote to stdout
};

/// Runs this executable with the arguments, waits for it and collects its stdout; stdin and stderr are shared, and Ctrl-C
/// reaches both processes. Once this process is asked to stop (interrupt.h) so is the other, and killed if it has not after
/// `grace`: a kernel may never end. Throws Error(io) when it cannot be started.
ChildExit run_self(const std::vector<std::string>& arguments, std::chrono::milliseconds grace = std::chrono::seconds(10));

}  // namespace tunesmith::cli
