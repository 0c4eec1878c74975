// Programmatic dependent launch (sm_90 and later): a kernel whose KernelLaunch sets `overlaps` may start while the previous
// one ends, and waits itself for its results. Elsewhere both functions do nothing and kernels run one after another. CUDA
// C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

/// Allows the next kernel to start once every block of this one has called this or has exited.
__device__ __forceinline__ void let_next_kernel_start() {
#if !defined(TUNESMITH_HOST_EXECUTOR) && TUNESMITH_SM >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// Waits until the previous kernel has completed and its writes are visible. Call it before reading any of them.
__device__ __forceinline__ void await_last_kernel() {
#if !defined(TUNESMITH_HOST_EXECUTOR) && TUNESMITH_SM >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace tunesmith
