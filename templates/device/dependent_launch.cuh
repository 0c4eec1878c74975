// Kernels of a plan that overlap (sm_90 and later): one whose KernelLaunch says `overlaps` may start while the one before it
// ends, and waits itself for what that leaves. Elsewhere both functions do nothing, and kernels follow one another.
// CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

/// The next kernel may be started as soon as every block of this one has come here or ended.
__device__ __forceinline__ void let_next_kernel_start() {
#if !defined(TUNESMITH_HOST_EXECUTOR) && TUNESMITH_SM >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// Waits until the kernel before has ended and what it wrote is there. Before anything of it is read.
__device__ __forceinline__ void await_last_kernel() {
#if !defined(TUNESMITH_HOST_EXECUTOR) && TUNESMITH_SM >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace tunesmith
