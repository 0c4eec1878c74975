// Device functions shared by the softmax kernels. softmax/log_softmax.cuh has the log_softmax counterparts; a source
// includes one of them as RowFeatures<shape>::Function.
#pragma once

#include "device/exponential.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Sums over a row relative to its maximum. For softmax, `first` is the sum of all exponentials; `second` is unused.
template <const RowShape& shape>
using SoftmaxSums = PairOf<Number<shape>>;

/// Maximum of a slice of a row, and the slice's sums relative to it.
template <const RowShape& shape>
struct SoftmaxPartial {
  Number<shape> largest, sum, max_count;
};

/// Returns the scale that the exponential applies: none with an additive mask, because elements were scaled before.
template <const RowShape& shape>
__device__ __forceinline__ auto exponent_scale(const RowParams& params) ->
    typename RowFeatures<shape>::Arithmetic::Exponential::Scale {
  constexpr bool scales = shape.scaled && !RowFeatures<shape>::Mask::adds;
  if constexpr (scales && shape.wide)
    return {scale_of<Number<shape>>(params)};
  else if constexpr (scales)
    return {params.log2e_high, params.log2e_low, params.far_below, params.large_maximum};
  else
    return {};
}

/// Writes zeros for a fully masked row if the shape is `safe`.
template <const RowShape& shape>
__device__ __forceinline__ void clear_if(bool empty, Number<shape> (&values)[shape.vector]) {
  if constexpr (shape.safe) {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = empty ? Number<shape>(0) : values[j];
  }
}

/// Computes probabilities, given the maximum and the sum of their row.
template <const RowShape& shape>
struct SoftmaxResult {
  using Arithmetic = typename RowFeatures<shape>::Arithmetic;
  using Exponential = typename Arithmetic::Exponential;

  Exponential exponential;
  typename Arithmetic::Quotient share;
  Number<shape> rest;  // second factor of the rescaling, usually 1
  bool empty;

  /// `rescale`: factor for exponentials that are relative to another maximum.
  __device__ __forceinline__ SoftmaxResult(const RowParams& params, Number<shape> row_largest, SoftmaxSums<shape> sums,
                                           SplitPowerOf<Number<shape>> rescale = {1.0f, 1.0f})
      : exponential(row_largest, exponent_scale<shape>(params)),
        share(row_largest, sums.first, rescale.first),
        rest(rescale.second),
        empty(shape.safe && row_largest == Maximum::identity()) {}

  /// Converts exponentials to probabilities; `rescaled`: they may be relative to another maximum.
  template <bool rescaled = false>
  __device__ __forceinline__ void finish(Number<shape> (&values)[shape.vector]) const {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = share(values[j]);
    if (rescaled && rest != 1.0f) {
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) values[j] = multiply(values[j], rest);
    }
    clear_if<shape>(empty, values);
  }

  /// Sets the maximum that exponentials are relative to; `rescale` must match it.
  __device__ __forceinline__ void under(const Exponential& other) { exponential = other; }

  /// Converts elements to probabilities.
  template <bool rescaled = false>
  __device__ __forceinline__ void compute(Number<shape> (&values)[shape.vector]) const {
    center(exponential, values);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) values[j] = exponential(values[j]);
    finish<rescaled>(values);
  }
};

struct SoftmaxFunction {
  template <const RowShape& shape>
  using Result = SoftmaxResult<shape>;

  /// Replaces the elements of a vector by exponentials; returns their sum.
  template <const RowShape& shape, typename Exponential>
  static __device__ __forceinline__ Number<shape> sum_of_exponentials(const Exponential& exponential, Number<shape>,
                                                                      Number<shape>&,
                                                                      Number<shape> (&values)[shape.vector]) {
    center(exponential, values);
    return exponentiate<shape.vector>(exponential, values);
  }
};

}  // namespace tunesmith
