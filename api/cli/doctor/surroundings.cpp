#include "api/cli/doctor/surroundings.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace tunesmith::cli {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

std::string os_name(const fs::path& root) {
  std::istringstream lines(contents(root / "etc/os-release"));
  constexpr std::string_view name = "PRETTY_NAME=";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    line.erase(0, name.size());
    std::erase(line, '"');
    return line;
  }
  return "unknown";
}

bool has_nvidia_gpu(const fs::path& root) {
  return std::ranges::any_of(entries(root / "sys/bus/pci/devices"), [](const fs::path& device) {
    // Class 3 is a display controller, also one without a display.
    return contents(device / "vendor").starts_with("0x10de") && contents(device / "class").starts_with("0x03");
  });
}

bool is_device_file(const std::string& name) {
  if (name == "nvidiactl" || name == "nvidia-uvm" || name == "dxg") return true;
  return name.starts_with("nvidia") && name.size() > 6 && name.find_first_not_of("0123456789", 6) == std::string::npos;
}

// The first number with dots in "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...".
std::string module_version(const fs::path& root) {
  std::istringstream words(contents(root / "proc/driver/nvidia/version"));
  for (std::string word; words >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return {};
}

}  // namespace

Surroundings look_around(const fs::path& root) {
  Surroundings found;
  found.os = os_name(root);
  if (utsname system{}; uname(&system) == 0)
    found.kernel = std::string(system.sysname) + " " + system.release + " " + system.machine;
  found.libc = std::string("glibc ") + gnu_get_libc_version();
  std::error_code ignored;
  for (const char* mark : {".dockerenv", "run/.containerenv", "var/run/secrets/kubernetes.io"})
    found.in_container = found.in_container || fs::exists(root / mark, ignored);
  found.has_nvidia_gpu = has_nvidia_gpu(root);
  for (const fs::path& file : entries(root / "dev")) {
    if (!is_device_file(file.filename().string())) continue;
    const std::string name = "/dev/" + file.filename().string();
    found.device_files.push_back(name);
    if (access(file.c_str(), R_OK | W_OK) != 0) found.closed_files.push_back(name);
  }
  found.driver_version = module_version(root);
  return found;
}

}  // namespace tunesmith::cli
