// Parameters of the kernels of attention's backward pass. The host includes this file, too, and fills them.
#pragma once

#include "attention/params.cuh"

namespace tunesmith {

/// The kernels' only argument.
struct AttentionBackwardParams {
  AttentionParams attention;  ///< o and lse are inputs here
  const void* dout;           ///< gradient of o
  const float* dlse;          ///< gradient of lse, in its layout
  void *dq, *dk, *dv;
  float *dsinks, *dslopes;  ///< (heads)
  AttentionStrides dout_strides, dq_strides, dk_strides, dv_strides;
  int64 statistics_rows;  ///< of a head in the workspace: its rows of lse, or more, which are as if they had no keys
  int64 rows;             ///< of all statistics
  int64 lse_at, delta_at, slopes_at, sums_at, counters_at;  ///< bytes from the start of the workspace
  int64 counter_words;                                      ///< counters that the first kernel zeroes
  int kv_tiles;                                             ///< of the longest sequence
  int blocks;                      ///< that have keys of their own; persistent blocks of wgmma go through as many numbers
  int64 prepare_stride;            ///< threads of the first kernel
  int slope_parts, parts_of_tile;  ///< parts of dslopes in the workspace: of a head of a batch entry, of a tile
  AttentionDropout dropout;
};

}  // namespace tunesmith
