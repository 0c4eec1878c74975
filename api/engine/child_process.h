#pragma once
// Runs a program in a child process, which may crash or hang without harm. Internal.

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tunesmith {

struct ChildCommand {
  std::filesystem::path program{};
  std::vector<std::string> arguments{};
  std::vector<std::pair<std::string, std::string>> environment{};  ///< variables to set, on top of this process's
  bool quiet = false;  ///< stdin is empty and stderr is discarded; otherwise, the child shares both
  int input = -1;      ///< file descriptor that becomes the child's stdin; -1: see `quiet`
  /// Receives each complete line of the child's stdout as it is written. Must not throw. May be empty.
  std::function<void(const std::string&)> line{};
  /// Becomes true when the child should stop: it gets SIGTERM, and SIGKILL after `grace`. May be empty.
  std::function<bool()> stop{};
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// The child is killed after this time, because a kernel may never end. 0: no limit.
  std::chrono::milliseconds limit{0};
  /// While this is true, the time does not count. May be empty.
  std::function<bool()> is_waiting{};
};

struct ChildExit {
  int code = 0;       ///< exit code; 0 if a signal ended it
  int signal = 0;     ///< 0: it exited by itself
  bool hung = false;  ///< it was killed because of `limit`
  std::string out;    ///< its stdout
};

/// Runs the program, waits for it and collects its stdout. Throws Error(io) if it cannot be started.
ChildExit run_child(const ChildCommand& command);

}  // namespace tunesmith
