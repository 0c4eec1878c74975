// Maximum and sums that grow with what is seen, after Milakov and Gimelshein, "Online normalizer calculation for softmax"
// (2018): what was summed so far is rescaled whenever the maximum grows.
#pragma once

#include "softmax/softmax.cuh"

namespace tunesmith {

/// What a thread has seen of its row so far.
template <const RowShape& shape>
struct RunningSoftmax {
  using Arithmetic = typename RowFeatures<shape>::Arithmetic;
  using Function = typename RowFeatures<shape>::Function;
  using Exponential = typename Arithmetic::Exponential;
  static constexpr int many = 1 << 30;

  ExponentScale scale;
  float largest = Maximum::identity();
  typename Arithmetic::template RunningSum<many> sum;
  float max_count = 0.0f;

  __device__ __forceinline__ explicit RunningSoftmax(const RowParams& params) : scale(exponent_scale<shape>(params)) {}

  /// Takes in vectors: rescales once for all of them.
  template <int count>
  __device__ __forceinline__ void include(float (&values)[count][shape.vector]) {
    float highest = largest_of(values[0]);
#pragma unroll
    for (int i = 1; i < count; ++i) highest = maximum_or_nan(highest, largest_of(values[i]));
    raise_to(maximum_or_nan(largest, highest));
    if (largest == Maximum::identity()) return;  // nothing but -inf so far: the sum stays 0
    const Exponential exponential(largest, scale);
#pragma unroll
    for (int i = 0; i < count; ++i)
      sum.include(Function::template sum_of_exponentials<shape>(exponential, largest, max_count, values[i]));
  }

  __device__ __forceinline__ void raise_to(float new_largest) {
    if (new_largest == largest) return;
    // An empty sum has no maximum to rescale from: -inf - (-inf) would be NaN.
    if (largest != Maximum::identity()) {
      const Exponential now(new_largest, scale);
      const Exponential before(largest, scale);
      if constexpr (!shape.logarithm) {
        sum.rescale(before.rescale_to(now));
      } else {
        // In two steps: the logarithm of a confident row has the digits of what is left, be its factor no normal number.
        const SplitPower factor = before.split_rescale_to(now);
        sum.rescale(factor.first);
        sum.rescale(factor.second);
        // What reached the old maximum is below the new one.
        sum.include(multiply(max_count, now(now.centered(largest))));
        max_count = 0.0f;
      }
    }
    largest = new_largest;
  }

  /// Takes in what others made of another part.
  __device__ __forceinline__ void include(const SoftmaxPartial& part) {
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

/// Maximum and sums over all threads of a block; every thread gets them.
template <int threads, const RowShape& shape>
__device__ __forceinline__ SoftmaxPartial combine_block(RunningSoftmax<shape> state) {
  BlockGroup<threads> group(nullptr, 0);
  const float largest = group.template reduce<2>(state.largest, Maximum());
  state.raise_to(largest);
  const SoftmaxSums sums = group.template reduce<3>(SoftmaxSums{state.sum.value(), state.max_count}, SumOfEach());
  return {largest, sums.first, sums.second};
}

}  // namespace tunesmith
