#pragma once
// Shared parts of the NVRTC and GPU tests: a temporary folder, and a compiler without which tests are skipped.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "jit/cuda/nvrtc_compiler.h"
#include "tunesmith/error.h"

namespace tunesmith {

/// An empty folder that the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tunesmith-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns the folders of the environment variables, as an application passes them.
inline CudaFolders test_folders() {
  const auto split = [](const char* variable) {
    std::vector<std::filesystem::path> paths;
    const char* const value = std::getenv(variable);
    std::stringstream text(value != nullptr ? value : "");
    for (std::string part; std::getline(text, part, ':');)
      if (!part.empty()) paths.emplace_back(part);
    return paths;
  };
  CudaFolders folders;
  folders.given = split("TUNESMITH_CUDA");
  folders.toolkits = split("CUDA_HOME");
  folders.loader = split("LD_LIBRARY_PATH");
  folders.wheels = split("VIRTUAL_ENV");
  return folders;
}

/// Reports whether a library whose name contains `part` is mapped into this process.
inline bool is_mapped(const std::string& part) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

inline std::string missing_nvrtc() {
  try {
    NvrtcCompiler({.folders = test_folders(), .dump_folder = {}, .append_flags = {}}).version();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

#define TUNESMITH_NEEDS_NVRTC() \
  if (const std::string reason = ::tunesmith::missing_nvrtc(); !reason.empty()) GTEST_SKIP() << reason

/// Runs `call` and returns the Error that it throws.
template <typename Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return Error(ErrorCode::not_found, "no error");
}

}  // namespace tunesmith
