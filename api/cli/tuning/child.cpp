#include "api/cli/tuning/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include "api/cli/tuning/interrupt.h"
#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

constexpr const char* self = "/proc/self/exe";

[[noreturn]] void fail(const char* call, int error) {
  throw Error(ErrorCode::io, "cannot start a process of this program: ", call, ": ", std::strerror(error));
}

/// Passes an interrupt on to the child once, and kills a child that does not stop because a kernel never ends.
class Stopper {
 public:
  Stopper(pid_t process, std::chrono::milliseconds grace) : process_(process), grace_(grace) {}

  void look() {
    if (!interrupted()) return;
    const auto now = std::chrono::steady_clock::now();
    if (!asked_) {
      kill(process_, SIGTERM);
      asked_ = now;
    } else if (now - *asked_ >= grace_) {
      kill(process_, SIGKILL);
    }
  }

 private:
  pid_t process_;
  std::chrono::milliseconds grace_;
  std::optional<std::chrono::steady_clock::time_point> asked_;
};

std::string read_all(int file, Stopper& stopper) {
  constexpr int look_every_ms = 100;
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    stopper.look();
    pollfd waited{.fd = file, .events = POLLIN, .revents = 0};
    const int ready = poll(&waited, 1, look_every_ms);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = read(file, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ChildExit run_self(const std::vector<std::string>& arguments, std::chrono::milliseconds grace) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe", errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);

  std::vector<char*> argv{const_cast<char*>("tunesmith")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t process = 0;
  const int failure = posix_spawn(&process, self, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) {
    close(ends[0]);
    fail("posix_spawn", failure);
  }

  ChildExit result;
  Stopper stopper(process, grace);
  result.out = read_all(ends[0], stopper);
  close(ends[0]);
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) fail("waitpid", errno);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

}  // namespace tunesmith::cli
