// The steps of softmax and log_softmax that every kernel takes, whoever shares the row and wherever it waits: the sums over
// a row under its maximum, and what an element becomes once they are known.
#pragma once

#include "device/exponential.cuh"
#include "device/logarithm.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Sums over a row under its maximum.
///
/// softmax: `first` is the sum of all exponentials. log_softmax: of those below the maximum only, and `second` counts the
/// elements that reach it. A confident row's log-probability is -log(1 + others), whose digits would all be lost if 1 were
/// in the sum.
using SoftmaxSums = FloatPair;

/// The scale that is left for the exponential to apply: none when a mask was added, for which elements were scaled before.
template <const RowShape& shape>
__device__ __forceinline__ ExponentScale exponent_scale(const RowParams& params) {
  if constexpr (shape.scaled && shape.mask != Mask::add)
    return {params.log2e_high, params.log2e_low, params.far_below, params.large_maximum};
  else
    return {};
}

/// Adds up the exponentials of a vector's elements, which `values` become. `ties` counts elements that equal `largest` when
/// the logarithm is asked for; they are left out of the sum then.
template <const RowShape& shape, typename Exponential>
__device__ __forceinline__ float sum_of_exponentials(const Exponential& exponential, float largest, float& ties,
                                                     float (&values)[shape.vector]) {
  if constexpr (!shape.logarithm) {
    center(exponential, values);
    return exponentiate<shape.vector>(exponential, values);
  } else {
    float others = 0.0f;
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      const bool tie = values[j] == largest;
      values[j] = exponential(exponential.centered(values[j]));
      others = add(others, tie ? 0.0f : values[j]);
      ties = add(ties, tie ? 1.0f : 0.0f);
    }
    return others;
  }
}

/// What elements become, given the maximum and the sums of their row.
template <typename Output, const RowShape& shape>
struct SoftmaxResult {
  using Exponential = typename ArithmeticFor<Output>::Exponential;
  using Quotient = typename ArithmeticFor<Output>::Quotient;

  Exponential exponential;
  Quotient share;
  float largest;
  float log_sum;  // ln of the sum under the maximum, at least 0
  float scale;
  float rest;  // of the rescaling, 1 as a rule
  bool empty;

  /// `rescale`: of exponentials that stood under another maximum than the row's.
  __device__ __forceinline__ SoftmaxResult(const RowParams& params, float row_largest, SoftmaxSums sums,
                                           SplitPower rescale = {1.0f, 1.0f})
      : exponential(row_largest, exponent_scale<shape>(params)),
        share(row_largest, sums.first, rescale.first),
        largest(row_largest),
        log_sum(0.0f),
        scale(shape.scaled && shape.mask != Mask::add ? params.scale : 1.0f),
        rest(rescale.second),
        empty(shape.safe && row_largest == Maximum::identity()) {
    if constexpr (shape.logarithm) {
      const float most = exponential(exponential.centered(largest));
      const float others = add(divide(sums.first, most), subtract(sums.second, 1.0f));
      log_sum = is_finite(largest) ? log_of_one_plus(others) : float_of(nan_bits);
    }
  }

  /// From exponentials (softmax only); `rescaled` if they may have stood under another maximum.
  template <bool rescaled = false>
  __device__ __forceinline__ void finish(float (&values)[shape.vector]) const {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = share(values[j]);
    if (rescaled && rest != 1.0f) {
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) values[j] = multiply(values[j], rest);
    }
    clear_if_empty(values);
  }

  /// Takes exponentials under another maximum than the row's from here on, which the rescaling was given for.
  __device__ __forceinline__ void under(const Exponential& other) {
    if constexpr (!shape.logarithm) exponential = other;
  }

  /// From elements.
  template <bool rescaled = false>
  __device__ __forceinline__ void compute(float (&values)[shape.vector]) const {
    if constexpr (shape.logarithm) {
      // Half the elements, twice the scale: a difference that is no float may be one once it is scaled.
      constexpr bool halves = shape.scaled && shape.mask != Mask::add;
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) {
        const float below =
            halves ? subtract(multiply(values[j], 0.5f), multiply(largest, 0.5f)) : subtract(values[j], largest);
        // Both terms lower the result, so neither cancels the other's digits.
        values[j] = fused_multiply_add(below, halves ? multiply(scale, 2.0f) : scale, -log_sum);
      }
    } else {
      center(exponential, values);
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) values[j] = exponential(values[j]);
      finish<rescaled>(values);
      return;
    }
    clear_if_empty(values);
  }

 private:
  __device__ __forceinline__ void clear_if_empty(float (&values)[shape.vector]) const {
    if constexpr (shape.safe) {
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) values[j] = empty ? 0.0f : values[j];
    }
  }
};

}  // namespace tunesmith
