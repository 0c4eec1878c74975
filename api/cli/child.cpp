#include "api/cli/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "tunesmith/error.h"

namespace tunesmith::cli {
namespace {

constexpr const char* self = "/proc/self/exe";

[[noreturn]] void fail(const char* call, int error) {
  throw Error(ErrorCode::io, "cannot start a process of this program: ", call, ": ", std::strerror(error));
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = read(file, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

ChildExit run_self(const std::vector<std::string>& arguments) {
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
  result.out = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(process, &status, 0) < 0)
    if (errno != EINTR) fail("waitpid", errno);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

}  // namespace tunesmith::cli
