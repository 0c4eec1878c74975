// A TMA tensor map as a kernel parameter.
#pragma once

namespace tunesmith {

/// A CUtensorMap in a kernel's __grid_constant__ parameters; the launch plan describes its contents.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

}  // namespace tunesmith
