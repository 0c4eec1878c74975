// Combines the partials of the vocabulary shards: one thread per row.
#pragma once

#include "cross_entropy/outcome.cuh"

namespace tunesmith {

/// Placeholder: combining partials does not depend on the row shape.
static constexpr RowShape no_columns = {.cols = 1, .vector = 1};

template <typename TargetType, const CrossEntropyOptions& options, int threads>
__device__ __forceinline__ void cross_entropy_combine(const CrossEntropyParams& params) {
  const int64 row = block_index() * threads + thread_index();
  if (row >= params.row.rows) return;
  const auto* const partials = reinterpret_cast<const ShardPartial*>(params.shard_partials);
  const Target<TargetType> target(params, row, params.vocab_size);
  RunningCrossEntropy<no_columns, options> state;
  float target_logit = Maximum::identity(), target_weight = 1.0f;
  bool has_target = false;
  for (int64 shard = 0; shard < params.shards; ++shard) {
    const ShardPartial stored = partials[shard * params.row.rows + row];
    PartialOf<options> part;
    part.largest = stored.largest;
    part.sum_excluding_max = multiply(stored.sum_excluding_max, LogitExponential(stored.largest)(stored.largest));
    if constexpr (options.smoothing) {
      part.below = stored.below;
      part.weights = stored.weights;
    }
    if constexpr (options.argmax) part.index = static_cast<int>(bits_of(stored.index));
    state.include(part);
    if (stored.has_target != 0.0f) {
      has_target = true;
      target_logit = stored.target_logit;
      target_weight = stored.target_weight;
    }
  }
  const RowLoss<options> loss(params, state.part(), target_logit, target_weight, target.ignored,
                              target.bad || (target.counts() && !has_target));
  write_loss<TargetType, options>(params, row, target, loss, target.column);
}

}  // namespace tunesmith
