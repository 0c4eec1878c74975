// Loads and stores of vectors that may cross the ends of a row. See WholeVectors.
#pragma once

#include "device/vector.cuh"

namespace tunesmith {

template <typename T, int count, StoreHint hint>
__device__ __forceinline__ void store_by_element(T* row, int64 column, Range range, const Compute<T> (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (range.holds<1>(column + i)) {
      Packed<T, 1> element;
      const Compute<T> value[1] = {values[i]};
      element.pack_from(value);
      store<static_cast<int>(sizeof(T)), hint>(row + column + i, element.access[0]);
    }
  }
}

/// Loads the elements of a vector that crosses an end of the range, without branches: row/double.cuh has it for double.
template <LoadHint hint, typename T, int count>
__device__ void load_elements_of(Packed<T, count>& vector, const T* row, int64 column, Range range);

/// Replaces elements [from, to) of the vector at `column` by those in memory, without branches.
template <LoadHint hint, typename T, int count>
__device__ __forceinline__ void load_some(Packed<T, count>& vector, const T* row, int64 column, int from, int to) {
  constexpr int bytes = static_cast<int>(sizeof(T));
  constexpr int per_word = 4 / bytes;
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

/// For rows where few vectors cross an end: their elements are loaded one by one without branches, so other loads overlap.
struct StraightEdges {
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    if (inside) return load_whole<T, count, hint>(row, column);
    Packed<T, count> vector = load_if_whole<T, count, hint>(row, column, range, outside);
    if constexpr (sizeof(T) == 8) {
      load_elements_of<hint>(vector, row, column, range);
    } else if constexpr (count > 1) {
      const bool whole = range.holds<count>(column);
      // Compute the element range in 32 bits: 64-bit comparisons per element would become branches.
      const int64 before = range.begin - column, after = range.end - column;
      const int from = whole || before >= count ? count : (before > 0 ? static_cast<int>(before) : 0);
      const int to = after >= count ? count : (after > 0 ? static_cast<int>(after) : 0);
      load_some<hint>(vector, row, column, from, to);
    }
    return vector;
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const Compute<T> (&values)[count]) {
    if (inside || range.holds<count>(column))
      store_whole<T, count, hint>(row, column, values);
    else
      store_by_element<T, count, hint>(row, column, range, values);
  }
};

/// For rows where many vectors cross an end, as with variable row lengths: a branch with element-wise loads, because
/// branch-free code would be too long.
struct BranchedEdges {
  static constexpr bool late_ends = false;
  static __device__ __forceinline__ Range without_begin(Range range) { return range; }

  /// Loads a vector that is not within the range.
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load_rest(const T* row, int64 column, Range range, Compute<T> outside) {
    return load<T, count, hint>(row, column, range, false, outside);
  }
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    Packed<T, count> vector;
    if (inside || range.holds<count>(column)) {
      vector = load_whole<T, count, hint>(row, column);
    } else {
      Compute<T> values[count];
#pragma unroll
      for (int i = 0; i < count; ++i) values[i] = outside;
      if (range.meets<count>(column)) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
          if (range.holds<1>(column + i)) {
            Packed<T, 1> element;
            element.access[0] = tunesmith::load<static_cast<int>(sizeof(T)), hint>(row + column + i);
            Compute<T> value[1];
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
                                               const Compute<T> (&values)[count]) {
    StraightEdges::store<T, count, hint>(row, column, range, inside, values);
  }
};

/// WholeVectors for rows whose length is known only at run time, and less than 2^31. Comparisons are in 32 bits, because
/// kernels with narrow accesses are limited by their instructions.
struct GuardedVectors {
  static constexpr bool late_ends = false;

  /// Returns a range for vectors that cannot start before the row: comparisons with its beginning vanish.
  static __device__ __forceinline__ Range without_begin(Range range) { return {-(int64{1} << 31), range.end}; }

  /// Loads a vector that is not within the range.
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load_rest(const T*, int64, Range, Compute<T> outside) {
    Packed<T, count> vector;
    Compute<T> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = outside;
    vector.pack_from(values);
    return vector;
  }
  template <int count>
  static __device__ __forceinline__ bool holds(Range range, int64 column) {
    return static_cast<int>(column) >= static_cast<int>(range.begin) &&
           static_cast<int>(range.end) - static_cast<int>(column) >= count;
  }
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    if (inside) return load_whole<T, count, hint>(row, column);
    Packed<T, count> vector;
    Compute<T> values[count];
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = outside;
    vector.pack_from(values);
    const bool whole = holds<count>(range, column);
#pragma unroll
    for (int i = 0; i < vector.accesses; ++i) {
      const auto* address = reinterpret_cast<const char*>(row + column) + i * vector.access_bytes;
      vector.access[i] = load_if<Packed<T, count>::access_bytes, hint>(whole, address, vector.access[i]);
    }
    return vector;
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const Compute<T> (&values)[count]) {
    if (inside) return store_whole<T, count, hint>(row, column, values);
    const bool whole = holds<count>(range, column);
    if constexpr (count > 2) {
      if (whole) store_whole<T, count, hint>(row, column, values);
    } else {
      // Converts in any case: the compiler predicates a store alone, but branches around a conversion.
      Packed<T, count> vector;
      vector.pack_from(values);
      vector.forget_uses();
      if (whole) tunesmith::store<Packed<T, count>::access_bytes, hint>(row + column, vector.access[0]);
    }
  }
};

/// The same for rows whose vectors may cross an end: many may lie beyond an end, but at most two cross one.
struct GuardedEdges : GuardedVectors {
  static constexpr bool late_ends = true;

  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load_rest(const T* row, int64 column, Range range, Compute<T> outside) {
    return BranchedEdges::load_rest<T, count, hint>(row, column, range, outside);
  }
  /// Returns whether the range has some elements of the vector, but not all.
  template <int count>
  static __device__ __forceinline__ bool cross(Range range, int64 column) {
    return count > 1 && !holds<count>(range, column) && static_cast<int>(column) + count > static_cast<int>(range.begin) &&
           static_cast<int>(column) < static_cast<int>(range.end);
  }

  /// Loads the vectors at column(i) in `range(i)`. inside(i): the vector is within the row. All loads are in flight
  /// together: one vector of the group may cross the end, and its thread loads the elements next to all vectors.
  template <typename T, int count, LoadHint hint, int vectors, typename Column, typename RangeFor, typename Inside>
  static __device__ __forceinline__ void load_all(const T* row, const Column& column, const RangeFor& range,
                                                  const Inside& inside, Compute<T> outside,
                                                  Packed<T, count> (&loaded)[vectors]) {
    if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
      const int end = static_cast<int>(range(vectors - 1).end), last = end & -count;
      const auto is_last = [&](int i) {
        return !inside(i) && range(i).begin < 0 && static_cast<int>(column(i)) == last && last != end;
      };
      bool has_last = false;
#pragma unroll
      for (int i = 0; i < vectors; ++i) {
        if (range(i).begin < 0)
          loaded[i] = GuardedVectors::load<T, count, hint>(row, column(i), range(i), inside(i), outside);
        else
          loaded[i] = StraightEdges::load<T, count, hint>(row, column(i), range(i), inside(i), outside);
        has_last = has_last || is_last(i);
      }
      Compute<T> values[count];
#pragma unroll
      for (int i = 0; i < count; ++i) values[i] = outside;
      Packed<T, count> ending;
      ending.pack_from(values);
      load_some<hint>(ending, row, last, 0, has_last ? end - last : 0);
#pragma unroll
      for (int i = 0; i < vectors; ++i)
#pragma unroll
        for (int j = 0; j < Packed<T, count>::accesses; ++j)
#pragma unroll
          for (int k = 0; k < Packed<T, count>::access_bytes / 4; ++k)
            loaded[i].access[j].word[k] = is_last(i) ? ending.access[j].word[k] : loaded[i].access[j].word[k];
    } else {
#pragma unroll
      for (int i = 0; i < vectors; ++i)
        loaded[i] = GuardedVectors::load<T, count, hint>(row, column(i), range(i), inside(i), outside);
#pragma unroll
      for (int i = 0; i < vectors; ++i)
        if (!inside(i) && cross<count>(range(i), column(i)))
          loaded[i] = BranchedEdges::load<T, count, hint>(row, column(i), range(i), false, outside);
    }
  }

  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    if (inside) return load_whole<T, count, hint>(row, column);
    Packed<T, count> vector = GuardedVectors::load<T, count, hint>(row, column, range, false, outside);
    if constexpr (count == 2 && sizeof(T) == 2) {
      // Without a branch, so that the loads of other pairs overlap.
      uint32& word = vector.access[0].word[0];
      const int before = static_cast<int>(range.begin), first = static_cast<int>(column);
      const bool second_only = first + 1 == before && first + 1 < static_cast<int>(range.end);
      const bool first_only = first >= before && first + 1 == static_cast<int>(range.end);
      const auto low = static_cast<uint16>(word), high = static_cast<uint16>(word >> 16);
      word = uint32{load_if<2, hint>(first_only, row + column, Bits<2>{low}).word} |
             uint32{load_if<2, hint>(second_only, row + column + 1, Bits<2>{high}).word} << 16;
    } else if constexpr (count > 1) {
      if (cross<count>(range, column)) vector = BranchedEdges::load<T, count, hint>(row, column, range, false, outside);
    }
    return vector;
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const Compute<T> (&values)[count]) {
    GuardedVectors::store<T, count, hint>(row, column, range, inside, values);
    if (!inside && cross<count>(range, column)) store_by_element<T, count, hint>(row, column, range, values);
  }
};

}  // namespace tunesmith
