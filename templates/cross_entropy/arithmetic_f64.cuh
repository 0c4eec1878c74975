// Arithmetic of cross-entropy in double: exponentials of logits, tanh and more.
#pragma once

#include "device/double_exponential.cuh"
#include "row/double.cuh"

namespace tunesmith {

/// exp(logit - largest), the counterpart of LogitExponential.
struct DoubleLogitExponential : DoubleExponential {
  __device__ __forceinline__ explicit DoubleLogitExponential(double largest) : DoubleExponential(largest) {}

  /// 1 / (*this)(logit)
  __device__ __forceinline__ double reciprocal(double logit) const { return exponential_of(subtract(origin, logit)); }
};

#ifdef TUNESMITH_HOST_EXECUTOR
__device__ __forceinline__ double tanh_of(double x) { return __builtin_tanh(x); }
#else
/// Within two units in the last place (CUDA's programming guide, "Mathematical functions").
__device__ __forceinline__ double tanh_of(double x) { return ::tanh(x); }
#endif

}  // namespace tunesmith
