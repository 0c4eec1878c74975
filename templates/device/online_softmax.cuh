// Maximum and sum of exponentials in one pass, after Milakov and Gimelshein, "Online normalizer calculation for softmax"
// (2018): the sum so far is rescaled whenever the maximum grows.
#pragma once

#include "device/exponential.cuh"
#include "device/reduce.cuh"

namespace tunesmith {

/// Maximum of the elements seen and the sum of their exponentials under it.
template <typename Output>
struct OnlineSoftmax {
  using Exponential = typename ArithmeticFor<Output>::Exponential;

  static constexpr int many = 1 << 30;
  float largest = Maximum::identity();
  typename ArithmeticFor<Output>::template RunningSum<many> sum;

  /// Takes in `count` elements that a thread holds: rescales once for all of them, and adds them up by fours first, which
  /// keeps the running sum's rounding errors few. The elements become their exponentials under the maximum so far.
  template <int count>
  __device__ __forceinline__ void include(float (&values)[count]) {
    raise_to(maximum_or_nan(largest, largest_of(values)));
    if (largest == Maximum::identity()) return;  // nothing but -inf so far: the sum stays 0
    const Exponential exponential(largest);
    center(exponential, values);
    constexpr int group = count < 4 ? count : 4;
#pragma unroll
    for (int i = 0; i < count; i += group) sum.include(exponentiate<group>(exponential, values + i));
  }

  __device__ __forceinline__ void raise_to(float new_largest) {
    // An empty sum has no maximum to rescale from: -inf - (-inf) would be NaN.
    if (largest != Maximum::identity() && new_largest != largest)
      sum.rescale(Exponential(largest).rescale_to(Exponential(new_largest)));
    largest = new_largest;
  }
};

/// Maximum and sum over all threads of a block; every thread gets them. `partials` holds 2 * threads / 32 floats.
struct RowStatistics {
  float largest, sum;
};
template <int threads, typename Output>
__device__ __forceinline__ RowStatistics combine_block(OnlineSoftmax<Output> state, float* partials) {
  const float largest = reduce_block<threads>(state.largest, Maximum(), partials);
  state.raise_to(largest);
  return {largest, reduce_block<threads>(state.sum.value(), Sum(), partials + threads / 32)};
}

}  // namespace tunesmith
