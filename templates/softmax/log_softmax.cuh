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

  Number<shape> largest;
  Number<shape> log_sum;  // ln of the sum relative to the maximum; at least 0
  Number<shape> scale;
  bool empty;

  __device__ __forceinline__ LogSoftmaxResult(const RowParams& params, Number<shape> row_largest, SoftmaxSums<shape> sums,
                                              SplitPowerOf<Number<shape>> = {1.0f, 1.0f})
      : largest(row_largest),
        log_sum(0.0f),
        scale(halves ? scale_of<Number<shape>>(params) : Number<shape>(1)),
        empty(shape.safe && row_largest == Maximum::identity()) {
    const Exponential exponential(row_largest, exponent_scale<shape>(params));
    const Number<shape> most = exponential(exponential.centered(largest));
    const Number<shape> sum_excluding_max = add(divide_approx(sums.first, most), subtract(sums.second, Number<shape>(1)));
    log_sum = is_finite(largest) ? log_of_sum(sum_excluding_max) : float_of(nan_bits);
  }

  /// Ignored: results are computed from elements, not from resident exponentials.
  __device__ __forceinline__ void under(const Exponential&) {}

  template <bool rescaled = false>
  __device__ __forceinline__ void compute(Number<shape> (&values)[shape.vector]) const {
    constexpr Number<shape> half = 0.5f, two = 2.0f;
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      const Number<shape> below =
          halves ? subtract(multiply(values[j], half), multiply(largest, half)) : subtract(values[j], largest);
      // Both terms have the same sign, so they do not cancel.
      values[j] = fused_multiply_add(below, halves ? multiply(scale, two) : scale, -log_sum);
    }
    clear_if<shape>(empty, values);
  }
};

struct LogSoftmaxFunction {
  template <const RowShape& shape>
  using Result = LogSoftmaxResult<shape>;

  /// Replaces the elements of a vector by exponentials. Returns the sum of exponentials below the maximum and adds the
  /// number of maxima to `max_count`.
  template <const RowShape& shape, typename Exponential>
  static __device__ __forceinline__ Number<shape> sum_of_exponentials(const Exponential& exponential, Number<shape> largest,
                                                                      Number<shape>& max_count,
                                                                      Number<shape> (&values)[shape.vector]) {
    constexpr Number<shape> one = 1.0f;
    Number<shape> sum_excluding_max = 0.0f;
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      const bool tie = values[j] == largest;
      values[j] = exponential(exponential.centered(values[j]));
      sum_excluding_max = add_if(!tie, sum_excluding_max, values[j]);
      max_count = add_if(tie, max_count, one);
    }
    return sum_excluding_max;
  }
};

}  // namespace tunesmith
