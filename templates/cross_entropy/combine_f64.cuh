// Combines the partials of the vocabulary shards of f64 logits, as cross_entropy/combine.cuh does: one thread per row.
#pragma once

#include "cross_entropy/arithmetic_f64.cuh"
#include "cross_entropy/shard_f64.cuh"

namespace tunesmith {

/// Placeholder: combining partials does not depend on the row shape.
static constexpr RowShape no_columns_of_double = {.cols = 1, .vector = 1, .mask_vector = 1, .wide = true};

template <typename TargetType, const CrossEntropyOptions& options, int threads>
__device__ __forceinline__ void cross_entropy_combine(const ParamsOf<options>& params) {
  const int64 row = block_index() * threads + thread_index();
  if (row >= params.row.rows) return;
  const auto* const partials = reinterpret_cast<const DoubleShardPartial*>(params.shard_partials);
  const Target<TargetType> target(params, row, params.vocab_size);
  RunningCrossEntropy<no_columns_of_double, options> state;
  double target_logit = Maximum::identity(), target_weight = 1.0;
  bool has_target = false;
  for (int64 shard = 0; shard < params.shards; ++shard) {
    const DoubleShardPartial stored = partials[shard * params.row.rows + row];
    PartialOf<options> part;
    part.largest = stored.largest;
    part.sum_excluding_max = stored.sum_excluding_max;
    if constexpr (options.smoothing) {
      part.below = stored.below;
      part.weights = stored.weights;
    }
    if constexpr (options.argmax) part.index = static_cast<int>(stored.index);
    state.include(part);
    if (stored.has_target != 0.0) {
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
