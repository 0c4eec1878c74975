#include "api/engine/child_process.h"

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
#include <string_view>

#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const ChildCommand& command, const char* call, int error) {
  throw Error(ErrorCode::io, "cannot run '", command.program.string(), "': ", call, ": ", std::strerror(error));
}

/// Asks a child to stop, and kills one that does not stop or that takes too long.
class Stopper {
 public:
  Stopper(pid_t process, const ChildCommand& command) : process_(process), command_(command) {}

  void look() {
    const Clock::time_point now = Clock::now();
    if (command_.is_waiting && command_.is_waiting()) start_ = now;
    if (command_.limit.count() > 0 && now - start_ >= command_.limit && !hung_) {
      hung_ = true;
      kill(process_, SIGKILL);
    }
    if (!command_.stop || !command_.stop()) return;
    if (!asked_) {
      kill(process_, SIGTERM);
      asked_ = now;
    } else if (now - *asked_ >= command_.grace) {
      kill(process_, SIGKILL);
    }
  }
  bool hung() const noexcept { return hung_; }

 private:
  const pid_t process_;
  const ChildCommand& command_;
  Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> asked_;
  bool hung_ = false;
};

std::string read_all(int file, const ChildCommand& command, Stopper& stopper) {
  constexpr int look_every_ms = 100;
  std::string text;
  std::size_t line_start = 0;
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
    for (std::size_t end; command.line && (end = text.find('\n', line_start)) != std::string::npos; line_start = end + 1)
      command.line(text.substr(line_start, end - line_start));
  }
}

/// The variables of this process and of the command, "NAME=value".
std::vector<std::string> environment_of(const ChildCommand& command) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    bool is_replaced = false;
    for (const auto& [other, value] : command.environment) is_replaced = is_replaced || other == name;
    if (!is_replaced) variables.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

ChildExit run_child(const ChildCommand& command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(command, "pipe", errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  if (command.quiet) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  if (command.input >= 0) posix_spawn_file_actions_adddup2(&actions, command.input, STDIN_FILENO);
  std::vector<std::string> arguments{command.program.filename().string()};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  std::vector<std::string> environment = environment_of(command);
  pid_t process = 0;
  const int failure = posix_spawn(&process, command.program.c_str(), &actions, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (failure != 0) {
    close(ends[0]);
    fail(command, "posix_spawn", failure);
  }

  ChildExit result;
  Stopper stopper(process, command);
  result.out = read_all(ends[0], command, stopper);
  close(ends[0]);
  result.hung = stopper.hung();
  int status = 0;
  while (waitpid(process, &status, 0) < 0) {
    if (errno == ECHILD) return result;  // the program that uses this library collects all children; the output must suffice
    if (errno != EINTR) fail(command, "waitpid", errno);
  }
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

}  // namespace tunesmith
