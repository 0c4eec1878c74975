#pragma once
// Scopes that set the calling thread's CUDA state around driver calls.

#include "jit/cuda/device.h"

namespace tunesmith {

/// Makes a context of the device current for its lifetime. Keeps the thread's current context if that belongs to the device;
/// otherwise uses the device's primary context.
class ContextScope {
 public:
  explicit ContextScope(const CudaDevice& device);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  cuda::ContextHandle context() const noexcept { return context_; }

 private:
  const Driver& driver_;
  cuda::ContextHandle context_ = nullptr;
  bool pushed_ = false;
};

/// Permits calls that CUDA considers unsafe during stream capture (allocation, loading, synchronization) for its lifetime.
/// They do not invalidate a capture on another thread or another stream.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) { driver_->exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { driver_->exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  const Driver& driver_;
  cuda::CaptureMode mode_ = cuda::CaptureMode::relaxed;
};

}  // namespace tunesmith
