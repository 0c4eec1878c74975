#include "jit/cuda/nvml.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace tunesmith {
namespace {

// Declared from NVML's public documentation.
constexpr int success = 0, insufficient_size = 7;
constexpr int sm_clock = 1;
constexpr unsigned do_not_attach_gpus = 2;  // NVML_INIT_FLAG_NO_ATTACH: attach only the GPU that is queried

/// The reasons that mean a disturbance. An idle GPU and clocks that an operator has set are none.
constexpr std::pair<unsigned long long, const char*> clock_reasons[] = {
    {0x4, "power cap"}, {0x8, "hardware slowdown"}, {0x20, "temperature"}, {0x40, "temperature"}, {0x80, "power brake"}};

struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

int parent_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // a program's name may hold anything
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return 0;
  return static_cast<int>(std::strtol(text.c_str() + name_end + 4, nullptr, 10));  // ") S PARENT"
}

bool descends(int pid, int ancestor) {
  while (pid > 0 && pid != ancestor) pid = parent_of(pid);
  return pid == ancestor;
}

std::filesystem::path program_of(int pid) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe", error);
}

}  // namespace

bool is_family(int pid) {
  const int self = getpid(), parent = getppid();
  const std::filesystem::path program = program_of(parent);
  const int eldest = !program.empty() && program == program_of(self) ? parent : self;
  return descends(pid, eldest) || descends(self, pid);
}

Nvml::Nvml(const std::string& library) : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  const auto init = symbol<int (*)(unsigned)>("nvmlInitWithFlags");
  ready_ = init != nullptr && init(do_not_attach_gpus) == success;
}

Nvml::~Nvml() {
  if (const auto shutdown = symbol<int (*)()>("nvmlShutdown"); ready_ && shutdown != nullptr) shutdown();
  if (library_ != nullptr) dlclose(library_);
}

template <typename Function>
Function Nvml::symbol(const char* name) const {
  return library_ != nullptr ? reinterpret_cast<Function>(dlsym(library_, name)) : nullptr;
}

Nvml::Handle Nvml::find(const std::string& uuid) const {
  const auto by_uuid = symbol<int (*)(const char*, Handle*)>("nvmlDeviceGetHandleByUUID");
  Handle handle = nullptr;
  return ready_ && by_uuid != nullptr && by_uuid(uuid.c_str(), &handle) == success ? handle : nullptr;
}

std::string Nvml::driver_version() const {
  const auto version = symbol<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
  char text[96] = {};
  return ready_ && version != nullptr && version(text, sizeof text - 1) == success ? text : "";
}

unsigned Nvml::power_limit_mw(const std::string& uuid) const {
  const auto limit = symbol<int (*)(Handle, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit");
  const Handle handle = find(uuid);
  unsigned milliwatts = 0;
  return handle != nullptr && limit != nullptr && limit(handle, &milliwatts) == success ? milliwatts : 0;
}

DeviceConditions Nvml::conditions(const std::string& uuid) const {
  DeviceConditions now;
  const Handle handle = find(uuid);
  if (handle == nullptr) return now;

  unsigned mhz = 0;
  const auto clock = symbol<int (*)(Handle, int, unsigned*)>("nvmlDeviceGetClockInfo");
  if (clock != nullptr && clock(handle, sm_clock, &mhz) == success) now.sm_clock_mhz = static_cast<int>(mhz);

  using Reasons = int (*)(Handle, unsigned long long*);
  auto reasons = symbol<Reasons>("nvmlDeviceGetCurrentClocksEventReasons");
  if (reasons == nullptr) reasons = symbol<Reasons>("nvmlDeviceGetCurrentClocksThrottleReasons");  // before driver 535
  if (unsigned long long bits = 0; reasons != nullptr && reasons(handle, &bits) == success)
    for (const auto& [bit, reason] : clock_reasons)
      if ((bits & bit) != 0 && std::ranges::find(now.slowed_by, reason) == now.slowed_by.end())
        now.slowed_by.emplace_back(reason);

  using Processes = int (*)(Handle, unsigned*, ProcessInfo*);
  auto list = symbol<Processes>("nvmlDeviceGetComputeRunningProcesses_v3");
  if (list == nullptr) list = symbol<Processes>("nvmlDeviceGetComputeRunningProcesses_v2");  // of the same structures
  if (list == nullptr) return now;
  std::vector<ProcessInfo> found(64);
  auto count = static_cast<unsigned>(found.size());
  int result = list(handle, &count, found.data());
  if (result == insufficient_size) {
    found.resize(2 * std::size_t{count});
    count = static_cast<unsigned>(found.size());
    result = list(handle, &count, found.data());
  }
  if (result != success) return now;
  found.resize(std::min<std::size_t>(count, found.size()));
  // In a container the numbers may be the host's, where this process has another number.
  const auto self = static_cast<unsigned>(getpid());
  if (std::ranges::find(found, self, &ProcessInfo::pid) == found.end()) return now;
  for (const ProcessInfo& process : found)
    if (const int pid = static_cast<int>(process.pid); !is_family(pid)) now.other_processes.push_back(pid);
  std::ranges::sort(now.other_processes);
  return now;
}

}  // namespace tunesmith
