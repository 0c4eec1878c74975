#include "jit/host/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string_view>

#include "tunesmith/error.h"

namespace tunesmith::host {
namespace {

/// Returns whether the system collects ended children by itself, so that nobody learns how they ended: a program that
/// ignores SIGCHLD, or that was started by one, because this is inherited.
bool loses_exit_codes() {
  struct sigaction now {};
  return sigaction(SIGCHLD, nullptr, &now) == 0 && (now.sa_handler == SIG_IGN || (now.sa_flags & SA_NOCLDWAIT) != 0);
}

// Starts children with the default action for SIGCHLD: a compiler waits for children of its own.
class Attributes {
 public:
  Attributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    posix_spawnattr_setsigdefault(&attributes_, &children);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// Redirects the child's standard descriptors without changing this process's own.
class FileActions {
 public:
  explicit FileActions(const std::string& output_path) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, output_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
  }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions_); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// Reads what the shell wrote, which gives 126 and 127 for a program that it cannot start.
int read_exit_code(const std::string& command, const std::string& path) {
  int code = 0;
  if (!(std::ifstream(path) >> code)) throw Error(ErrorCode::io, "cannot tell how ", command, " ended");
  return code == 126 || code == 127 ? ProcessResult::not_found : code;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const std::string& output_path) {
  // A shell that waits for the command tells the exit code then.
  const std::string code_path = output_path + ".exit_code";
  const bool in_shell = loses_exit_codes();
  std::vector<std::string> words = command;
  if (in_shell) words.insert(words.begin(), {"/bin/sh", "-c", R"("$@"; echo $? >"$0")", code_path});
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  std::string english = "LC_ALL=C";
  std::vector<char*> environment = {english.data()};
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable)
    if (!std::string_view(*variable).starts_with("LC_ALL=")) environment.push_back(*variable);
  environment.push_back(nullptr);

  const FileActions actions(output_path);
  pid_t child = 0;
  const int failure =
      posix_spawnp(&child, arguments[0], actions.get(), Attributes().get(), arguments.data(), environment.data());
  if (failure == ENOENT || failure == EACCES || failure == ENOTDIR) return {ProcessResult::not_found};
  if (failure != 0) throw Error(ErrorCode::io, "cannot start ", command[0], ": ", std::strerror(failure));

  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == ECHILD && in_shell) return {read_exit_code(command[0], code_path)};
    if (errno != EINTR) throw Error(ErrorCode::io, "cannot wait for ", command[0], ": ", std::strerror(errno));
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

}  // namespace tunesmith::host
