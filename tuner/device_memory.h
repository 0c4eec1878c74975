#pragma once
// Device memory with an owner.

#include <utility>

#include "jit/device.h"

namespace tunesmith {

/// Released with its owner; the device must outlive it. Zero bytes: a null address.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Throws Error(out_of_memory).
  DeviceMemory(Device& device, std::size_t bytes)
      : device_(&device), memory_(bytes == 0 ? nullptr : static_cast<std::byte*>(device.allocate(bytes))) {}
  DeviceMemory(DeviceMemory&& other) noexcept : device_(other.device_), memory_(std::exchange(other.memory_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~DeviceMemory() {
    if (memory_ != nullptr) device_->release(memory_);
  }

  std::byte* get() const noexcept { return memory_; }

 private:
  Device* device_ = nullptr;
  std::byte* memory_ = nullptr;
};

}  // namespace tunesmith
