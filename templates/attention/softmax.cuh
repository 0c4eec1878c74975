// The running softmax of one query over tiles of keys: the largest score so far, and how it ends.
#pragma once

#include "attention/scores.cuh"
#include "device/logarithm.cuh"

namespace tunesmith {

/// A query's largest score, as an exponent of 2 that is subtracted from all. A query that has seen no key yet, or none that
/// counts, has -inf and subtracts 0, so that no NaN comes of it.
__device__ __forceinline__ float subtracted(float largest) { return largest == Maximum::identity() ? 0.0f : largest; }

/// What becomes of a query's sums: its output is the weighted sum of values times `scale`, its lse is `lse`.
struct SoftmaxEnd {
  float scale, lse;
};

/// `largest` score as an exponent of 2, `sum` of 2^(score - subtracted(largest)). A query without any key that counts gets 0
/// and -inf. The sum of any other holds its largest term, which is 1, or more where `largest` is that of an earlier tile.
__device__ __forceinline__ SoftmaxEnd end_of(float largest, float sum) {
  if (sum == 0.0f) return {0.0f, Maximum::identity()};
  return {divide(1.0f, sum), fused_multiply_add(subtracted(largest), ln_2, log_of_one_plus(subtract(sum, 1.0f)))};
}
/// The same with the special function unit's reciprocal and logarithm, within 2^-22: for outputs of 16 bits, and where a
/// warp that computes nothing else for a while holds up others. Without branches.
__device__ __forceinline__ SoftmaxEnd approximate_end_of(float largest, float sum) {
  const bool none = sum == 0.0f;
  return {none ? 0.0f : reciprocal_approx(sum),
          none ? Maximum::identity() : multiply(add(subtracted(largest), log2_approx(sum)), ln_2)};
}

template <const AttentionShape& shape>
__device__ __forceinline__ SoftmaxEnd approximate_end_of(const AttentionParams& params, int head, float largest, float sum) {
  if constexpr (shape.sinks) return AttentionFeatures<shape>::Sink::approximate_end(largest, sum, params.sinks[head]);
  return approximate_end_of(largest, sum);
}
template <const AttentionShape& shape>
__device__ __forceinline__ SoftmaxEnd end_of(const AttentionParams& params, int head, float largest, float sum) {
  if constexpr (shape.sinks) return AttentionFeatures<shape>::Sink::end(largest, sum, params.sinks[head]);
  return end_of(largest, sum);
}

}  // namespace tunesmith
