// The system, its C++ compiler, and environment variables.

#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "api/cli/doctor/findings.h"
#include "api/engine/parts.h"

namespace tunesmith::cli {

Finding describe_system(const Surroundings& around) {
  Finding finding{{{"os", around.os},
                   {"kernel", around.kernel},
                   {"libc", around.libc},
                   {"container", around.in_container},
                   {"nvidia_gpu_on_pci", around.has_nvidia_gpu}},
                  {}};
  finding.lines.emplace_back(
      "system", around.os + ", " + around.kernel + ", " + around.libc + (around.in_container ? ", in a container" : ""));
  return finding;
}

Finding look_for_host_compiler(const EngineOptions& options, bool has_gpu) {
  Finding finding{{{"found", false}}, {}};
  try {
    const std::string identity = open_compiler(DeviceInfo::Kind::host, options)->identity();
    finding.facts = {{"found", true}, {"identity", identity}};
    finding.lines.emplace_back("host compiler", identity);
  } catch (const Error& error) {
    finding.facts["error"] = error.what();
    finding.lines.emplace_back("host compiler", std::string("not found: ") + error.what());
    if (!has_gpu)
      finding.diagnoses.push_back({"there is no C++ compiler: kernels cannot run on the CPU (--device host)",
                                   "apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora, RHEL)"});
  }
  return finding;
}

Finding look_at_environment() {
  static constexpr std::string_view others[] = {"CUDA_HOME",       "CUDA_PATH",          "CUDA_VISIBLE_DEVICES",
                                                "LD_LIBRARY_PATH", "NVRTC_APPEND_FLAGS", "VIRTUAL_ENV",
                                                "XDG_CACHE_HOME"};
  Finding finding{Json::object(), {}};
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const std::string_view variable = line.substr(0, line.find('='));
    if (!variable.starts_with("TUNESMITH_") && std::ranges::find(others, variable) == std::end(others)) continue;
    const std::string value(line.substr(std::min(line.size(), variable.size() + 1)));
    finding.facts[std::string(variable)] = value;
    finding.lines.emplace_back("environment", std::string(variable) + "=" + value);
  }
  std::ranges::sort(finding.lines);
  return finding;
}

}  // namespace tunesmith::cli
