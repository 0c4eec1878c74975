// Rows that do not start at multiples of 16 bytes, of elements of 8 or 16 bits.
#pragma once

#include "attention/fragments.cuh"

namespace tunesmith {

/// Loads 16 bytes in accesses of `vector` elements.
template <typename Element, int vector>
__device__ __forceinline__ Bits<16> load_chunk(const Element* address) {
  constexpr int bytes = vector * static_cast<int>(sizeof(Element));
  Bits<16> chunk{};
#pragma unroll
  for (int at = 0; at < 16; at += bytes) {
    const auto part = load<bytes, LoadHint::plain>(address + at / static_cast<int>(sizeof(Element)));
    if constexpr (bytes < 4) {
      chunk.word[at / 4] |= uint32{part.word} << (8 * (at % 4));
    } else {
#pragma unroll
      for (int j = 0; j < bytes / 4; ++j) chunk.word[at / 4 + j] = part.word[j];
    }
  }
  return chunk;
}

/// Uses AlignedChunks if all rows of an array are aligned; otherwise threads load and store them.
struct UnalignedChunks {
  template <typename Element, int vector>
  static __device__ __forceinline__ void copy(unsigned char* shared, int at, const Element* source, bool there) {
    if constexpr (vector * sizeof(Element) >= 16)
      async_copy_16(shared, at, source, there);
    else
      *reinterpret_cast<Bits<16>*>(shared + at) = there ? load_chunk<Element, vector>(source) : Bits<16>{};
  }
};

}  // namespace tunesmith
