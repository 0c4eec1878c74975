// Parameters of the kernel that scales an array. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// The kernel's only argument.
struct ScaleParams {
  void* x;
  const float* factor;  ///< (1)
  int64 elements;
  int64 blocks;  ///< of the grid
};

}  // namespace tunesmith
