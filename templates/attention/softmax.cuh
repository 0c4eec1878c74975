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
/// The same with a further term exp(sink) in the sum, whose value is 0.
__device__ __forceinline__ SoftmaxEnd end_with_sink(float largest, float sum, float sink) {
  const float exponent = multiply(sink, log2_e);
  const float top = maximum(sum == 0.0f ? Maximum::identity() : largest, exponent);
  const float factor = sum == 0.0f ? 0.0f : exp2_approx(subtract(subtracted(largest), subtracted(top)));
  const SoftmaxEnd end = end_of(top, fused_multiply_add(sum, factor, exp2_approx(subtract(exponent, subtracted(top)))));
  return {multiply(end.scale, factor), end.lse};
}

/// The same with the special function unit's reciprocal and logarithm, within 2^-22: for outputs of 16 bits, and where a
/// warp that computes nothing else for a while holds up others. Without branches.
__device__ __forceinline__ SoftmaxEnd approximate_end_of(float largest, float sum) {
  const bool none = sum == 0.0f;
  return {none ? 0.0f : reciprocal_approx(sum),
          none ? Maximum::identity() : multiply(add(subtracted(largest), log2_approx(sum)), ln_2)};
}
__device__ __forceinline__ SoftmaxEnd approximate_end_with_sink(float largest, float sum, float sink) {
  const bool none = sum == 0.0f;
  const float exponent = multiply(sink, log2_e);
  const float top = maximum(none ? Maximum::identity() : largest, exponent);
  const float factor = none ? 0.0f : exp2_approx(subtract(subtracted(largest), subtracted(top)));
  const float total = fused_multiply_add(sum, factor, exp2_approx(subtract(exponent, subtracted(top))));
  const SoftmaxEnd end = approximate_end_of(top, total);
  return {multiply(end.scale, factor), end.lse};
}

template <const AttentionShape& shape>
__device__ __forceinline__ SoftmaxEnd approximate_end_of(const AttentionParams& params, int head, float largest, float sum) {
  if constexpr (shape.sinks) return approximate_end_with_sink(largest, sum, params.sinks[head]);
  return approximate_end_of(largest, sum);
}
template <const AttentionShape& shape>
__device__ __forceinline__ SoftmaxEnd end_of(const AttentionParams& params, int head, float largest, float sum) {
  if constexpr (shape.sinks) return end_with_sink(largest, sum, params.sinks[head]);
  return end_of(largest, sum);
}

}  // namespace tunesmith
