// The log_softmax counterpart of softmax/softmax.cuh.
//
// SoftmaxSums::first is the sum of exponentials excluding the maxima, `second` the number of maxima. The log-probability of
// a confident row is -log(1 + sum excluding the maximum); adding the 1 to that sum would lose its digits.
#pragma once

#include "device/logarithm.cuh"
#include "softmax/softmax.cuh"

namespace tunesmith {

/// Computes log-probabilities from elements, given the maximum and the sums of their row.
template <const RowShape& shape>
struct LogSoftmaxResult {
  using Exponential = typename RowFeatures<shape>::Arithmetic::Exponential;
  /// The scale is not applied yet, so a difference of elements may overflow although the scaled difference does not:
  /// subtract half the elements and apply twice the scale.
  static constexpr bool halves = shape.scaled && !RowFeatures<shape>::Mask::adds;

  float largest;
  float log_sum;  // ln of the sum relative to the maximum; at least 0
  float scale;
  bool empty;

  __device__ __forceinline__ LogSoftmaxResult(const RowParams& params, float row_largest, SoftmaxSums sums,
                                              SplitPower = {1.0f, 1.0f})
      : largest(row_largest),
        log_sum(0.0f),
        scale(halves ? params.scale : 1.0f),
        empty(shape.safe && row_largest == Maximum::identity()) {
    const Exponential exponential(row_largest, exponent_scale<shape>(params));
    const float most = exponential(exponential.centered(largest));
    const float sum_excluding_max = add(divide(sums.first, most), subtract(sums.second, 1.0f));
    log_sum = is_finite(largest) ? log_of_one_plus(sum_excluding_max) : float_of(nan_bits);
  }

  /// Ignored: results are computed from elements, not from resident exponentials.
  __device__ __forceinline__ void under(const Exponential&) {}

  template <bool rescaled = false>
  __device__ __forceinline__ void compute(float (&values)[shape.vector]) const {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      const float below =
          halves ? subtract(multiply(values[j], 0.5f), multiply(largest, 0.5f)) : subtract(values[j], largest);
      // Both terms have the same sign, so they do not cancel.
      values[j] = fused_multiply_add(below, halves ? multiply(scale, 2.0f) : scale, -log_sum);
    }
    clear_if<shape>(empty, values);
  }
};

struct LogSoftmaxFunction {
  template <const RowShape& shape>
  using Result = LogSoftmaxResult<shape>;

  /// Replaces the elements of a vector by exponentials. Returns the sum of those below the maximum and adds the number of
  /// maxima to `max_count`.
  template <const RowShape& shape, typename Exponential>
  static __device__ __forceinline__ float sum_of_exponentials(const Exponential& exponential, float largest,
                                                              float& max_count, float (&values)[shape.vector]) {
    float sum_excluding_max = 0.0f;
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      const bool tie = values[j] == largest;
      values[j] = exponential(exponential.centered(values[j]));
      sum_excluding_max = add(sum_excluding_max, tie ? 0.0f : values[j]);
      max_count = add(max_count, tie ? 1.0f : 0.0f);
    }
    return sum_excluding_max;
  }
};

}  // namespace tunesmith
