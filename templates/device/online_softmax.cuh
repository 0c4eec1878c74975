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

  float largest = Maximum::identity();
  typename ArithmeticFor<Output>::RunningSum sum;

  /// Takes in `count` elements that a thread holds: rescales once for all of them, and adds them up among themselves first,
  /// which keeps the running sum's rounding errors few.
  template <int count>
  __device__ __forceinline__ void include(const float (&values)[count]) {
    float chunk_largest = values[0];
#pragma unroll
    for (int i = 1; i < count; ++i) chunk_largest = maximum_or_nan(chunk_largest, values[i]);
    raise_to(maximum_or_nan(largest, chunk_largest));
    if (largest == Maximum::identity()) return;  // nothing but -inf so far: the sum stays 0
    const Exponential exponential(largest);
    float chunk_sum = exponential(values[0]);
#pragma unroll
    for (int i = 1; i < count; ++i) chunk_sum = add(chunk_sum, exponential(values[i]));
    sum.include(chunk_sum);
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
