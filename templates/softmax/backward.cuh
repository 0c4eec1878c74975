// The steps of softmax_backward and log_softmax_backward that every kernel takes.
//
//   softmax:      dx = scale * y * (dy - sum(dy * y))
//   log_softmax:  dx = scale * (dy - exp(y) * sum(dy))
//
// Columns that take no part have dy = 0 and a y whose probability is 0, so that they drop out of the sum and get dx = 0.
#pragma once

#include "device/exponential.cuh"
#include "row/mask.cuh"

namespace tunesmith {

/// y of a column that takes no part: a probability, or its logarithm, of 0; for the logarithm a finite number that
/// log_softmax never gives, by which is_zero_row() knows it.
template <typename Input, const RowShape& shape>
__device__ __forceinline__ float absent_y() {
  if constexpr (!shape.logarithm) return 0.0f;
  return is_same<Input, f16> ? -65504.0f : -0x1.8p127f;
}

/// The sum over a row, as an unevaluated sum of two floats: dy - sum cancels where a gradient is small, and the digits that
/// are left must be right.
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
      sum.include(multiply(dy[j], y[j]));  // 16-bit factors: exact
  }
}

/// 0 if every element that takes part is 0: what log_softmax makes of a wholly masked row when asked for safe rows. (A row
/// of one column looks the same, and its gradient is 0 as well.)
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
  static constexpr float highest = 40.0f;  // log-probabilities are at most 0; beyond this the exponential would overflow

  Exponential exponential;
  float sum, rest;  // the sum is sum + rest
  float scale;
  bool empty;

  /// `row_sum` in two floats; `any_not_zero` from not_zero(), for safe rows of log_softmax.
  __device__ __forceinline__ SoftmaxGradient(const RowParams& params, FloatPair row_sum, float any_not_zero)
      : exponential(0.0f),
        sum(add(row_sum.first, row_sum.second)),
        rest(0.0f),
        scale(shape.scaled ? params.scale : 1.0f),
        empty(shape.safe && shape.logarithm && any_not_zero == 0.0f) {
    const float lost = lost_by_adding(row_sum.first, row_sum.second, sum);
    rest = is_finite(lost) ? lost : 0.0f;
    if (!is_finite(row_sum.first)) {  // then the second is what inf - inf made of it
      sum = row_sum.first;
      rest = 0.0f;
    }
  }

  /// dy becomes dx.
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
        if constexpr (shape.scaled) dy[j] = multiply(dy[j], scale);  // before y makes it a denormal number
        dy[j] = multiply(y[j], dy[j]);
      }
      if constexpr (shape.safe && shape.logarithm) dy[j] = empty ? 0.0f : dy[j];
    }
  }

 private:
  /// 2^-bias of the exponential.
  static __device__ __forceinline__ float unbias() {
    return float_of(static_cast<uint32>(127 - static_cast<int>(Exponential::bias)) << 23);
  }
};

}  // namespace tunesmith
