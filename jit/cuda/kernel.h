#pragma once
// A kernel bound to its launch geometry. The hot path calls this.

#include <array>
#include <string>

#include "jit/cuda/module.h"

namespace tunesmith {

/// Describes a launch for error messages: "softmax with grid 4096x1x1, block 256x1x1, 0 bytes of dynamic shared memory".
std::string describe(const KernelLaunch& launch);

/// The launch attributes that a geometry requires.
class LaunchAttributes {
 public:
  explicit LaunchAttributes(const KernelLaunch& launch);
  bool empty() const noexcept { return count_ == 0; }
  /// Returns the driver's launch configuration, which points into this object.
  cuda::LaunchConfig config(const KernelLaunch& launch, cuda::StreamHandle stream) const noexcept;

 private:
  // Mutable because the driver takes a non-const pointer, although it does not write through it.
  mutable std::array<cuda::LaunchAttribute, 3> attributes_ = {};
  unsigned count_ = 0;
};

class CudaKernel final : public PreparedKernel {
 public:
  /// Requires a current context on the device.
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
  const cuda::ContextHandle context_;  // the context of function_
  cuda::KernelHandle kernel_ = nullptr;
  cuda::FunctionHandle function_ = nullptr;
};

}  // namespace tunesmith
