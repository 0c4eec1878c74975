#pragma once
// How compiled kernels are started: the result of a descriptor's geometry, the input of a device.

#include <cstdint>
#include <string>
#include <vector>

#include "tunesmith/types.h"

namespace tunesmith {

/// One kernel of a launch.
struct KernelLaunch {
  std::string entry;          ///< extern "C" name in the generated source
  Dim3 grid, block, cluster;  ///< blocks, threads, blocks per cluster (1,1,1: no cluster)
  std::int64_t dynamic_smem_bytes = 0;
  bool cooperative = false;  ///< all blocks resident at once: the kernel has a grid barrier
};

/// Everything needed to run a problem once: kernels in stream order, all taking the same parameter block by value.
/// No kernels means there is nothing to do (zero rows).
struct LaunchPlan {
  /// Where an array's address goes in the parameter block, and what is demanded of it.
  struct Pointer {
    std::string array;              ///< "x"
    std::uint32_t offset = 0;       ///< in `params`, bytes
    std::uint32_t alignment = 1;    ///< bytes the address must be a multiple of; a power of two
    std::int64_t extent_bytes = 0;  ///< from the address to the end of the last element; 0: never touched
    bool written = false;
    bool optional = false;  ///< may be nullptr
    int in_place_of = -1;   ///< position of the input that this output may be; they never overlap otherwise
  };

  std::vector<KernelLaunch> kernels;
  std::vector<std::byte> params;       ///< strides, sizes and scalars filled in, addresses zero
  std::vector<Pointer> pointers;       ///< in the order of Op::arrays()
  std::int64_t workspace_bytes = 0;    ///< scratch memory for each stream, 256-byte aligned, zeroed once when it is made
  std::uint32_t workspace_offset = 0;  ///< in `params`; used when workspace_bytes > 0
};

}  // namespace tunesmith
