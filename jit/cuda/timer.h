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
  /// Implements Device::time_us. Enqueues all works back to back as [flush, start, work, stop] and waits once, at the end.
  std::vector<double> time_us(std::span<const std::function<void(Stream)>> works, bool flush_l2);

 private:
  void grow(std::size_t works, bool flush_l2);
  /// Lets a flush evict the lines that earlier kernels loaded with an evict_last policy.
  void release_kept_lines();

  const CudaDevice& device_;
  const Driver& driver_;
  const cuda::ContextHandle context_;
  const std::filesystem::path lock_folder_;
  cuda::StreamHandle stream_ = nullptr;
  std::vector<cuda::EventHandle> events_;  // start and stop of each work
  cuda::Address flush_ = 0;
  std::size_t flush_bytes_ = 0;
};

}  // namespace tunesmith
