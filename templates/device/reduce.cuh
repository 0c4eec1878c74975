// Reductions over threads, and compensated sums, in an order that the configuration fixes: results are reproducible.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

struct Maximum {
  static __device__ __forceinline__ float identity() { return float_of(0xff800000u); }  // -inf
  template <typename Number>
  __device__ __forceinline__ Number operator()(Number a, Number b) const {
    return maximum_or_nan(a, b);
  }
};

struct Sum {
  static __device__ __forceinline__ float identity() { return 0.0f; }
  template <typename Number>
  __device__ __forceinline__ Number operator()(Number a, Number b) const {
    return add(a, b);
  }
};

/// Two numbers, reduced together.
template <typename Number>
struct alignas(2 * sizeof(Number)) PairOf {
  Number first, second;
};
using FloatPair = PairOf<float>;

template <typename Number>
__device__ __forceinline__ PairOf<Number> shuffle_xor(PairOf<Number> pair, int lane_mask) {
  return {shuffle_xor(pair.first, lane_mask), shuffle_xor(pair.second, lane_mask)};
}

/// Sums both members.
template <typename Number = float>
struct SumOfEach {
  static __device__ __forceinline__ PairOf<Number> identity() { return {0.0f, 0.0f}; }
  __device__ __forceinline__ PairOf<Number> operator()(PairOf<Number> a, PairOf<Number> b) const {
    return {add(a.first, b.first), add(a.second, b.second)};
  }
};

/// Returns the rounding error of add(a, b) (Knuth's two-sum).
template <typename Number>
__device__ __forceinline__ Number lost_by_adding(Number a, Number b, Number total) {
  const Number included = subtract(total, a);
  return add(subtract(a, subtract(total, included)), subtract(b, included));
}

/// Adds unevaluated sums of two numbers, in twice their precision.
template <typename Number = float>
struct SumOfTwo {
  static __device__ __forceinline__ PairOf<Number> identity() { return {0.0f, 0.0f}; }
  __device__ __forceinline__ PairOf<Number> operator()(PairOf<Number> a, PairOf<Number> b) const {
    const Number total = add(a.first, b.first);
    return {total, add(lost_by_adding(a.first, b.first, total), add(a.second, b.second))};
  }
};
using SumOfTwoFloats = SumOfTwo<float>;

/// Running sum that keeps the rounding error of each addition, so long rows are as accurate as short ones. Six additions per
/// term: for long sums, include sums of vectors instead of elements.
template <typename Number>
struct CompensatedSumOf {
  Number sum = 0.0f;
  Number lost = 0.0f;

  __device__ __forceinline__ void include(Number term) {
    const Number total = add(sum, term);
    lost = add(lost, lost_by_adding(sum, term, total));
    sum = total;
  }
  /// Adds a product with twice the precision (Ogita, Rump and Oishi, "Accurate sum and dot product", 2005).
  __device__ __forceinline__ void include_product(Number a, Number b) {
    const Number product = multiply(a, b);
    lost = add(lost, fused_multiply_add(a, b, -product));
    include(product);
  }
  __device__ __forceinline__ void rescale(Number factor) {
    sum = multiply(sum, factor);
    lost = multiply(lost, factor);
  }
  __device__ __forceinline__ Number value() const { return add(sum, lost); }
  __device__ __forceinline__ PairOf<Number> both() const { return {sum, lost}; }
};
using CompensatedSum = CompensatedSumOf<float>;

/// Uncompensated, for few terms and for 16-bit results.
template <typename Number>
struct PlainSumOf {
  Number sum = 0.0f;

  __device__ __forceinline__ void include(Number term) { sum = add(sum, term); }
  __device__ __forceinline__ void rescale(Number factor) { sum = multiply(sum, factor); }
  __device__ __forceinline__ Number value() const { return sum; }
};
using PlainSum = PlainSumOf<float>;

template <bool compensated, typename Number = float>
struct SumOf : PlainSumOf<Number> {};
template <typename Number>
struct SumOf<true, Number> : CompensatedSumOf<Number> {};

/// A sum of groups of 2^levels terms. Each group is summed pairwise, so `levels` roundings meet a term, and two terms take
/// one addition; `Sum` adds the groups.
template <typename Sum, typename Number, int levels>
struct SumOfTrees {
  Sum sum;
  Number part[levels] = {};  ///< of 2^level terms each, as the bits of `terms` say
  int terms = 0;

  __device__ __forceinline__ void include(Number term) {
    bool complete = true;
#pragma unroll
    for (int level = 0; level < levels && complete; ++level) {
      complete = (terms >> level & 1) != 0;
      term = complete ? add(part[level], term) : term;
      part[level] = term;
    }
    if (complete && terms < 1 << levels)
      sum.sum = term;
    else if (complete)
      sum.include(term);
    ++terms;
  }
  __device__ __forceinline__ Number value() const {
    Number rest = 0.0f;
#pragma unroll
    for (int level = 0; level < levels; ++level)
      if ((terms >> level & 1) != 0) rest = add(rest, part[level]);
    Sum all = sum;
    all.include(rest);
    return all.value();
  }
};

template <typename Number, int count>
__device__ __forceinline__ Number largest_of(const Number (&values)[count]) {
  Number largest = values[0];
#pragma unroll
  for (int j = 1; j < count; ++j) largest = maximum_or_nan(largest, values[j]);
  return largest;
}

/// Returns the fewest lanes, a power of two, that hold up to 32 values. They reduce few values in few steps.
__device__ __forceinline__ constexpr int lanes_for(int count) {
  return count > 16 ? 32 : count > 8 ? 16 : count > 4 ? 8 : count > 2 ? 4 : count;
}

/// Reduces over groups of `lanes` neighbouring lanes, a power of two; all get the result. All 32 lanes together.
template <int lanes, typename Value, typename Reduction>
__device__ __forceinline__ Value reduce_lanes(Value value, Reduction reduction) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) value = reduction(value, shuffle_xor(value, distance));
  return value;
}

}  // namespace tunesmith
