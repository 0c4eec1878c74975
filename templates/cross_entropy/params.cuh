// Parameters of the cross-entropy kernels. The host includes this file, too, and fills them.
#pragma once

#include "row/params.cuh"

namespace tunesmith {

/// The kernels' only argument. row.input[0] is logits, row.output is dlogits.
struct CrossEntropyParams {
  RowParams row;
  const void* targets;
  const float* weight;    ///< [cols]
  const float* upstream;  ///< dloss: [1] or [rows]
  const float* lse_in;    ///< backward: [rows]
  const float* nll_in;    ///< backward: [rows]
  float* loss;            ///< [rows], or [1]
  float* lse;             ///< [rows]
  float* z_loss;          ///< shape of loss
  float* nll;             ///< [rows]
  void* argmax;           ///< [rows], with the dtype of the targets
  float* shard_partials;  ///< shards: [shards][rows][8]
  int64* num_correct;     ///< [1]
  int64* bad_targets;     ///< [2]
  /// Offsets in the workspace: one float per row for the first four, then partial and final totals.
  int64 row_losses, row_z_losses, row_weights, row_correct, partial_totals, totals;  // bytes
  int64 partials;  ///< blocks that write partial totals, or 0
  int64 ignore_index;
  int64 vocab_start, vocab_size;
  int64 shards;
  float scale, softcap, inverse_softcap;
  float hard_share;    ///< 1 - label smoothing
  float smooth_share;  ///< label smoothing / vocab_size
  float z_factor;
  float reserved[2];
};

}  // namespace tunesmith
