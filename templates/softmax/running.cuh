// Online softmax: running maximum and sums, rescaled when the maximum grows. Milakov and Gimelshein, "Online normalizer
// calculation for softmax" (2018).
#pragma once

#include "softmax/softmax.cuh"

namespace tunesmith {

/// Running maximum and sums of one thread.
template <const RowShape& shape>
struct RunningSoftmax {
  using Arithmetic = typename RowFeatures<shape>::Arithmetic;
  using Function = typename RowFeatures<shape>::Function;
  using Exponential = typename Arithmetic::Exponential;
  static constexpr int many = 1 << 30;

  typename Exponential::Scale scale;
  Number<shape> largest = Maximum::identity();
  typename Arithmetic::template RunningSum<many> sum;
  Number<shape> max_count = 0.0f;

  __device__ __forceinline__ explicit RunningSoftmax(const RowParams& params) : scale(exponent_scale<shape>(params)) {}

  /// Adds vectors; rescales at most once.
  template <int count>
  __device__ __forceinline__ void include(Number<shape> (&values)[count][shape.vector]) {
    Number<shape> highest = largest_of(values[0]);
#pragma unroll
    for (int i = 1; i < count; ++i) highest = maximum_or_nan(highest, largest_of(values[i]));
    raise_to(maximum_or_nan(largest, highest));
    if (largest == Maximum::identity()) return;  // all elements so far are -inf: the sum stays 0
    const Exponential exponential(largest, scale);
#pragma unroll
    for (int i = 0; i < count; ++i)
      sum.include(Function::template sum_of_exponentials<shape>(exponential, largest, max_count, values[i]));
  }

  __device__ __forceinline__ void raise_to(Number<shape> new_largest) {
    if (new_largest == largest) return;
    // An empty sum has no maximum: -inf - (-inf) would be NaN.
    if (largest != Maximum::identity()) {
      const Exponential now(new_largest, scale);
      const Exponential before(largest, scale);
      if constexpr (!shape.logarithm) {
        sum.rescale(before.rescale_to(now));
      } else {
        // Rescale in two steps: the factor may be denormal, but a confident row needs all digits of the sum.
        const SplitPowerOf<Number<shape>> factor = before.split_rescale_to(now);
        sum.rescale(factor.first);
        sum.rescale(factor.second);
        // Former maxima are now below the maximum.
        sum.include(multiply(max_count, now(now.centered(largest))));
        max_count = 0.0f;
      }
    }
    largest = new_largest;
  }

  /// Adds the partial of another slice.
  __device__ __forceinline__ void include(const SoftmaxPartial<shape>& part) {
    if (part.largest == Maximum::identity()) return;
    raise_to(maximum_or_nan(largest, part.largest));
    RunningSoftmax other = *this;
    other.largest = part.largest;
    other.sum = {};
    other.sum.include(part.sum);
    other.max_count = part.max_count;
    other.raise_to(largest);
    sum.include(other.sum.value());
    max_count = add(max_count, other.max_count);
  }
};

/// Reduces maximum and sums over a group; all of its threads get the result.
template <typename Group, const RowShape& shape>
__device__ __forceinline__ SoftmaxPartial<shape> over_group(Group group, RunningSoftmax<shape> state) {
  const Number<shape> largest = group.template reduce<2>(state.largest, Maximum());
  state.raise_to(largest);
  const SoftmaxSums<shape> sums =
      group.template reduce<3>(SoftmaxSums<shape>{state.sum.value(), state.max_count}, SumOfEach<Number<shape>>());
  return {largest, sums.first, sums.second};
}

}  // namespace tunesmith
