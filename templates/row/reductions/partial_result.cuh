// The interface of reductions over the columns of a row or of a group of columns. The reductions of a stage share one struct
// of floats, or of doubles in programs that compute in f64 (row/reductions/combined_reductions.cuh).
//
// A reduction has
//   operands, floats     values per column, and floats of a partial result;
//   clear()              the partial result of no columns;
//   include()            includes a vector; columns outside of the row are skipped;
//   combine()            combines two partial results.
//
// Two forms of a partial result are for reductions that are faster with them; most have one. settle() completes what a
// thread has included. For a reduction over lanes, to_sums() makes a form that add_sums() combines and settle() completes.
#pragma once

#include "row/functions.cuh"

namespace tunesmith {

/// A partial result, or several. Aligned for wide accesses to shared memory.
template <int count, typename Number = float>
struct alignas(count * sizeof(Number) % 16 == 0  ? 16
               : count * sizeof(Number) % 8 == 0 ? 8
                                                 : 4) Floats {
  Number value[count];
};
template <int count, typename Number>
__device__ __forceinline__ Floats<count, Number> shuffle_xor(Floats<count, Number> floats, int lane_mask) {
#pragma unroll
  for (int i = 0; i < count; ++i) floats.value[i] = shuffle_xor(floats.value[i], lane_mask);
  return floats;
}

/// A number whose bits are an integer, and back.
template <typename Number>
__device__ __forceinline__ Number with_bits(uint32 bits);
template <>
__device__ __forceinline__ float with_bits<float>(uint32 bits) {
  return float_of(bits);
}
__device__ __forceinline__ uint32 integer_in(float number) { return bits_of(number); }

/// The elements of a vector that are in the row: [from, to). `column`: the column of element 0.
struct ElementsInside {
  int from, to;
  int64 column;
  __device__ __forceinline__ bool holds(int element) const { return element >= from && element < to; }
};

}  // namespace tunesmith
