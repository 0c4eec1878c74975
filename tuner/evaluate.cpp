#include "tuner/evaluate.h"

#include <utility>
#include <vector>

#include "jit/executable.h"
#include "tuner/device_memory.h"

namespace tunesmith {

Evaluate evaluate_on(Device& device, std::shared_ptr<Module> module) {
  return [&device, module = std::move(module)](const LaunchPlan& plan, std::span<const HostArray> arrays) {
    std::vector<DeviceMemory> memory;
    std::vector<void*> addresses;
    const auto bytes = [](const HostArray& array) { return static_cast<std::size_t>(array.info.extent_bytes()); };
    for (const HostArray& array : arrays) {
      addresses.push_back(memory.emplace_back(device, bytes(array)).get());
      if (array.info.input) device.copy_to_device(addresses.back(), array.data, bytes(array));
    }
    Executable(device, module, plan).enqueue(addresses, nullptr);
    device.synchronize(nullptr);
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i].info.output) device.copy_to_host(arrays[i].data, addresses[i], bytes(arrays[i]));
  };
}

}  // namespace tunesmith
