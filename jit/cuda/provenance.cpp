// Facts that a measurement depends on in addition to the device class: driver, clocks, power limit, and who else is there.

#include <fstream>

#include "jit/cuda/device.h"
#include "jit/cuda/nvml.h"

namespace tunesmith {
namespace {

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
  if (!options_.nvml_library.empty()) {
    const Nvml nvml(options_.nvml_library);
    if (version.empty()) version = nvml.driver_version();
    if (const unsigned milliwatts = nvml.power_limit_mw(uuid_); milliwatts != 0)
      facts["power_limit_w"] = std::to_string(milliwatts / 1000);
  }
  if (!version.empty()) facts["driver"] = version;
  return provenance_ = std::move(facts);
}

DeviceConditions CudaDevice::conditions() const {
  if (options_.nvml_library.empty()) return {};
  const std::lock_guard lock(nvml_mutex_);
  if (nvml_ == nullptr) nvml_ = std::make_unique<const Nvml>(options_.nvml_library);
  return nvml_->conditions(uuid_);
}

}  // namespace tunesmith
