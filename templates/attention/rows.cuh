// Rows of a head in global memory, as the functions that copy them to shared memory take them.
#pragma once

#include "device/vector.cuh"

namespace tunesmith {

/// Rows that are not multiplied (stage_rows).
struct NoFactor {};

/// Rows at a constant distance.
template <typename Type>
struct StridedRows {
  using Element = Type;

  const Type* start;  ///< of row 0
  int64 stride;       ///< elements

  /// Returns the distance of a row from `start`, in elements. Rows from `end` on are not read.
  __device__ __forceinline__ int64 offset(int index, int end) const { return index * stride; }
  __device__ __forceinline__ const Type* row(int index, int end) const { return start + offset(index, end); }
  /// Returns the `count` rows from row `begin` on, which keep their numbers.
  template <int count>
  __device__ __forceinline__ StridedRows tile(int begin, int end) const {
    return *this;
  }

  /// `count` rows that are `step` apart.
  template <int count, int step>
  struct Steps {
    const Type* address;
    int64 stride;

    __device__ __forceinline__ const Type* first() const { return address; }
    /// Returns the distance from row i to the next one, in elements.
    __device__ __forceinline__ int64 after(int i) const { return step * stride; }
  };
  template <int count, int step>
  __device__ __forceinline__ Steps<count, step> steps(int index, int end) const {
    return {row(index, end), stride};
  }
};

}  // namespace tunesmith
