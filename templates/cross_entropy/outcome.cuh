// Stores the results of a row: losses to the caller's arrays or, before a reduction, to the workspace; partials of a
// vocabulary shard to the caller, who combines them.
#pragma once

#include "cross_entropy/reduction.cuh"
#include "cross_entropy/running.cuh"

namespace tunesmith {

/// The partial of a slice of a row, and the target's logit, which a gradient in place may overwrite.
template <const CrossEntropyOptions& options>
struct StoredPartial {
  PartialOf<options> part;
  NumberOf<options> target_logit;
};

/// A row's partial for one vocabulary shard, as stored in memory.
struct alignas(16) ShardPartial {
  float largest, sum_excluding_max, below, weights;  ///< as in CrossEntropyPartial, exactly relative to `largest`
  float target_logit;                                ///< -inf unless the target is in this shard
  float target_weight;                               ///< 0 unless the target is in this shard
  float has_target;                                  ///< 1 if the target is in this shard
  float index;                                       ///< bits of the first class with the maximum logit
};

/// Writes the results of a row. Called by one thread.
template <typename TargetType, const CrossEntropyOptions& options>
__device__ __forceinline__ void write_loss(const ParamsOf<options>& params, int64 row, const Target<TargetType>& target,
                                           const RowLoss<options>& result, int64 target_class) {
  NumberOf<options>* const losses = options.reduced ? scratch(params, params.row_losses) : params.loss;
  losses[row] = result.loss;
  params.lse[row] = result.lse;
  if constexpr (options.lse_low) params.lse_low[row] = result.lse_low;
  if constexpr (options.z_loss) {
    NumberOf<options>* const z_losses = options.reduced ? scratch(params, params.row_z_losses) : params.z_loss;
    z_losses[row] = result.z_loss;
  }
  if constexpr (options.nll) params.nll[row] = result.nll;
  if constexpr (options.reduced && options.weights)
    scratch(params, params.row_weights)[row] = target.counts() ? result.target_weight : 0.0f;
  if constexpr (options.argmax)
    if (params.argmax != nullptr)
      static_cast<TargetType*>(params.argmax)[row] =
          static_cast<TargetType>(options.mark_ignored && target.ignored ? -1 : result.argmax);
  if constexpr (options.count_correct)
    scratch(params, params.row_correct)[row] = target.counts() && result.argmax == target_class ? 1.0f : 0.0f;
}

/// Writes the partial of a row. Called by one thread. `part.largest` includes the target's logit.
template <const CrossEntropyOptions& options>
__device__ __forceinline__ void write_partial(const ParamsOf<options>& params, int64 row, const PartialOf<options>& part,
                                              bool has_target, float target_logit, float target_weight) {
  const float under = part.largest == Maximum::identity() ? 0.0f : part.largest;
  const LogitExponential exponential(under);
  ShardPartial result = {
      part.largest, divide(part.sum_excluding_max, exponential(under)), 0.0f, 0.0f, target_logit, 0.0f, 0.0f, 0.0f};
  if (has_target) {
    result.target_weight = target_weight;
    result.has_target = 1.0f;
  }
  if constexpr (options.smoothing) {
    result.below = part.below;
    result.weights = part.weights;
  }
  if constexpr (options.argmax) {
    result.index = float_of(static_cast<uint32>(part.index + static_cast<int>(params.vocab_start)));
  }
  reinterpret_cast<ShardPartial*>(params.shard_partials)[row] = result;
}

}  // namespace tunesmith
