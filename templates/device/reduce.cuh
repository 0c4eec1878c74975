// Reductions over the lanes of a warp and the warps of a block. Every lane gets the result; the order of the additions is
// fixed by the configuration, so results repeat bit for bit.
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

/// A thread's running sum of many terms that keeps what each addition rounds away (Knuth's two-sum), so that a long row is
/// as exact as a short one. Six additions a term: give it whole vectors' sums, not elements.
struct CompensatedSum {
  float sum = 0.0f;
  float lost = 0.0f;

  __device__ __forceinline__ void include(float term) {
    const float total = add(sum, term);
    const float included = subtract(total, sum);
    lost = add(lost, add(subtract(sum, subtract(total, included)), subtract(term, included)));
    sum = total;
  }
  __device__ __forceinline__ void rescale(float factor) {
    sum = multiply(sum, factor);
    lost = multiply(lost, factor);
  }
  __device__ __forceinline__ float value() const { return add(sum, lost); }
};

/// The same interface for few terms, and for 16-bit results, which do not need it.
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

/// Over groups of `lanes` neighbouring lanes (a power of two up to 32). All 32 lanes take part.
template <int lanes, typename Reduction>
__device__ __forceinline__ float reduce_lanes(float value, Reduction reduction) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) value = reduction(value, shuffle_xor(value, distance));
  return value;
}

/// Over all threads of the block, a multiple of 32. `partials` is shared memory for threads / 32 floats that nothing else
/// uses: one barrier suffices then.
template <int threads, typename Reduction>
__device__ __forceinline__ float reduce_block(float value, Reduction reduction, float* partials) {
  constexpr int warps = threads / 32;
  value = reduce_lanes<32>(value, reduction);
  if constexpr (warps > 1) {
    if (lane_index() == 0) partials[warp_index()] = value;
    sync_block();
    value = lane_index() < warps ? partials[lane_index()] : Reduction::identity();
    value = reduce_lanes<32>(value, reduction);
  }
  return value;
}

}  // namespace tunesmith
