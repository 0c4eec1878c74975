// Counter-based random numbers: Philox4x32-10 (device/philox.cuh). A number depends on the seed, the row, the column and the
// index of the call alone, not on the configuration. Four neighbouring columns share a computation.
// The host has the same function (evaluate/random.h).
#pragma once

#include "device/philox.cuh"

namespace tunesmith {

/// Returns a number in (0, 1) from the bits: odd multiples of 2^-24.
__device__ __forceinline__ float uniform_of(uint32 bits) { return static_cast<float>((bits >> 9) * 2 + 1) * 0x1.0p-24f; }

/// The numbers of columns 4 * quad to 4 * quad + 3.
__device__ __forceinline__ Philox numbers_of_quad(int seed, int64 row, uint32 quad, int index) {
  return {static_cast<uint32>(seed), quad, static_cast<uint32>(row), static_cast<uint32>(index), 0};
}

__device__ __forceinline__ float uniform_number(int seed, int64 row, int64 column, int index) {
  const auto position = static_cast<uint32>(column);
  const Philox philox = numbers_of_quad(seed, row, position / 4, index);
  const uint32 lower = (position & 1u) == 0 ? philox.numbers[0] : philox.numbers[1],
               upper = (position & 1u) == 0 ? philox.numbers[2] : philox.numbers[3];
  return uniform_of((position & 2u) == 0 ? lower : upper);
}
/// The number of element j of a vector, for call `call` of the program; elements are asked for in order. The first one of a
/// quad computes the others' numbers, too: from four computations, nvcc 13.0 removes only some of what they have in common.
template <int call, typename Vector>
__device__ __forceinline__ float uniform_number(int seed, const Vector& v, int j, int index) {
  if constexpr (Vector::shares_numbers) {
    if (j % 4 == 0) {
      const Philox philox = numbers_of_quad(seed, v.row, static_cast<uint32>(v.column + j) / 4, index);
#pragma unroll
      for (int k = 0; k < 4; ++k) v.random[call][k] = philox.numbers[k];
    }
    return uniform_of(v.random[call][j % 4]);
  } else {
    return uniform_number(seed, v.row, v.column + j, index);
  }
}

}  // namespace tunesmith
