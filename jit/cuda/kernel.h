#pragma once
// A kernel bound to its geometry: what the hot path calls.

#include <array>
#include <string>

#include "jit/cuda/module.h"

namespace tunesmith {

/// "softmax with grid 4096x1x1, block 256x1x1, 0 bytes of dynamic shared memory", for messages.
std::string describe(const KernelLaunch& launch);

/// The launch attributes that a geometry needs.
class LaunchAttributes {
 public:
  explicit LaunchAttributes(const KernelLaunch& launch);
  bool empty() const noexcept { return count_ == 0; }
  /// The driver's description of the launch; points into this object.
  cuda::LaunchConfig config(const KernelLaunch& launch, cuda::StreamHandle stream) const noexcept;

 private:
  // The driver takes a pointer to non-const and does not write through it.
  mutable std::array<cuda::LaunchAttribute, 3> attributes_ = {};
  unsigned count_ = 0;
};

class CudaKernel final : public PreparedKernel {
 public:
  /// Call with a context of the device current.
  CudaKernel(const CudaDevice& device, const CudaModule& module, const KernelLaunch& launch, cuda::ContextHandle context);
  void enqueue(const void* params, Stream stream) const override;

 private:
  cuda::Result launch(cuda::FunctionHandle function, const void* params, cuda::StreamHandle stream) const;
  cuda::Result launch_in_other_context(const void* params, cuda::StreamHandle stream) const;
  [[noreturn]] void fail(cuda::Result result) const;

  const CudaDevice& device_;
  const Driver& driver_;
  const KernelLaunch launch_;
  const LaunchAttributes attributes_;
  const cuda::ContextHandle context_;  // where function_ belongs
  cuda::KernelHandle kernel_ = nullptr;
  cuda::FunctionHandle function_ = nullptr;
};

}  // namespace tunesmith
