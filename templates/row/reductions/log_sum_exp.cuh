// log(sum(exp(x))) of columns, as a reduction (row/reductions/partial_result.cuh).
#pragma once

#include "row/reductions/partial_result.cuh"

namespace tunesmith {

/// log(sum(exp(x))) as the maximum m and the sum of exp(x - m) in two floats (Milakov and Gimelshein,
/// arXiv:1805.02867). The sum means nothing while m is not finite. `precise`: for float32 results.
template <bool precise>
struct LogSumExp {
  static constexpr int operands = 1, floats = 3;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    partial[0] = Maximum::identity();
    partial[1] = partial[2] = 0.0f;
  }
  /// Returns exp(x - maximum), or 0 where both are -inf.
  template <typename Number>
  static __device__ __forceinline__ Number weight(Number x, Number maximum) {
    if (maximum == Maximum::identity()) return 0.0f;
    return precise ? exponential_of_difference(x, maximum) : exponential_of_rounded(subtract(x, maximum));
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    Number largest = Maximum::identity(), sum = 0.0f;
#pragma unroll
    for (int j = 0; j < vector; ++j) largest = maximum_or_nan(largest, inside.holds(j) ? terms[0][j] : Maximum::identity());
    const Number maximum = maximum_or_nan(partial[0], largest);
#pragma unroll
    for (int j = 0; j < vector; ++j) sum = sum + (inside.holds(j) ? weight(terms[0][j], maximum) : 0.0f);
    CompensatedSumOf<Number> total{partial[1], partial[2]};
    if (maximum != partial[0]) total.rescale(weight(partial[0], maximum));
    total.include(sum);
    partial[0] = maximum;
    partial[1] = total.sum;
    partial[2] = total.lost;
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    const Number maximum = maximum_or_nan(partial[0], other[0]);
    const Number mine = weight(partial[0], maximum), others = weight(other[0], maximum);
    const PairOf<Number> sum = SumOfTwo<Number>()({multiply(partial[1], mine), multiply(partial[2], mine)},
                                                  {multiply(other[1], others), multiply(other[2], others)});
    partial[0] = maximum;
    partial[1] = sum.first;
    partial[2] = sum.second;
  }
  template <typename Number>
  static __device__ __forceinline__ Number maximum_of(const Number* partial) {
    return partial[0];
  }
  template <typename Number>
  static __device__ __forceinline__ Number sum_of(const Number* partial) {
    return is_finite(partial[0]) ? add(partial[1], partial[2]) : Number(float_of(nan_bits));
  }
  template <typename Number>
  static __device__ __forceinline__ Number result(const Number* partial) {
    return is_finite(partial[0]) ? add(partial[0], logarithm(add(partial[1], partial[2]))) : partial[0];
  }
};

}  // namespace tunesmith
