#pragma once
// The rules for the calling thread's state around driver calls.

#include "jit/cuda/device.h"

namespace tunesmith {

/// While it lives, the calling thread has a current context on the device: the one it had, if that belongs to the device,
/// else the device's primary context.
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

/// While it lives, calls of this thread that CUDA calls unsafe during a stream capture (allocation, loading, synchronizing)
/// do not break a capture that another thread, or this one on another stream, has under way.
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
