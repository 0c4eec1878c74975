// Parameters of attention_backward/wgmma.cuh. The host includes this file, too, and fills them.
#pragma once

#include "attention_backward/params.cuh"
#include "device/tensor_map.cuh"

namespace tunesmith {

/// The kernels' only argument.
struct WgmmaBackwardParams {
  AttentionBackwardParams backward;
  /// (head_dim, seq, heads, batch); boxes of 64 columns, swizzled over 128 bytes. Boxes of dk and dv have 64 rows.
  TensorMap q, k, v, dout, dk, dv;
};

}  // namespace tunesmith
