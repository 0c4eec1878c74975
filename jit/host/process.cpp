#include "jit/host/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "tunesmith/error.h"

namespace tunesmith::host {
namespace {

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

}  // namespace

ProcessResult run_process(const std::vector<std::string>& words, const std::string& output_path) {
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
  const int failure = posix_spawnp(&child, arguments[0], actions.get(), nullptr, arguments.data(), environment.data());
  if (failure == ENOENT || failure == EACCES || failure == ENOTDIR) return {ProcessResult::not_found};
  if (failure != 0) throw Error(ErrorCode::io, "cannot start ", words[0], ": ", std::strerror(failure));

  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw Error(ErrorCode::io, "cannot wait for ", words[0], ": ", std::strerror(errno));
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

}  // namespace tunesmith::host
