// Parameters of the copy kernels. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// The kernel's only argument.
struct CopyParams {
  const void* input[2];
  void* output;
  int64 elements;
};

}  // namespace tunesmith
