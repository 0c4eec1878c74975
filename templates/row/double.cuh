// Rows of double: vectors, and the parameters of kernels.
#pragma once

#include "device/double.cuh"
#include "device/vector.cuh"
#include "row/params.cuh"

namespace tunesmith {

/// `count` consecutive doubles in registers, in the layout of memory.
template <int count>
struct Packed<double, count> {
  static constexpr int bytes = 8 * count;
  static constexpr int access_bytes = bytes < 16 ? bytes : 16;
  static constexpr int accesses = bytes / access_bytes;
  static constexpr int each = access_bytes / 8;  ///< elements per access

  Bits<access_bytes> access[accesses];

  __device__ __forceinline__ double element(int j) const {
    const uint32* const words = access[j / each].word + j % each * 2;
    return double_of(words[0], words[1]);
  }
  __device__ __forceinline__ void set(int j, double value) {
    uint32* const words = access[j / each].word + j % each * 2;
    words[0] = low_bits_of(value);
    words[1] = high_bits_of(value);
  }
  __device__ __forceinline__ void unpack(double (&values)[count]) const {
#pragma unroll
    for (int j = 0; j < count; ++j) values[j] = element(j);
  }
  __device__ __forceinline__ void pack_from(const double (&values)[count]) {
#pragma unroll
    for (int j = 0; j < count; ++j) set(j, values[j]);
  }
  __device__ __forceinline__ void forget_uses() {
#pragma unroll
    for (int i = 0; i < accesses; ++i)
#pragma unroll
      for (int j = 0; j < access_bytes / 4; ++j) forget(access[i].word[j]);
  }
};

template <>
struct PackedMaximum<double> {};

/// Loads the elements of a vector that crosses an end of the range, without branches.
template <LoadHint hint, int count>
__device__ __forceinline__ void load_elements_of(Packed<double, count>& vector, const double* row, int64 column,
                                                 Range range) {
  const bool crosses = count > 1 && !range.holds<count>(column);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const double old = vector.element(i);
    const Bits<8> loaded = load_if<8, hint>(crosses && range.holds<1>(column + i), row + column + i,
                                            Bits<8>{{low_bits_of(old), high_bits_of(old)}});
    vector.set(i, double_of(loaded.word[0], loaded.word[1]));
  }
}

template <typename Number>
__device__ __forceinline__ Number scale_of(const RowParams& params);
/// The parameters have its bits in two floats.
template <>
__device__ __forceinline__ double scale_of<double>(const RowParams& params) {
  return double_of(bits_of(params.log2e_low), bits_of(params.log2e_high));
}

}  // namespace tunesmith
