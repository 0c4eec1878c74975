// The gradient through uses of lse itself.
#pragma once

#include "cross_entropy/cross_entropy.cuh"

namespace tunesmith {

/// With a gradient through lse.
template <typename Number>
struct CrossEntropyLseParamsOf : CrossEntropyParamsOf<Number> {
  const Number* dlse;  ///< [rows]
};
using CrossEntropyLseParams = CrossEntropyLseParamsOf<float>;

/// Adds the gradient through lse, dlse * p, to the gradient of the loss. Rows without a loss have it, too. Ask for it only
/// `if constexpr (present)`: calls that do nothing change how the kernel without it is scheduled.
template <typename Params>
struct LseGradient {
  static constexpr bool present = false;
  __device__ __forceinline__ LseGradient(const Params&, int64) {}
};
template <typename Number>
struct LseGradient<CrossEntropyLseParamsOf<Number>> {
  static constexpr bool present = true;
  Number dlse;

  __device__ __forceinline__ LseGradient(const CrossEntropyLseParamsOf<Number>& params, int64 row)
      : dlse(params.dlse[row]) {}
  template <typename Gradient, typename Loss>
  __device__ __forceinline__ void add_to(Gradient& gradient, const Loss& loss, bool counts) const {
    gradient.per_exponential = fused_multiply_add(dlse, loss.per_exponential, counts ? gradient.per_exponential : 0.0f);
    gradient.per_weight = counts ? gradient.per_weight : 0.0f;
  }
  template <typename Gradient, typename Loss>
  __device__ __forceinline__ Number of_target(const Gradient& gradient, const Loss& loss, Number logit) const {
    return fused_multiply_add(multiply(dlse, loss.target_share), gradient.scale.slope(logit), gradient.target(logit));
  }
  /// Returns whether a row has a gradient that is not 0.
  __device__ __forceinline__ bool reaches(bool counts) const { return counts || dlse != 0.0f; }
};

}  // namespace tunesmith
