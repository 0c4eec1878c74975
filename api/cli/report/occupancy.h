#pragma once
// Resident blocks per multiprocessor, estimated from a kernel's needs and a device's facts: for architectures that are not
// in this machine. Where the device is, Module::occupancy() asks the driver.

#include "core/launch.h"
#include "jit/compiler.h"
#include "tunesmith/device_info.h"

namespace tunesmith::cli {

struct Occupancy {
  int blocks = 0;          ///< resident blocks per multiprocessor
  double warp_share = 0;   ///< of the warps that a multiprocessor holds
  const char* limit = "";  ///< what allows no more: "threads", "registers", "shared memory" or "blocks"
};

/// Allocation granularities are those of the CUDA C++ Programming Guide's table of technical specifications.
Occupancy estimate_occupancy(const DeviceInfo& device, const KernelResources& resources, const KernelLaunch& launch);

}  // namespace tunesmith::cli
