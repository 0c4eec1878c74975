#pragma once
// A cubin loaded into the driver.

#include <map>
#include <mutex>

#include "jit/cuda/device.h"

namespace tunesmith {

/// A CUDA library. It is independent of contexts; each kernel is loaded into a context when it is resolved there.
class CudaModule final : public Module {
 public:
  CudaModule(const CudaDevice& device, const Binary& binary);
  ~CudaModule() override;

  int occupancy(const KernelLaunch& launch) const override;

  /// Returns the kernel with its attributes raised to what the launch needs. Attributes are never lowered, so that plans of
  /// the same kernel do not affect each other. Throws Error(not_found) for an unknown entry and Error(unsupported) if the
  /// launch exceeds the device's limits.
  cuda::KernelHandle kernel_for(const KernelLaunch& launch) const;
  /// Returns the resident blocks per multiprocessor. `function` belongs to the current context.
  int blocks_per_sm(cuda::FunctionHandle function, const KernelLaunch& launch) const;
  /// Loads the kernel into the current context, so that its first launch does nothing that a stream capture forbids.
  cuda::FunctionHandle function(cuda::KernelHandle kernel, const KernelLaunch& launch) const;

 private:
  struct Kernel {
    cuda::KernelHandle handle = nullptr;
    int max_threads = 0, static_smem_bytes = 0, max_dynamic_smem_bytes = 0;
    bool non_portable_clusters = false;
  };

  Kernel& find(const std::string& entry) const;

  const CudaDevice& device_;
  cuda::LibraryHandle library_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Kernel> kernels_;
};

}  // namespace tunesmith
