// Online softmax of one query over K/V tiles: the subtracted maximum, and the final scale and lse.
#pragma once

#include "attention/scores.cuh"
#include "device/logarithm.cuh"

namespace tunesmith {

/// Returns the maximum that is subtracted from all scores of a query, as an exponent of 2. It is 0 instead of -inf while all
/// keys are masked, which avoids NaN.
__device__ __forceinline__ float subtracted(float largest) { return largest == Maximum::identity() ? 0.0f : largest; }

/// The output of a query is the weighted sum of values times `scale`.
struct FinalScale {
  float scale, lse;
};

/// `largest`: maximum as an exponent of 2; `sum`: of 2^(score - subtracted(largest)). A query whose keys are all masked gets
/// scale 0 and lse -inf. Other sums are at least 1, because they contain their largest term.
__device__ __forceinline__ FinalScale end_of(float largest, float sum) {
  if (sum == 0.0f) return {0.0f, Maximum::identity()};
  return {divide(1.0f, sum), fused_multiply_add(subtracted(largest), ln_2, log_of_one_plus(subtract(sum, 1.0f)))};
}
/// end_of() with the special function unit's reciprocal and logarithm, within 2^-22, and without branches: for 16-bit
/// outputs.
__device__ __forceinline__ FinalScale approximate_end_of(float largest, float sum) {
  const bool none = sum == 0.0f;
  return {none ? 0.0f : reciprocal_approx(sum),
          none ? Maximum::identity() : multiply(add(subtracted(largest), log2_approx(sum)), ln_2)};
}

template <const AttentionShape& shape>
__device__ __forceinline__ FinalScale approximate_end_of(const AttentionParams& params, int head, float largest, float sum) {
  if constexpr (shape.sinks) return AttentionFeatures<shape>::Sink::approximate_end(largest, sum, params.sinks[head]);
  return approximate_end_of(largest, sum);
}
template <const AttentionShape& shape>
__device__ __forceinline__ FinalScale end_of(const AttentionParams& params, int head, float largest, float sum) {
  if constexpr (shape.sinks) return AttentionFeatures<shape>::Sink::end(largest, sum, params.sinks[head]);
  return end_of(largest, sum);
}

}  // namespace tunesmith
