#pragma once
// Device memory for programs without their own allocator, such as examples, tools and tests.

#include <cstddef>
#include <memory>

#include "tunesmith/engine.h"

namespace tunesmith {

class Device;

/// Owns uninitialized memory on an engine's device (host memory with the host executor), aligned to 256 bytes. Keeps the
/// device alive, so it may outlive the engine. Movable; not thread-safe.
class DeviceBuffer {
 public:
  /// Allocates memory. Throws Error(out_of_memory) with the size.
  DeviceBuffer(Engine& engine, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  /// Returns the device address; nullptr if bytes() is 0.
  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Copy `bytes` bytes from or to the host, starting at `offset_bytes`; complete when they return. They only wait for work
  /// on the default stream; if another stream uses the data, call Engine::synchronize() first. Throw Error(invalid_argument)
  /// if the range exceeds the buffer.
  void copy_from_host(const void* host, std::size_t bytes, std::size_t offset_bytes = 0);
  void copy_to_host(void* host, std::size_t bytes, std::size_t offset_bytes = 0) const;

 private:
  std::byte* at(std::size_t bytes, std::size_t offset_bytes) const;

  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tunesmith
