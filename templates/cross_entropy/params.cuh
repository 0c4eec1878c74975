// Parameters of the cross-entropy kernels. The host includes this file, too, and fills them.
#pragma once

#include "row/params.cuh"

namespace tunesmith {

/// The kernels' only argument. row.input[0] is logits, row.output is dlogits. `Number`: float, or double as the logits.
template <typename Number>
struct CrossEntropyParamsOf {
  RowParams row;
  const void* targets;  // the first six are all that a plain loss reads: neighbours share lines of the constant cache
  Number* loss;         ///< [rows], or [1]
  Number* lse;          ///< [rows]
  int64 ignore_index;
  int64 vocab_start, vocab_size;
  const Number* weight;    ///< [cols]
  const Number* upstream;  ///< dloss: [1] or [rows]
  const Number* lse_in;    ///< backward: [rows]
  const Number* nll_in;    ///< backward: [rows]
  Number* z_loss;          ///< shape of loss
  Number* nll;             ///< [rows]
  void* argmax;            ///< [rows], with the dtype of the targets
  float* shard_partials;   ///< shards: [shards][rows][8]
  int64* num_correct;      ///< [1]
  int64* bad_targets;      ///< [2]
  /// Offsets in the workspace: one number per row for the first four, then partial and final totals.
  int64 row_losses, row_z_losses, row_weights, row_correct, partial_totals, totals;  // bytes
  int64 partials;  ///< blocks that write partial totals, or 0
  int64 shards;
  Number scale, softcap, inverse_softcap;
  Number hard_share;    ///< 1 - label smoothing
  Number smooth_share;  ///< label smoothing / vocab_size
  Number z_factor;
  Number* lse_low;  ///< [rows]; the backward operation reads it
};
using CrossEntropyParams = CrossEntropyParamsOf<float>;

}  // namespace tunesmith
