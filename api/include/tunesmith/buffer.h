#pragma once
// Device memory for programs that have no allocator of their own: examples, tools, tests.

#include <cstddef>
#include <memory>

#include "tunesmith/engine.h"

namespace tunesmith {

class Device;

/// Owns memory on an engine's device (host memory with the host executor); 256-byte aligned, uninitialized. Keeps the device
/// alive, so it may outlive the engine. Movable; not thread-safe.
class DeviceBuffer {
 public:
  /// Throws Error(out_of_memory) naming the size.
  DeviceBuffer(Engine& engine, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  /// The device address to launch with; nullptr when bytes() is 0.
  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Copy `bytes` bytes from or to the host, starting `offset_bytes` into the buffer; complete when they return. They wait
  /// for work on the default stream only: call Engine::synchronize() first when the data is in use on another one. Throws
  /// Error(invalid_argument) when the range does not fit in the buffer.
  void copy_from_host(const void* host, std::size_t bytes, std::size_t offset_bytes = 0);
  void copy_to_host(void* host, std::size_t bytes, std::size_t offset_bytes = 0) const;

 private:
  std::byte* at(std::size_t bytes, std::size_t offset_bytes) const;

  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tunesmith
