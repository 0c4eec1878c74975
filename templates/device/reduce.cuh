// Reductions over threads, and compensated sums. The configuration fixes the order of additions, so results are bitwise
// reproducible.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

struct Maximum {
  static __device__ __forceinline__ float identity() { return float_of(0xff800000u); }  // -inf
  __device__ __forceinline__ float operator()(float a, float b) const { return maximum_or_nan(a, b); }
};

struct Sum {
  static __device__ __forceinline__ float identity() { return 0.0f; }
  __device__ __forceinline__ float operator()(float a, float b) const { return add(a, b); }
};

/// A pair of floats, reduced together.
struct alignas(8) FloatPair {
  float first, second;
};

__device__ __forceinline__ FloatPair shuffle_xor(FloatPair pair, int lane_mask) {
  return {shuffle_xor(pair.first, lane_mask), shuffle_xor(pair.second, lane_mask)};
}

/// Sums both members.
struct SumOfEach {
  static __device__ __forceinline__ FloatPair identity() { return {0.0f, 0.0f}; }
  __device__ __forceinline__ FloatPair operator()(FloatPair a, FloatPair b) const {
    return {add(a.first, b.first), add(a.second, b.second)};
  }
};

/// Returns the rounding error of add(a, b) (Knuth's two-sum).
__device__ __forceinline__ float lost_by_adding(float a, float b, float total) {
  const float included = subtract(total, a);
  return add(subtract(a, subtract(total, included)), subtract(b, included));
}

/// Adds unevaluated sums of two floats, in twice float's precision.
struct SumOfTwoFloats {
  static __device__ __forceinline__ FloatPair identity() { return {0.0f, 0.0f}; }
  __device__ __forceinline__ FloatPair operator()(FloatPair a, FloatPair b) const {
    const float total = add(a.first, b.first);
    return {total, add(lost_by_adding(a.first, b.first, total), add(a.second, b.second))};
  }
};

/// Running sum that keeps the rounding error of each addition, so long rows are as accurate as short ones. Six additions per
/// term: for long sums, include sums of vectors instead of elements.
struct CompensatedSum {
  float sum = 0.0f;
  float lost = 0.0f;

  __device__ __forceinline__ void include(float term) {
    const float total = add(sum, term);
    lost = add(lost, lost_by_adding(sum, term, total));
    sum = total;
  }
  /// Adds a product with twice float's precision (Ogita, Rump and Oishi, "Accurate sum and dot product", 2005).
  __device__ __forceinline__ void include_product(float a, float b) {
    const float product = multiply(a, b);
    lost = add(lost, fused_multiply_add(a, b, -product));
    include(product);
  }
  __device__ __forceinline__ void rescale(float factor) {
    sum = multiply(sum, factor);
    lost = multiply(lost, factor);
  }
  __device__ __forceinline__ float value() const { return add(sum, lost); }
  __device__ __forceinline__ FloatPair both() const { return {sum, lost}; }
};

/// Uncompensated, for few terms and for 16-bit results.
struct PlainSum {
  float sum = 0.0f;

  __device__ __forceinline__ void include(float term) { sum = add(sum, term); }
  __device__ __forceinline__ void rescale(float factor) { sum = multiply(sum, factor); }
  __device__ __forceinline__ float value() const { return sum; }
};

template <bool compensated>
struct SumOf : PlainSum {};
template <>
struct SumOf<true> : CompensatedSum {};

template <int count>
__device__ __forceinline__ float largest_of(const float (&values)[count]) {
  float largest = values[0];
#pragma unroll
  for (int j = 1; j < count; ++j) largest = maximum_or_nan(largest, values[j]);
  return largest;
}

/// Reduces over groups of `lanes` neighbouring lanes (a power of two up to 32); all lanes get the result. All 32 lanes
/// together.
template <int lanes, typename Value, typename Reduction>
__device__ __forceinline__ Value reduce_lanes(Value value, Reduction reduction) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) value = reduction(value, shuffle_xor(value, distance));
  return value;
}

}  // namespace tunesmith
