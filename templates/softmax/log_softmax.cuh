// What log_softmax does where softmax/softmax.cuh does the steps of softmax.
//
// `first` of SoftmaxSums is the sum of the exponentials below the maximum only, and `second` counts the elements that reach
// it. A confident row's log-probability is -log(1 + others), whose digits would be lost if 1 were in the sum.
#pragma once

#include "device/logarithm.cuh"
#include "softmax/softmax.cuh"

namespace tunesmith {

/// Elements become log-probabilities, given the maximum and the sums of their row.
template <const RowShape& shape>
struct LogSoftmaxResult {
  using Exponential = typename RowFeatures<shape>::Arithmetic::Exponential;
  /// The scale is not applied yet. Then a difference of elements may overflow where it does not once it is scaled: half the
  /// elements are subtracted, and twice the scale is applied.
  static constexpr bool halves = shape.scaled && !RowFeatures<shape>::Mask::adds;

  float largest;
  float log_sum;  // ln of the sum relative to the maximum, at least 0
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

  /// Results are computed from elements, so that the maximum of waiting exponentials does not matter.
  __device__ __forceinline__ void under(const Exponential&) {}

  template <bool rescaled = false>
  __device__ __forceinline__ void compute(float (&values)[shape.vector]) const {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      const float below =
          halves ? subtract(multiply(values[j], 0.5f), multiply(largest, 0.5f)) : subtract(values[j], largest);
      // Both terms lower the result, so neither cancels the other's digits.
      values[j] = fused_multiply_add(below, halves ? multiply(scale, 2.0f) : scale, -log_sum);
    }
    clear_if<shape>(empty, values);
  }
};

struct LogSoftmaxFunction {
  template <const RowShape& shape>
  using Result = LogSoftmaxResult<shape>;

  /// The elements of a vector become exponentials; returns the sum of those below the maximum, and counts the others in
  /// `ties`.
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
