#include "api/cli/doctor/advice.h"

#include <algorithm>

namespace tunesmith::cli {
namespace {

constexpr int oldest_cuda = 12000;  // Driver::open() needs functions of CUDA 12.0
constexpr const char* install_driver = "install NVIDIA driver 525 or newer";
constexpr const char* start_with_gpus =
    "start the container with its GPUs: docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ... (or "
    "podman run --device nvidia.com/gpu=all ...)";

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Diagnosis no_library(const Surroundings& around, const DriverFacts& driver) {
  // The loader says "No such file" unless a file exists that it cannot load.
  if (!contains(driver.loader_error, "No such file"))
    return {"the driver's library cannot be loaded: " + driver.loader_error,
            around.in_container ? start_with_gpus : "install the driver again; its library has to be for this architecture"};
  const bool has_module = !around.device_files.empty() || !around.driver_version.empty();
  const std::string version = around.driver_version.empty() ? "" : " " + around.driver_version;
  if (around.in_container)
    return {has_module ? "the container has the devices of the driver" + version + " (" +
                             (around.device_files.empty() ? "/proc/driver/nvidia" : join(around.device_files)) +
                             "), but not its library libcuda.so.1"
                       : "this machine has an NVIDIA GPU, but the container has neither its devices nor libcuda.so.1",
            start_with_gpus};
  if (has_module)
    return {"the driver" + version + " is loaded, but its library libcuda.so.1 is not installed",
            "apt-get install libcuda1 (Debian) or libnvidia-compute-NNN (Ubuntu)" +
                (version.empty() ? std::string() : ", of version" + version)};
  return {
      "this machine has an NVIDIA GPU, but no driver",
      std::string(install_driver) + ": apt-get install nvidia-driver (Debian, non-free), ubuntu-drivers install (Ubuntu)"};
}

Diagnosis no_gpu(const Surroundings& around, const DriverFacts& driver, const char* visible_devices) {
  const std::string seen = "the driver " + driver.path + " sees no GPU";
  if (visible_devices != nullptr)
    return {seen + ": CUDA_VISIBLE_DEVICES is '" + visible_devices + "'", "unset CUDA_VISIBLE_DEVICES"};
  const bool has_gpu_file = std::ranges::any_of(around.device_files, [](const std::string& file) {
    return file == "/dev/dxg" || file.find_first_of("0123456789") != std::string::npos;
  });
  if (!has_gpu_file)
    return {seen + ": there is no /dev/nvidia0",
            around.in_container ? start_with_gpus : "modprobe nvidia && nvidia-modprobe -c 0 -u (as root)"};
  if (!around.closed_files.empty())
    return {seen + ": this user may not open " + join(around.closed_files),
            "let this user read and write them: add it to their group, or chmod a+rw (as root)"};
  return {seen, "nvidia-smi shows whether the driver sees one"};
}

Diagnosis failed_start(const Surroundings& around, const DriverFacts& driver) {
  const std::string failed = "the driver " + driver.path + " does not start: " + driver.init_error;
  switch (driver.init) {
    case cuda::error_stub_library:
      return {failed + "; it is the toolkit's stub, which is for linking only",
              "remove the folder from LD_LIBRARY_PATH: " + std::filesystem::path(driver.path).parent_path().string()};
    case cuda::error_system_driver_mismatch:
      return {failed + "; library and kernel module are of different versions" +
                  (around.driver_version.empty() ? "" : " (the module is " + around.driver_version + ")"),
              around.in_container ? "restart the container, so that it gets the host's library" : "reboot"};
    default: break;
  }
  const bool lacks_uvm = !around.device_files.empty() && around.device_files.front() != "/dev/dxg" &&
                         std::ranges::find(around.device_files, "/dev/nvidia-uvm") == around.device_files.end();
  if (lacks_uvm)
    return {failed + "; there is no /dev/nvidia-uvm",
            around.in_container ? start_with_gpus : "nvidia-modprobe -c 0 -u (as root)"};
  if (!around.closed_files.empty())
    return {failed + "; this user may not open " + join(around.closed_files),
            "let this user read and write them: add it to their group, or chmod a+rw (as root)"};
  return {failed, "nvidia-smi shows the driver's state; restart the driver or the machine"};
}

/// A command that makes the library of a location the one in use.
std::string use_this(const NvrtcLocation& location) {
  return "export TUNESMITH_CUDA='" + location.library.parent_path().string() + "'";
}

std::string install_nvrtc(int driver_version, bool in_environment) {
  const bool is_12 = driver_version > 0 && driver_version < 13000;
  const std::string package = std::string("nvidia-cuda-nvrtc") + (is_12 ? "-cu12" : "");
  return in_environment ? "pip install " + package
                        : "pip install --target ~/nvrtc " + package + " && export TUNESMITH_CUDA=~/nvrtc";
}

}  // namespace

std::string cuda_version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }

std::vector<Diagnosis> driver_diagnoses(const Surroundings& around, const DriverFacts& driver, const char* visible_devices) {
  if (driver.path.empty()) {
    const bool expects_gpu = around.has_nvidia_gpu || !around.device_files.empty() || !around.driver_version.empty() ||
                             !contains(driver.loader_error, "No such file");
    return expects_gpu ? std::vector{no_library(around, driver)} : std::vector<Diagnosis>();
  }
  if (driver.api_version > 0 && driver.api_version < oldest_cuda)
    return {{"the driver" + (around.driver_version.empty() ? "" : " " + around.driver_version) + " (" + driver.path +
                 ") is for CUDA " + cuda_version(driver.api_version) + "; 12.0 or newer is needed",
             std::string(install_driver) + (around.in_container ? " on the host of this container" : ", then reboot")}};
  if (driver.init == cuda::error_no_device) return {no_gpu(around, driver, visible_devices)};
  if (driver.init != cuda::success) return {failed_start(around, driver)};
  if (driver.gpus == 0) return {no_gpu(around, driver, visible_devices)};
  return {};
}

std::vector<Diagnosis> nvrtc_diagnoses(const NvrtcFacts& nvrtc, int driver_version, const std::vector<Arch>& gpus) {
  const int driver_major = driver_version / 1000;
  // The best of the others: the first that the driver can load binaries of.
  const auto other = std::ranges::find_if(nvrtc.others, [&](const NvrtcLocation& location) {
    return !location.builtins.empty() && (driver_major == 0 || location.major <= driver_major);
  });
  const bool has_other = other != nvrtc.others.end();
  const std::string fix = has_other ? use_this(*other) : install_nvrtc(driver_version, nvrtc.in_environment);
  const std::string file = nvrtc.location.library.string();
  if (!nvrtc.error.empty()) {
    if (!nvrtc.location.found()) return {{"there is no NVRTC: kernels cannot be compiled for GPUs", fix}};
    return {{"NVRTC " + file + " cannot be used: " + nvrtc.error, fix}};
  }
  const std::string found = "NVRTC " + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor) + " (" + file + ")";
  if (nvrtc.location.found() && nvrtc.location.builtins.empty())
    return {{found + " lacks libnvrtc-builtins.so." + std::to_string(nvrtc.major) + "." + std::to_string(nvrtc.minor) +
                 " in its folder: nothing can be compiled",
             fix}};
  if (driver_major > 0 && nvrtc.major > driver_major)
    return {{found + " is newer than the driver, which is for CUDA " + cuda_version(driver_version) +
                 " and may not load its binaries",
             fix}};
  for (const Arch& gpu : gpus)
    if (std::ranges::find(nvrtc.archs, gpu) == nvrtc.archs.end())
      return {{found + " does not compile for this GPU, " + name(gpu), fix}};
  return {};
}

std::vector<Diagnosis> cache_diagnoses(const CacheFileFacts& file, const CacheInfo& info,
                                       const std::vector<std::string>& damage) {
  using State = CacheFileFacts::State;
  const std::string path = file.file.string();
  const std::string another = "export TUNESMITH_CACHE=FILE, with a file of your own on a local disk";
  std::vector<Diagnosis> found;
  if (path.empty()) return found;
  switch (file.state) {
    case State::newer:
      found.push_back({"the cache " + path + " " + file.reason,
                       "install that version, or give this one a file of its own: export TUNESMITH_CACHE=FILE"});
      return found;
    case State::foreign:
    case State::not_regular:
      found.push_back({"the cache " + path + " " + file.reason + "; it is not used and not changed", another});
      return found;
    case State::damaged:
      found.push_back({"the cache " + path + " " + file.reason,
                       "nothing if it was a cache: the next use moves it aside and begins a new one; else " + another});
      return found;
    case State::unreadable:
      found.push_back({"the cache " + path + " " + file.reason, another + "; or make this user its owner (chown)"});
      return found;
    case State::absent:
    case State::older:
    case State::current: break;
  }
  if (!info.writable && !info.why_not_writable.empty())
    found.push_back(
        {"the cache cannot be written: " + info.why_not_writable, another + "; or make this user its owner (chown)"});
  if (!info.why_not_private.empty()) {
    const std::size_t end = info.why_not_private.rfind("; ");
    std::string fix = end == std::string::npos ? another : info.why_not_private.substr(end + 2);
    if (fix.starts_with("run: ")) fix.erase(0, 5);
    found.push_back({"binaries of the cache " + path + " are not loaded: " + info.why_not_private.substr(0, end), fix});
  }
  if (info.network_file_system)
    found.push_back({"the cache " + path + " is on a network file system, where locks may not work", another});
  if (!damage.empty())
    found.push_back({"the cache " + path + " had damaged rows, which were removed: " + damage.front(),
                     "nothing: they are compiled or tuned again when they are needed"});
  return found;
}

}  // namespace tunesmith::cli
