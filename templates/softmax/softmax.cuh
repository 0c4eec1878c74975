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
  int vector;    ///< elements per vector: at most 16 bytes of the wider dtype
  bool shifted;  ///< rows start anywhere between two vectors, in x and y alike; else every row starts with a vector
};

/// Elements from the aligned address at or before a row's start to the row's end, at most.
template <const SoftmaxShape& shape>
constexpr int64 row_span = shape.cols + (shape.shifted ? shape.vector - 1 : 0);

/// How a row waits in registers between its load and its store.
enum class Registers {
  float32,  ///< converted once
  packed,   ///< as in memory, converted each time it is used: half the registers for 16-bit inputs
};

/// Vectors of a row that each of `threads` threads holds.
template <const SoftmaxShape& shape, int threads>
constexpr int vectors_per_thread = static_cast<int>((row_span<shape> + int64{threads} * shape.vector - 1) /
                                                    (int64{threads} * shape.vector));

/// Whether the i-th vectors of `threads` threads lie within every row.
template <const SoftmaxShape& shape, int threads>
__device__ __forceinline__ constexpr bool inside_row(int i) {
  return (!shape.shifted || i > 0) && (int64{i} + 1) * threads * shape.vector <= shape.cols;
}

/// A row of x and of y, both from the aligned address at or before their first element.
template <typename Input, typename Output, const SoftmaxShape& shape>
struct SoftmaxRow {
  const Input* x;
  Output* y;
  Range range;

  __device__ __forceinline__ SoftmaxRow(const SoftmaxParams& params, int64 row)
      : x(static_cast<const Input*>(params.x) + row * params.x_row_stride),
        y(static_cast<Output*>(params.y) + row * params.y_row_stride),
        range{0, shape.cols} {
    if constexpr (shape.shifted) {
      const int shift = static_cast<int>(reinterpret_cast<uint64>(x) / sizeof(Input)) & (shape.vector - 1);
      x -= shift;
      y -= shift;
      range = {shift, shift + shape.cols};
    }
  }
};

}  // namespace tunesmith
