#include "tests/api/cli/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

std::string slurp(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

std::string built_program() {
  return (fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "api/cli/tunesmith").string();
}

CliTest::CliTest() {
  std::string name = (fs::temp_directory_path() / "tunesmith-cli-XXXXXX").string();
  folder_ = mkdtemp(name.data());
}

CliTest::~CliTest() {
  std::error_code ignored;
  fs::permissions(folder_, fs::perms::owner_all, ignored);
  fs::remove_all(folder_, ignored);
}

int CliTest::start(const std::vector<std::string>& arguments) const {
  std::map<std::string, std::string> variables;
  for (const char* kept : {"PATH", "LD_LIBRARY_PATH", "TUNESMITH_CUDA", "CUDA_HOME", "CUDA_PATH", "TMPDIR", "ASAN_OPTIONS",
                           "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"})
    if (const char* value = std::getenv(kept)) variables[kept] = value;
  variables["HOME"] = folder_.string();
  variables["TUNESMITH_CACHE"] = cache_file();
  if (!shipped_records) variables["TUNESMITH_SYSTEM_CACHE"] = "";
  for (const auto& [variable, value] : environment) variables[variable] = value;
  for (const std::string& variable : without) variables.erase(variable);
  std::vector<std::string> lines;
  for (const auto& [variable, value] : variables) lines.push_back(variable + "=" + value);
  std::vector<char*> envp, argv{const_cast<char*>(program.c_str())};
  for (std::string& line : lines) envp.push_back(line.data());
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  envp.push_back(nullptr);
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, path("stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, path("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t process = 0;
  const int failure = posix_spawn(&process, program.c_str(), &actions, nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0);
  return process;
}

Outcome CliTest::wait_for(int process) const {
  int status = 0;
  waitpid(process, &status, 0);
  return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), slurp(path("stdout")), slurp(path("stderr"))};
}

Outcome CliTest::run(const std::vector<std::string>& arguments) const { return wait_for(start(arguments)); }

void CliTest::expect_rejected(const std::vector<std::string>& arguments, const std::vector<std::string>& parts,
                              int code) const {
  std::string command;
  for (const std::string& argument : arguments) command += " " + argument;
  SCOPED_TRACE(command);
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, code) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("tunesmith: error: ")) << outcome.err;
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  for (const std::string& part : parts)
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in: " << outcome.err;
}

nlohmann::json CliTest::run_json(std::vector<std::string> arguments) const {
  arguments.emplace_back("--json");
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  nlohmann::json json = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << outcome.out;
  return json;
}

std::string CliTest::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(path(name), std::ios::binary) << bytes;
  return path(name);
}

std::string CliTest::read(const std::string& name) const { return slurp(path(name)); }

std::vector<std::string> CliTest::files() const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (name == ".nv") continue;  // the driver's own, under the test's home, where there is a GPU
    if (name != "stdout" && name != "stderr" && !name.ends_with(".lock")) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

bool CliTest::has_nvrtc() const { return run_json({"doctor"})["nvrtc"]["found"] == true; }
bool CliTest::has_gpu() const { return !run_json({"doctor"})["driver"]["gpus"].empty(); }

}  // namespace tunesmith::cli
