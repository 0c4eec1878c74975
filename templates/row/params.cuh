// Parameters of all row kernels. Operations append their own. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// The kernels' only argument. Strides are in elements. Forward: input[0] = x; backward: input[0] = dy, input[1] = y.
struct RowParams {
  const void* input[2];
  void* output;
  const void* mask;
  const void* valid_cols;  ///< int32
  void* workspace;
  int64 rows;
  int64 input_stride[2];
  int64 output_stride;
  /// The mask of row (outer * mask_middle + middle) * mask_inner + inner starts at the sum of index * stride.
  int64 mask_inner, mask_middle, mask_inner_stride, mask_middle_stride, mask_outer_stride;
  int64 valid_cols_group;       ///< rows that share an entry of valid_cols
  int64 groups;                 ///< cooperative groups in the grid (GridGroup), or blocks per row (split)
  float scale;                  ///< positive
  float log2e_high, log2e_low;  ///< scale * log2(e) in two floats; of f64: the halves of the bits of scale, as double
  float far_below;              ///< 120 / scale
  float large_maximum;          ///< 2^20 / scale
  int cols;                     ///< columns of the rows
};

}  // namespace tunesmith
