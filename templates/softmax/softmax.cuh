// The steps of softmax that all its kernels share: the sum over a row relative to its maximum, and the result from it. Those
// of log_softmax are in softmax/log_softmax.cuh; a source has one of them, as RowFeatures<shape>::Function.
#pragma once

#include "device/exponential.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Sums over a row relative to its maximum. softmax: `first` is the sum of all exponentials, `second` is unused.
using SoftmaxSums = FloatPair;

/// The sums of a part of a row under the maximum of that part.
struct SoftmaxPartial {
  float largest, sum, max_count;
};

/// The scale that is left for the exponential to apply: none when a mask was added, for which elements were scaled before.
template <const RowShape& shape>
__device__ __forceinline__ ExponentScale exponent_scale(const RowParams& params) {
  if constexpr (shape.scaled && !RowFeatures<shape>::Mask::adds)
    return {params.log2e_high, params.log2e_low, params.far_below, params.large_maximum};
  else
    return {};
}

/// Zeros for a row that is wholly masked, where the source is specialized for them.
template <const RowShape& shape>
__device__ __forceinline__ void clear_if(bool empty, float (&values)[shape.vector]) {
  if constexpr (shape.safe) {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = empty ? 0.0f : values[j];
  }
}

/// Elements become probabilities, given the maximum and the sum of their row.
template <const RowShape& shape>
struct SoftmaxResult {
  using Arithmetic = typename RowFeatures<shape>::Arithmetic;
  using Exponential = typename Arithmetic::Exponential;

  Exponential exponential;
  typename Arithmetic::Quotient share;
  float rest;  // of the rescaling, usually 1
  bool empty;

  /// `rescale`: factor of exponentials that are relative to another maximum than the row's.
  __device__ __forceinline__ SoftmaxResult(const RowParams& params, float row_largest, SoftmaxSums sums,
                                           SplitPower rescale = {1.0f, 1.0f})
      : exponential(row_largest, exponent_scale<shape>(params)),
        share(row_largest, sums.first, rescale.first),
        rest(rescale.second),
        empty(shape.safe && row_largest == Maximum::identity()) {}

  /// From exponentials; `rescaled` if they may be relative to another maximum.
  template <bool rescaled = false>
  __device__ __forceinline__ void finish(float (&values)[shape.vector]) const {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = share(values[j]);
    if (rescaled && rest != 1.0f) {
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) values[j] = multiply(values[j], rest);
    }
    clear_if<shape>(empty, values);
  }

  /// From here on exponentials are relative to the maximum that the rescaling was given for.
  __device__ __forceinline__ void under(const Exponential& other) { exponential = other; }

  /// From elements.
  template <bool rescaled = false>
  __device__ __forceinline__ void compute(float (&values)[shape.vector]) const {
    center(exponential, values);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = exponential(values[j]);
    finish<rescaled>(values);
  }
};

struct SoftmaxFunction {
  template <const RowShape& shape>
  using Result = SoftmaxResult<shape>;

  /// The elements of a vector become exponentials; returns their sum.
  template <const RowShape& shape, typename Exponential>
  static __device__ __forceinline__ float sum_of_exponentials(const Exponential& exponential, float, float&,
                                                              float (&values)[shape.vector]) {
    center(exponential, values);
    return exponentiate<shape.vector>(exponential, values);
  }
};

}  // namespace tunesmith
