#pragma once
// Estimates resident blocks per multiprocessor from a kernel's resources and a device's limits, for architectures that are
// not in this machine. For a present device, Module::occupancy() queries the driver.

#include "core/launch.h"
#include "jit/compiler.h"
#include "tunesmith/device_info.h"

namespace tunesmith::cli {

struct Occupancy {
  int blocks = 0;          ///< resident blocks per multiprocessor
  double warp_share = 0;   ///< fraction of the maximum number of resident warps
  const char* limit = "";  ///< the limiting resource: "threads", "registers", "shared memory" or "blocks"
};

/// Allocation granularities are from the technical specifications of the CUDA C++ Programming Guide.
Occupancy estimate_occupancy(const DeviceInfo& device, const KernelResources& resources, const KernelLaunch& launch);

}  // namespace tunesmith::cli
