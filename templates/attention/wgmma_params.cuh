// Parameters of attention/wgmma.cuh. The host includes this file, too, and fills them.
#pragma once

#include "attention/params.cuh"
#include "device/tensor_map.cuh"

namespace tunesmith {

/// The kernel's only argument.
struct WgmmaParams {
  AttentionParams attention;
  /// (head_dim, seq, heads, batch), or (head_dim, all positions, heads, 1) for packed sequences, or (head_dim, page_size,
  /// heads, pages); boxes of 64 columns, swizzled over 128 bytes. Boxes of o have 16 rows, one warp's.
  TensorMap q, k, v, o;
};

/// The same with dropout.
struct WgmmaDropoutParams {
  WgmmaParams wgmma;
  AttentionDropout dropout;
};

/// The same with lengths of keys in device memory.
struct WgmmaPagedParams {
  WgmmaParams wgmma;
  AttentionPages pages;
};

}  // namespace tunesmith
