#pragma once
// Measures device times with events.

#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "jit/cuda/device.h"

namespace tunesmith {

/// Owns a non-blocking stream, events and the flush buffer of one context. Not thread-safe; every call requires the context
/// to be current.
class CudaTimer {
 public:
  CudaTimer(const CudaDevice& device, cuda::ContextHandle context, std::filesystem::path lock_folder);
  ~CudaTimer();
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;

  cuda::ContextHandle context() const noexcept { return context_; }
  /// Implements Device::time_us. Enqueues each work as [flush, start, work, stop]. Waits before each flush, which the host
  /// starts; without a flush, once at the end.
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2);

 private:
  void grow(std::size_t works, bool flush_l2);
  /// Evicts everything from L2 and leaves it full of lines to write back, as the kernel before does in a program.
  void flush();

  const CudaDevice& device_;
  const Driver& driver_;
  const cuda::ContextHandle context_;
  const std::filesystem::path lock_folder_;
  cuda::StreamHandle stream_ = nullptr;
  std::vector<cuda::EventHandle> events_;  // start and stop of each work
  cuda::Address flushed_ = 0;              // memory that a flush writes
  std::size_t flush_bytes_ = 0;
};

}  // namespace tunesmith
