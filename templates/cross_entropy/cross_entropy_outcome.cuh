// Where the results of a row go: losses to the caller, or to the workspace where they are summed up; the part of a shard to
// the caller, who brings it together with the others.
#pragma once

#include "cross_entropy/cross_entropy_running.cuh"
#include "cross_entropy/cross_entropy_totals.cuh"

namespace tunesmith {

/// A row's part of a shard of the vocabulary, as it lies in memory.
struct alignas(16) ShardPart {
  float largest, others;  ///< exponentials under `largest`, so that it does not matter how they were formed
  float below, weights;
  float target_logit;   ///< -inf unless the target is in this shard
  float target_weight;  ///< 0 unless it is
  float has_target;     ///< 1 if it is
  float index;          ///< bits of the first class with the largest logit
};

/// The exponential of the largest logit, as the kernels' sums have it.
template <typename Exponential>
__device__ __forceinline__ float most_under(float largest) {
  const Exponential exponential(largest == Maximum::identity() ? 0.0f : largest);
  return exponential(exponential.centered(largest == Maximum::identity() ? 0.0f : largest));
}

template <typename TargetType, const CrossEntropyOptions& options>
__device__ __forceinline__ void write_class(const CrossEntropyParams& params, int64 row, int64 value) {
  if constexpr (options.predicted)
    if (params.predicted != nullptr) static_cast<TargetType*>(params.predicted)[row] = static_cast<TargetType>(value);
}

/// By one thread for a row.
template <typename TargetType, typename Input, const RowShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void write_loss(const CrossEntropyParams& params, int64 row, const Target<TargetType>& target,
                                           const RowLoss<Input, shape, options>& result, int64 target_class) {
  float* const losses = options.reduced ? scratch(params, params.row_losses) : params.loss;
  losses[row] = result.loss;
  params.lse[row] = result.lse;
  if constexpr (options.z_loss) {
    float* const z_losses = options.reduced ? scratch(params, params.row_z_losses) : params.z_loss;
    z_losses[row] = result.z_loss;
  }
  if constexpr (options.nll) params.nll[row] = result.nll;
  if constexpr (options.reduced && options.weights)
    scratch(params, params.row_weights)[row] = target.counts() ? result.target_weight : 0.0f;
  write_class<TargetType, options>(params, row, result.predicted);
  if constexpr (options.count_hits)
    scratch(params, params.row_hits)[row] = target.counts() && result.predicted == target_class ? 1.0f : 0.0f;
}

/// By one thread for a row. `part.largest` includes the target's logit.
template <typename Input, const CrossEntropyOptions& options>
__device__ __forceinline__ void write_part(const CrossEntropyParams& params, int64 row, const PartOf<options>& part,
                                           bool has_target, float target_logit, float target_weight) {
  using Exponential = typename ArithmeticFor<Input>::Exponential;
  ShardPart result = {
      part.largest, divide(part.others, most_under<Exponential>(part.largest)), 0.0f, 0.0f, target_logit, 0.0f, 0.0f, 0.0f};
  if (has_target) {
    result.target_weight = target_weight;
    result.has_target = 1.0f;
  }
  if constexpr (options.smoothing) {
    result.below = part.below;
    result.weights = part.weights;
  }
  if constexpr (options.predicted) {
    const int index = static_cast<int>(bits_of(part.index));
    result.index = float_of(static_cast<uint32>(index + static_cast<int>(params.vocab_start)));
  }
  reinterpret_cast<ShardPart*>(params.parts)[row] = result;
}

}  // namespace tunesmith
