// Parameters of the kernel. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// The kernel's only argument.
struct MergePartsParams {
  const void* o_parts;
  const float* lse_parts;
  void* o;
  float* lse;                            ///< may be null
  int64 o_part_stride, lse_part_stride;  ///< elements between parts
  int64 rows;                            ///< batch * heads * seq_q
  int parts;
  int inner, outer;    ///< extents of the rows of a sequence, as o has them
  float log2_of_base;  ///< of the base of lse
  float log_of_e;      ///< to this base
};

}  // namespace tunesmith
