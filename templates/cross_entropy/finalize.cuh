// Kernels before and after a cross-entropy that is computed in chunks of rows: the divisor of the mean from the targets, the
// scale of the upstream gradients, and the sum of the row losses. One block each; the order of additions depends only on the
// number of rows.
#pragma once

#include "cross_entropy/finalize_params.cuh"
#include "cross_entropy/reduction.cuh"

namespace tunesmith {

/// Computes the divisor of the mean and dloss / divisor. With `scales_weight`, writes the weights times (number of rows) /
/// (sum of the target weights) and divides by the number of rows: the weighted terms and the unweighted z term then share a
/// divisor.
template <typename TargetType, bool scales_weight>
__device__ __forceinline__ void cross_entropy_divisor(const DivisorParams& params) {
  const auto* const targets = static_cast<const TargetType*>(params.targets);
  FloatPair weights = {};
  int64 rows = 0;
  for (int64 row = thread_index(); row < params.rows; row += reduction_threads) {
    const int64 target = targets[row];
    if (target == params.ignore_index || target < 0 || target >= params.cols) continue;
    const float weight = params.weight != nullptr ? params.weight[target] : 1.0f;
    weights = SumOfTwoFloats()(weights, {weight, 0.0f});
    if constexpr (scales_weight) ++rows;
  }
  BlockGroup<reduction_threads> group(nullptr, 0);
  float divisor = rounded(group.template reduce<0>(weights, SumOfTwoFloats()));
  if constexpr (scales_weight) {
    const auto count = static_cast<float>(group.template reduce<1>(rows, CountSum()));
    const float factor = divide(count, divisor);
    for (int64 i = thread_index(); i < params.cols; i += reduction_threads)
      params.scaled_weight[i] = multiply(params.weight[i], factor);
    divisor = count;
  }
  if (thread_index() != 0) return;
  *params.divisor = divisor;
  // If no row has a loss, all gradients are 0; avoid 0 / 0.
  *params.gradient_scale = divisor == 0.0f ? 0.0f : divide(params.dloss != nullptr ? *params.dloss : 1.0f, divisor);
}

/// Divides the upstream gradients dloss and dlse by their largest magnitude, which becomes the factor. If that is 0 or not
/// finite, the factor is 1.
__device__ __forceinline__ void cross_entropy_upstream(const UpstreamParams& params) {
  float largest = 0.0f;
  const auto include = [&](float value) { largest = maximum_or_nan(largest, maximum_or_nan(value, -value)); };
  for (int64 i = thread_index(); i < params.losses; i += reduction_threads) include(params.dloss[i]);
  for (int64 row = thread_index(); row < params.rows; row += reduction_threads) include(params.dlse[row]);
  BlockGroup<reduction_threads> group(nullptr, 0);
  largest = group.template reduce<0>(largest, Maximum());
  const float factor = is_finite(largest) && largest > 0.0f ? largest : 1.0f;
  for (int64 i = thread_index(); i < params.losses; i += reduction_threads)
    params.scaled_dloss[i] = divide(params.dloss[i], factor);
  for (int64 row = thread_index(); row < params.rows; row += reduction_threads)
    params.scaled_dlse[row] = divide(params.dlse[row], factor);
  if (thread_index() == 0) *params.factor = factor;
}

__device__ __forceinline__ void cross_entropy_reduce(const ReduceParams& params) {
  FloatPair losses = {}, z_losses = {};
  for (int64 row = thread_index(); row < params.rows; row += reduction_threads) {
    losses = SumOfTwoFloats()(losses, {params.losses[row], 0.0f});
    if (params.z_losses != nullptr) z_losses = SumOfTwoFloats()(z_losses, {params.z_losses[row], 0.0f});
  }
  BlockGroup<reduction_threads> group(nullptr, 0);
  losses = group.template reduce<0>(losses, SumOfTwoFloats());
  z_losses = group.template reduce<1>(z_losses, SumOfTwoFloats());
  if (thread_index() != 0) return;
  const float loss = rounded(losses), z_loss = rounded(z_losses);
  *params.loss = params.divisor != nullptr ? divide(loss, *params.divisor) : loss;
  if (params.z_losses != nullptr) *params.z_loss = params.divisor != nullptr ? divide(z_loss, *params.divisor) : z_loss;
}

}  // namespace tunesmith
