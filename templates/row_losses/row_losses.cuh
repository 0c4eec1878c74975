// What belongs to all rows of a loss whose rows are computed in parts: the divisor of its mean, known before the first part
// from the targets alone, and the sum of the rows' losses after the last. One block: a few bytes per row, and an order of
// additions that no schedule changes.
#pragma once

#include "device/team.cuh"

namespace tunesmith {

struct DivisorParams {
  const void* targets;    ///< (rows)
  const float* weight;    ///< (cols), or nullptr: 1 each
  const float* dloss;     ///< (1), or nullptr: 1
  float* divisor;         ///< (1)
  float* gradient_scale;  ///< (1)
  int64 rows, cols, ignore_index;
};

struct ReduceParams {
  const float* losses;    ///< (rows)
  const float* z_losses;  ///< (rows), or nullptr
  const float* divisor;   ///< (1), or nullptr: 1
  float* loss;            ///< (1)
  float* z_loss;          ///< (1), with z_losses
  int64 rows;
};

/// Of the terms of all threads of the block, in every thread; an infinite or undefined sum stays what it is.
template <int threads, int slot>
__device__ __forceinline__ float block_sum(const CompensatedSum& own) {
  BlockTeam<threads> block(nullptr, 0);
  const FloatPair total = block.template reduce<slot>(own.both(), SumOfTwoFloats());
  const float both = add(total.first, total.second);
  return both == both ? both : total.first;
}

template <typename Target, int threads>
__device__ __forceinline__ void cross_entropy_divisor(const DivisorParams& params) {
  const auto* const targets = static_cast<const Target*>(params.targets);
  CompensatedSum weights;
  for (int64 row = thread_index(); row < params.rows; row += threads) {
    const int64 target = targets[row];
    if (target == params.ignore_index || target < 0 || target >= params.cols) continue;
    weights.include(params.weight != nullptr ? params.weight[target] : 1.0f);
  }
  const float divisor = block_sum<threads, 0>(weights);
  if (thread_index() != 0) return;
  *params.divisor = divisor;
  // Without a row that counts every gradient is 0, and 0 / 0 must not get into it.
  *params.gradient_scale = divisor == 0.0f ? 0.0f : divide(params.dloss != nullptr ? *params.dloss : 1.0f, divisor);
}

template <int threads>
__device__ __forceinline__ void cross_entropy_reduce(const ReduceParams& params) {
  CompensatedSum losses, z_losses;
  for (int64 row = thread_index(); row < params.rows; row += threads) {
    losses.include(params.losses[row]);
    if (params.z_losses != nullptr) z_losses.include(params.z_losses[row]);
  }
  const float loss = block_sum<threads, 0>(losses);
  const float z_loss = block_sum<threads, 1>(z_losses);
  if (thread_index() != 0) return;
  *params.loss = params.divisor != nullptr ? divide(loss, *params.divisor) : loss;
  if (params.z_losses != nullptr) *params.z_loss = params.divisor != nullptr ? divide(z_loss, *params.divisor) : z_loss;
}

}  // namespace tunesmith
