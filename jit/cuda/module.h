#pragma once
// A cubin in the driver.

#include <map>
#include <mutex>

#include "jit/cuda/device.h"

namespace tunesmith {

/// A CUDA library: independent of contexts; each kernel is loaded into a context when it is resolved there.
class CudaModule final : public Module {
 public:
  CudaModule(const CudaDevice& device, const Binary& binary);
  ~CudaModule() override;

  int occupancy(const KernelLaunch& launch) const override;

  /// The kernel, with its attributes raised to what the launch needs: set once per kernel, never lowered, so that plans of
  /// one kernel do not undo each other. Throws Error(not_found) for an unknown entry, Error(unsupported) when the device
  /// cannot give what the launch asks for.
  cuda::KernelHandle kernel_for(const KernelLaunch& launch) const;
  /// Resident blocks per multiprocessor; `function` as below, in the current context.
  int blocks_per_sm(cuda::FunctionHandle function, const KernelLaunch& launch) const;
  /// The kernel in the current context, loaded: its first launch does no work that a capture forbids.
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
