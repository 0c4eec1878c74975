// Parameters of matmul/wgmma.cuh. The host includes this file, too, and fills them.
#pragma once

#include "device/tensor_map.cuh"
#include "matmul/params.cuh"

namespace tunesmith {

/// The kernel's only argument. Boxes of a and b are a block's share of a cluster's tile, 64 elements wide; boxes of c have
/// 16 rows, one warp's, of 128 bytes. All are swizzled over 128 bytes.
struct MatmulWgmmaParams {
  MatmulParams product;
  TensorMap a, b, c;
  unsigned char* workspace;  ///< with a split k: float sums of the parts of the tiles
};

}  // namespace tunesmith
