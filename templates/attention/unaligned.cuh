// Rows of 16-bit elements that do not start at multiples of 16 bytes.
#pragma once

#include "attention/fragments.cuh"

namespace tunesmith {

/// Loads eight elements in accesses of `vector` elements.
template <typename Element, int vector>
__device__ __forceinline__ Bits<16> load_chunk(const Element* address) {
  Bits<16> chunk{};
#pragma unroll
  for (int i = 0; i < 8; i += vector) {
    const auto part = load<2 * vector, LoadHint::plain>(address + i);
    if constexpr (vector == 1) {
      chunk.word[i / 2] |= uint32{part.word} << (16 * (i % 2));
    } else {
#pragma unroll
      for (int j = 0; j < vector / 2; ++j) chunk.word[i / 2 + j] = part.word[j];
    }
  }
  return chunk;
}

/// Uses AlignedChunks if all rows of an array are aligned; otherwise threads load and store them.
struct UnalignedChunks {
  template <typename Element, int vector>
  static __device__ __forceinline__ void copy(unsigned char* shared, int at, const Element* source, bool there) {
    if constexpr (vector >= 8)
      async_copy_16(shared, at, source, there);
    else
      *reinterpret_cast<Bits<16>*>(shared + at) = there ? load_chunk<Element, vector>(source) : Bits<16>{};
  }
};

}  // namespace tunesmith
