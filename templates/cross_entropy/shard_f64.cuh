// Partials of a vocabulary shard in double, for logits of f64.
#pragma once

#include "cross_entropy/outcome.cuh"

namespace tunesmith {

/// A row's partial for one vocabulary shard, as stored in memory: the counterpart of ShardPartial.
struct alignas(16) DoubleShardPartial {
  double largest, sum_excluding_max, below, weights;  ///< as in CrossEntropyPartial
  double target_logit;                                ///< -inf unless the target is in this shard
  double target_weight;                               ///< 0 unless the target is in this shard
  double has_target;                                  ///< 1 if the target is in this shard
  double index;                                       ///< the first class with the maximum logit, as a number
};

/// Writes the partial of a row. Called by one thread. `part.largest` includes the target's logit. Exponentials of double are
/// exactly relative to it.
template <const CrossEntropyOptions& options>
__device__ __forceinline__ void write_partial(const ParamsOf<options>& params, int64 row, const PartialOf<options>& part,
                                              bool has_target, double target_logit, double target_weight) {
  DoubleShardPartial result = {part.largest, part.sum_excluding_max, 0.0, 0.0, target_logit, 0.0, 0.0, 0.0};
  if (has_target) {
    result.target_weight = target_weight;
    result.has_target = 1.0;
  }
  if constexpr (options.smoothing) {
    result.below = part.below;
    result.weights = part.weights;
  }
  if constexpr (options.argmax) result.index = static_cast<double>(part.index + params.vocab_start);
  reinterpret_cast<DoubleShardPartial*>(params.shard_partials)[row] = result;
}

}  // namespace tunesmith
