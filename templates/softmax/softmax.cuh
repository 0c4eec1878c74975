// What the softmax kernels share: parameters, the shape they are specialized for, addressing.
#pragma once

#include "device/exponential.cuh"
#include "device/vector.cuh"

namespace tunesmith {

/// The kernel's only argument. Strides are in elements.
struct SoftmaxParams {
  const void* x;
  void* y;
  int64 rows;
  int64 x_row_stride;
  int64 y_row_stride;
};

/// Facts that the source is specialized for.
struct SoftmaxShape {
  int64 cols;
  int vector;  ///< elements per vector: what dtypes, base addresses and row strides allow, at most 16 bytes of the wider one
};

/// How a row waits in registers between its load and its store.
enum class Registers {
  float32,  ///< converted once
  packed,   ///< as in memory, converted each time it is used: half the registers for 16-bit inputs
};

/// Vectors of a row that each of `threads` threads holds.
template <const SoftmaxShape& shape, int threads>
constexpr int vectors_per_thread = static_cast<int>((shape.cols + int64{threads} * shape.vector - 1) /
                                                    (int64{threads} * shape.vector));

template <typename Input>
__device__ __forceinline__ const Input* x_row(const SoftmaxParams& params, int64 row) {
  return static_cast<const Input*>(params.x) + row * params.x_row_stride;
}
template <typename Output>
__device__ __forceinline__ Output* y_row(const SoftmaxParams& params, int64 row) {
  return static_cast<Output*>(params.y) + row * params.y_row_stride;
}

/// What every exponential of a row is multiplied with. A row whose maximum is not finite (it holds NaN or +inf, or is all
/// -inf) becomes NaN, as the definition gives.
__device__ __forceinline__ float softmax_scale(float largest, float sum) {
  return is_finite(largest) ? divide(1.0f, sum) : float_of(0x7fc00000u);
}

}  // namespace tunesmith
