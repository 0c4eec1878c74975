// Device functions shared by the kernels of softmax_backward and log_softmax_backward.
//
//   softmax:      dx = scale * y * (dy - sum(dy * y))
//   log_softmax:  dx = scale * (dy - exp(y) * sum(dy))
//
// Excluded columns read as dy = 0 with a y of probability 0: they add nothing to the sum and get dx = 0.
#pragma once

#include "device/exponential.cuh"
#include "row/mask.cuh"

namespace tunesmith {

/// Returns the y of an excluded column: probability 0, or its logarithm. The logarithm is a finite number that log_softmax
/// never returns, so not_zero() recognizes it.
template <typename Input, const RowShape& shape>
__device__ __forceinline__ Number<shape> absent_y() {
  if constexpr (shape.logarithm && shape.wide) return -0x1.8p1023;
  if constexpr (!shape.logarithm) return 0.0f;
  return is_same<Input, f16> ? -65504.0f : -0x1.8p127f;
}

/// Adds a vector to the row's sum, an unevaluated sum of two numbers: where a gradient is small, dy - sum cancels and the
/// low digits matter.
template <typename Input, const RowShape& shape>
__device__ __forceinline__ void include_in_sum(CompensatedSumOf<Number<shape>>& sum, const Number<shape> (&dy)[shape.vector],
                                               const Number<shape> (&y)[shape.vector]) {
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) {
    if constexpr (shape.logarithm)
      sum.include(dy[j]);
    else if constexpr (sizeof(Input) >= 4)
      sum.include_product(dy[j], y[j]);
    else
      sum.include(multiply(dy[j], y[j]));  // the product of 16-bit factors is exact
  }
}

/// Returns 0 if all contributing elements are 0, as safe log_softmax writes a fully masked row, and 1 otherwise. (A row of
/// one column looks the same; its gradient is 0, too.)
template <typename Input, const RowShape& shape>
__device__ __forceinline__ Number<shape> not_zero(const Number<shape> (&y)[shape.vector]) {
  Number<shape> found = 0.0f;
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) found = y[j] == 0.0f || y[j] == absent_y<Input, shape>() ? found : Number<shape>(1);
  return found;
}

template <const RowShape& shape>
struct SoftmaxGradient {
  using Exponential = typename RowFeatures<shape>::Arithmetic::Exponential;
  static constexpr Number<shape> highest = 40.0f;  // log-probabilities are at most 0; larger arguments would overflow

  Exponential exponential;
  Number<shape> sum, rest;  // the sum is sum + rest
  Number<shape> scale;
  bool empty;

  /// `row_sum`: in two numbers; `any_not_zero`: maximum of not_zero(), for safe log_softmax.
  __device__ __forceinline__ SoftmaxGradient(const RowParams& params, PairOf<Number<shape>> row_sum,
                                             Number<shape> any_not_zero)
      : exponential(0.0f),
        sum(add(row_sum.first, row_sum.second)),
        rest(0.0f),
        scale(shape.scaled ? scale_of<Number<shape>>(params) : Number<shape>(1)),
        empty(shape.safe && shape.logarithm && any_not_zero == 0.0f) {
    const Number<shape> lost = lost_by_adding(row_sum.first, row_sum.second, sum);
    rest = is_finite(lost) ? lost : Number<shape>(0);
    if (!is_finite(row_sum.first)) {  // the second number is NaN then (inf - inf)
      sum = row_sum.first;
      rest = 0.0f;
    }
  }

  /// Replaces dy by dx.
  __device__ __forceinline__ void compute(Number<shape> (&dy)[shape.vector], const Number<shape> (&y)[shape.vector]) const {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      if constexpr (shape.logarithm) {
        const Number<shape> bounded = y[j] > highest ? highest : y[j];
        Number<shape> power = exponential(bounded);
        if constexpr (Exponential::bias != 0) power = multiply(power, unbias());
        const Number<shape> probability = y[j] == y[j] ? power : y[j];
        dy[j] = subtract(fused_multiply_add(-probability, sum, dy[j]), multiply(probability, rest));
        if constexpr (shape.scaled) dy[j] = multiply(dy[j], scale);
      } else {
        dy[j] = subtract(subtract(dy[j], sum), rest);
        Number<shape> share = y[j];
        if constexpr (shape.scaled) {
          // A scale below 1 multiplies the difference, before y makes it denormal. A larger one multiplies y, which is at
          // most 1: the difference could overflow.
          const bool grows = scale > 1.0f;
          dy[j] = multiply(dy[j], grows ? Number<shape>(1) : scale);
          share = multiply(share, grows ? scale : Number<shape>(1));
        }
        dy[j] = multiply(share, dy[j]);
      }
      if constexpr (shape.safe && shape.logarithm) dy[j] = empty ? Number<shape>(0) : dy[j];
    }
  }

 private:
  /// Returns 2^-bias of the exponential.
  static __device__ __forceinline__ float unbias() {
    return float_of(static_cast<uint32>(127 - static_cast<int>(Exponential::bias)) << 23);
  }
};

}  // namespace tunesmith
