#include "tunesmith/buffer.h"

#include <utility>

#include "api/engine/parts.h"

namespace tunesmith {

DeviceBuffer::DeviceBuffer(Engine& engine, std::size_t bytes) : device_(engine.parts().device), bytes_(bytes) {
  if (bytes > 0) data_ = device_->allocate(bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) device_->release(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(std::move(other.device_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

std::byte* DeviceBuffer::at(std::size_t bytes, std::size_t offset_bytes) const {
  if (offset_bytes > bytes_ || bytes > bytes_ - offset_bytes)
    throw Error(ErrorCode::invalid_argument, "cannot copy ", bytes, " bytes at offset ", offset_bytes, "; the buffer has ",
                bytes_);
  return static_cast<std::byte*>(data_) + offset_bytes;
}

void DeviceBuffer::copy_from_host(const void* host, std::size_t bytes, std::size_t offset_bytes) {
  std::byte* const to = at(bytes, offset_bytes);
  if (bytes > 0) device_->copy_to_device(to, host, bytes);
}

void DeviceBuffer::copy_to_host(void* host, std::size_t bytes, std::size_t offset_bytes) const {
  const std::byte* const from = at(bytes, offset_bytes);
  if (bytes > 0) device_->copy_to_host(host, from, bytes);
}

}  // namespace tunesmith
