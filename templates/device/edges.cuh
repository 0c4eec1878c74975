// Loads and stores of vectors that may cross the ends of a row. See WholeVectors.
#pragma once

#include "device/vector.cuh"

namespace tunesmith {

template <typename T, int count, StoreHint hint>
__device__ __forceinline__ void store_by_element(T* row, int64 column, Range range, const float (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (range.holds<1>(column + i)) {
      Packed<T, 1> element;
      const float value[1] = {values[i]};
      element.pack_from(value);
      store<static_cast<int>(sizeof(T)), hint>(row + column + i, element.access[0]);
    }
  }
}

/// For rows where few vectors cross an end: their elements are loaded one by one without branches, so other loads overlap.
struct StraightEdges {
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          float outside) {
    if (inside) return load_whole<T, count, hint>(row, column);
    Packed<T, count> vector = load_if_whole<T, count, hint>(row, column, range, outside);
    if constexpr (count > 1) {
      constexpr int bytes = static_cast<int>(sizeof(T));
      constexpr int per_word = 4 / bytes;
      const bool whole = range.holds<count>(column);
      // Compute the element range in 32 bits: 64-bit comparisons per element would become branches.
      const int64 before = range.begin - column, after = range.end - column;
      const int from = whole || before >= count ? count : (before > 0 ? static_cast<int>(before) : 0);
      const int to = after >= count ? count : (after > 0 ? static_cast<int>(after) : 0);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        uint32& word = vector.access[i / (Packed<T, count>::access_bytes / bytes)]
                           .word[i / per_word % (Packed<T, count>::access_bytes / 4)];
        const bool there = static_cast<bool>(static_cast<int>(i >= from) & static_cast<int>(i < to));
        if constexpr (bytes == 4) {
          word = load_if<4, hint>(there, row + column + i, Bits<4>{{word}}).word[0];
        } else {
          const int shift = i % per_word * 16;
          const uint32 kept = word & (0xffff0000u >> shift);
          const auto old = static_cast<uint16>(word >> shift);
          word = kept | uint32{load_if<2, hint>(there, row + column + i, Bits<2>{old}).word} << shift;
        }
      }
    }
    return vector;
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const float (&values)[count]) {
    if (inside || range.holds<count>(column))
      store_whole<T, count, hint>(row, column, values);
    else
      store_by_element<T, count, hint>(row, column, range, values);
  }
};

/// For rows where many vectors cross an end, as with variable row lengths: a branch with element-wise loads, because
/// branch-free code would be too long.
struct BranchedEdges {
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          float outside) {
    Packed<T, count> vector;
    if (inside || range.holds<count>(column)) {
      vector = load_whole<T, count, hint>(row, column);
    } else {
      float values[count];
#pragma unroll
      for (int i = 0; i < count; ++i) values[i] = outside;
      if (range.meets<count>(column)) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
          if (range.holds<1>(column + i)) {
            Packed<T, 1> element;
            element.access[0] = tunesmith::load<static_cast<int>(sizeof(T)), hint>(row + column + i);
            float value[1];
            element.unpack(value);
            values[i] = value[0];
          }
        }
      }
      vector.pack_from(values);
    }
    return vector;
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const float (&values)[count]) {
    StraightEdges::store<T, count, hint>(row, column, range, inside, values);
  }
};

/// For rows whose length is known only at run time: many vectors may lie beyond an end, but at most two cross one. Whole
/// vectors are loaded without a branch; only a warp with a vector across an end accesses elements.
struct GuardedEdges {
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          float outside) {
    if (inside) return load_whole<T, count, hint>(row, column);
    Packed<T, count> vector = load_if_whole<T, count, hint>(row, column, range, outside);
    if (!range.holds<count>(column) && range.meets<count>(column))
      vector = BranchedEdges::load<T, count, hint>(row, column, range, false, outside);
    return vector;
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const float (&values)[count]) {
    if (inside || range.holds<count>(column))
      store_whole<T, count, hint>(row, column, values);
    else if (range.meets<count>(column))
      store_by_element<T, count, hint>(row, column, range, values);
  }
};

}  // namespace tunesmith
