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
__device__ __forceinline__ float absent_y() {
  if constexpr (!shape.logarithm) return 0.0f;
  return is_same<Input, f16> ? -65504.0f : -0x1.8p127f;
}

/// Adds a vector to the row's sum, an unevaluated sum of two floats: where a gradient is small, dy - sum cancels and the low
/// digits matter.
template <typename Input, const RowShape& shape>
__device__ __forceinline__ void include_in_sum(CompensatedSum& sum, const float (&dy)[shape.vector],
                                               const float (&y)[shape.vector]) {
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) {
    if constexpr (shape.logarithm)
      sum.include(dy[j]);
    else if constexpr (sizeof(Input) == 4)
      sum.include_product(dy[j], y[j]);
    else
      sum.include(multiply(dy[j], y[j]));  // the product of 16-bit factors is exact
  }
}

/// Returns 0 if all contributing elements are 0, as safe log_softmax writes a fully masked row, and 1 otherwise. (A row of
/// one column looks the same; its gradient is 0, too.)
template <typename Input, const RowShape& shape>
__device__ __forceinline__ float not_zero(const float (&y)[shape.vector]) {
  float found = 0.0f;
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) found = y[j] == 0.0f || y[j] == absent_y<Input, shape>() ? found : 1.0f;
  return found;
}

template <const RowShape& shape>
struct SoftmaxGradient {
  using Exponential = typename RowFeatures<shape>::Arithmetic::Exponential;
  static constexpr float highest = 40.0f;  // log-probabilities are at most 0; larger arguments would overflow

  Exponential exponential;
  float sum, rest;  // the sum is sum + rest
  float scale;
  bool empty;

  /// `row_sum`: in two floats; `any_not_zero`: maximum of not_zero(), for safe log_softmax.
  __device__ __forceinline__ SoftmaxGradient(const RowParams& params, FloatPair row_sum, float any_not_zero)
      : exponential(0.0f),
        sum(add(row_sum.first, row_sum.second)),
        rest(0.0f),
        scale(shape.scaled ? params.scale : 1.0f),
        empty(shape.safe && shape.logarithm && any_not_zero == 0.0f) {
    const float lost = lost_by_adding(row_sum.first, row_sum.second, sum);
    rest = is_finite(lost) ? lost : 0.0f;
    if (!is_finite(row_sum.first)) {  // the second float is NaN then (inf - inf)
      sum = row_sum.first;
      rest = 0.0f;
    }
  }

  /// Replaces dy by dx.
  __device__ __forceinline__ void compute(float (&dy)[shape.vector], const float (&y)[shape.vector]) const {
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      if constexpr (shape.logarithm) {
        const float bounded = y[j] > highest ? highest : y[j];
        const float power = multiply(exponential(bounded), unbias());
        const float probability = y[j] == y[j] ? power : y[j];
        dy[j] = subtract(fused_multiply_add(-probability, sum, dy[j]), multiply(probability, rest));
        if constexpr (shape.scaled) dy[j] = multiply(dy[j], scale);
      } else {
        dy[j] = subtract(subtract(dy[j], sum), rest);
        if constexpr (shape.scaled) dy[j] = multiply(dy[j], scale);  // before y makes it denormal
        dy[j] = multiply(y[j], dy[j]);
      }
      if constexpr (shape.safe && shape.logarithm) dy[j] = empty ? 0.0f : dy[j];
    }
  }

 private:
  /// Returns 2^-bias of the exponential.
  static __device__ __forceinline__ float unbias() {
    return float_of(static_cast<uint32>(127 - static_cast<int>(Exponential::bias)) << 23);
  }
};

}  // namespace tunesmith
