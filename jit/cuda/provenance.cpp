// Facts that a measurement depends on in addition to the device class: driver, clocks, power limit.

#include <dlfcn.h>

#include <fstream>

#include "jit/cuda/device.h"

namespace tunesmith {
namespace {

// NVML, declared from its public documentation. Opened only here, because its initialization takes milliseconds.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) return;
    const auto init = symbol<int (*)(unsigned)>("nvmlInitWithFlags");
    constexpr unsigned do_not_attach_gpus = 2;  // NVML_INIT_FLAG_NO_ATTACH: attach only the GPU that is queried
    ready_ = init != nullptr && init(do_not_attach_gpus) == 0;
  }
  ~Nvml() {
    if (const auto shutdown = ready_ ? symbol<int (*)()>("nvmlShutdown") : nullptr; shutdown != nullptr) shutdown();
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Returns 0 if unknown.
  unsigned power_limit_mw(const std::string& uuid) const {
    using Device = void*;
    const auto by_uuid = symbol<int (*)(const char*, Device*)>("nvmlDeviceGetHandleByUUID");
    const auto limit = symbol<int (*)(Device, unsigned*)>("nvmlDeviceGetEnforcedPowerLimit");
    Device device = nullptr;
    unsigned milliwatts = 0;
    if (!ready_ || by_uuid == nullptr || limit == nullptr || by_uuid(uuid.c_str(), &device) != 0) return 0;
    return limit(device, &milliwatts) == 0 ? milliwatts : 0;
  }
  std::string driver_version() const {
    const auto version = symbol<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    char text[96] = {};
    return ready_ && version != nullptr && version(text, sizeof text - 1) == 0 ? text : "";
  }

 private:
  template <typename Function>
  Function symbol(const char* name) const {
    return library_ != nullptr ? reinterpret_cast<Function>(dlsym(library_, name)) : nullptr;
  }

  void* library_;
  bool ready_ = false;
};

std::string loaded_driver_version() {
  std::string version;
  std::ifstream("/sys/module/nvidia/version") >> version;
  return version;
}

}  // namespace

std::map<std::string, std::string> CudaDevice::provenance() const {
  const std::lock_guard lock(mutex_);
  if (!provenance_.empty()) return provenance_;
  std::map<std::string, std::string> facts;
  const int api = driver_->api_version();
  facts["cuda_driver_api"] = std::to_string(api / 1000) + "." + std::to_string(api % 1000 / 10);
  facts["device"] = info_.name;
  facts["device_uuid"] = uuid_;
  // Maximum clocks as CUDA reports them; newer devices may report 0.
  facts["sm_clock_khz"] = std::to_string(attribute(cuda::DeviceAttribute::clock_rate_khz));
  facts["memory_clock_khz"] = std::to_string(attribute(cuda::DeviceAttribute::memory_clock_rate_khz));
  std::string version = loaded_driver_version();
  if (options_.use_nvml) {
    const Nvml nvml;
    if (version.empty()) version = nvml.driver_version();
    if (const unsigned milliwatts = nvml.power_limit_mw(uuid_); milliwatts != 0)
      facts["power_limit_w"] = std::to_string(milliwatts / 1000);
  }
  if (!version.empty()) facts["driver"] = version;
  return provenance_ = std::move(facts);
}

}  // namespace tunesmith
