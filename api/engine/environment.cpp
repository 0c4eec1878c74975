// Reads EngineOptions from environment variables. No other code of the library reads the environment.

#include <cstdio>
#include <cstdlib>

#include "api/engine/cache_files.h"
#include "api/engine/path_list.h"
#include "tunesmith/engine.h"

namespace tunesmith {
namespace {

namespace fs = std::filesystem;

/// Returns the value, which may be empty, or nullptr if the variable is not set.
const char* variable(const char* name) { return std::getenv(name); }

bool is_given(const char* value) { return value != nullptr && *value != 0; }

[[noreturn]] void reject(const char* name, const std::string& value, const std::string& expected) {
  throw Error(ErrorCode::invalid_argument, name, " is '", value, "'; expected ", expected);
}

void log_to_stderr(const std::string& line) { std::fprintf(stderr, "tunesmith: %s\n", line.c_str()); }

}  // namespace

fs::path EngineOptions::default_cache_file() {
  // The XDG specification requires relative paths to be ignored.
  if (const char* cache = variable("XDG_CACHE_HOME"); is_given(cache) && fs::path(cache).is_absolute())
    return fs::path(cache) / "tunesmith" / "cache.db";
  if (const char* home = variable("HOME"); is_given(home)) return fs::path(home) / ".cache" / "tunesmith" / "cache.db";
  return {};
}

CudaEnvironment CudaEnvironment::of_process() {
  CudaEnvironment environment;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* value = variable(name); is_given(value)) environment.toolkits.emplace_back(value);
  if (const char* value = variable("LD_LIBRARY_PATH")) environment.library_folders = split_paths(value);
  if (const char* value = variable("VIRTUAL_ENV"); is_given(value)) environment.python_folders.emplace_back(value);
  if (const char* value = variable("NVRTC_APPEND_FLAGS")) environment.nvrtc_append_flags = value;
  return environment;
}

EngineOptions EngineOptions::from_environment() {
  EngineOptions options;
  std::error_code ignored;
  if (const char* value = variable("TUNESMITH_CACHE")) {
    options.cache_file = value;
    if (fs::is_directory(options.cache_file, ignored)) reject("TUNESMITH_CACHE", value, "a file; this is a folder");
  }
  if (const char* value = variable("TUNESMITH_SYSTEM_CACHE")) set_system_caches(options, value);
  if (const char* value = variable("TUNESMITH_MODE"); is_given(value)) try {
      options.mode = parse_mode(value);
    } catch (const Error&) {
      reject("TUNESMITH_MODE", value, "tune, later, replay or off");
    }
  if (const char* value = variable("TUNESMITH_LOG"); is_given(value)) {
    const std::string level = value;
    if (level != "info" && level != "warning") reject("TUNESMITH_LOG", level, "info or warning");
    options.log = [everything = level == "info"](Level line_level, const std::string& line) {
      if (everything || line_level == Level::warning) log_to_stderr(line);
    };
  }
  if (const char* value = variable("TUNESMITH_DUMP_DIR"); is_given(value)) {
    options.dump_folder = value;
    if (fs::exists(options.dump_folder, ignored) && !fs::is_directory(options.dump_folder, ignored))
      reject("TUNESMITH_DUMP_DIR", value, "a folder; this is a file");
  }
  if (const char* value = variable("TUNESMITH_TEMPLATES"); is_given(value)) {
    options.templates_folder = value;
    if (!fs::is_directory(options.templates_folder, ignored))
      reject("TUNESMITH_TEMPLATES", value, "a folder that holds the templates");
  }
  if (const char* value = variable("TUNESMITH_TUNER")) options.tuner_program = value;
  if (const char* value = variable("TUNESMITH_PROBLEM_LOG")) options.problem_log = value;
  if (const char* value = variable("TUNESMITH_REMOTE")) options.remote = value;
  if (const char* value = variable("TUNESMITH_CUDA")) options.cuda_folders = split_paths(value);
  return options;
}

}  // namespace tunesmith
