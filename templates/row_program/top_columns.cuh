// The k largest values of a row with their columns: topk of a row program.
#pragma once

#include "row_program/reductions.cuh"

namespace tunesmith {

/// A value as an integer in the same order: NaN is the largest, 0 and -0 are equal. 0 is before all values.
__device__ __forceinline__ uint32 key_of_value(float value) {
  const uint32 bits = bits_of(add(value, 0.0f));  // -0 becomes 0
  if (value != value) return 0xffffffffu;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of_key(uint32 key) {
  if (key == 0xffffffffu) return float_of(nan_bits);
  return float_of((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ uint32 key_in(float number) { return bits_of(number); }
__device__ __forceinline__ float with_key(uint32 key) { return float_of(key); }

/// A chosen column, with `carried` more values of it.
template <int carried, typename Number = float>
struct ChosenColumn {
  typename If<sizeof(Number) == 8, uint64, uint32>::type key;
  uint32 column;
  Number more[carried > 0 ? carried : 1];

  /// No column. It comes after all columns.
  static __device__ __forceinline__ ChosenColumn none() {
    ChosenColumn empty{};
    empty.column = 0x7fffffffu;
    return empty;
  }
  /// The larger value comes first; of equal ones, that of the lower column.
  __device__ __forceinline__ bool before(const ChosenColumn& other) const {
    return key > other.key || (key == other.key && column < other.column);
  }
};

/// The partial result is a sorted list: keys, columns, and each further value. A thread inserts columns that come before its
/// last one. Two lists are merged by one step that keeps the larger halves of both, and a bitonic merge (Batcher, 1968).
///
/// Cost in steps of about 6 instructions: k for an insertion, which about k log(n / k) of a thread's n columns need; k + k /
/// 2 log2(k) for a merge, of which there are log2(threads). k rounds of argmax would read the row k times and exchange k
/// times. A thread holds two lists of (2 + carried) k registers while it merges: about 64 for k = 8. Lists of more than 32
/// columns are merged with less (row_program/top_lists.cuh).
template <int k, int carried>
struct TopColumns {
  static constexpr int operands = 1 + carried, floats = (2 + carried) * k;
  template <typename Number>
  using Entry = ChosenColumn<carried, Number>;

  template <typename Number>
  static __device__ __forceinline__ Entry<Number> entry(const Number* partial, int rank) {
    Entry<Number> made{key_in(partial[rank]), integer_in(partial[k + rank]), {}};
#pragma unroll
    for (int c = 0; c < carried; ++c) made.more[c] = partial[(2 + c) * k + rank];
    return made;
  }
  template <typename Number>
  static __device__ __forceinline__ void put(Number* partial, int rank, const Entry<Number>& made) {
    partial[rank] = with_key(made.key);
    partial[k + rank] = with_bits<Number>(made.column);
#pragma unroll
    for (int c = 0; c < carried; ++c) partial[(2 + c) * k + rank] = made.more[c];
  }
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
#pragma unroll
    for (int rank = 0; rank < k; ++rank) put(partial, rank, Entry<Number>::none());
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ Entry<Number> term(const Number (*terms)[vector], int j, ElementsInside inside) {
    Entry<Number> made{key_of_value(terms[0][j]), static_cast<uint32>(inside.column) + static_cast<uint32>(j), {}};
#pragma unroll
    for (int c = 0; c < carried; ++c) made.more[c] = terms[1 + c][j];
    return made;
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    if (key_in(partial[0]) == 0) return start(partial, terms, inside);
    uint32 waiting = 0;
#pragma unroll
    for (int j = 0; j < vector; ++j)
      if (inside.holds(j) && term(terms, j, inside).before(entry(partial, k - 1))) waiting |= 1u << j;
    // Each lane takes its own next element, so that lanes insert together and the insertion is one piece of code.
    while (waiting != 0) {
      Entry<Number> next = Entry<Number>::none();
#pragma unroll
      for (int j = vector - 1; j >= 0; --j)
        if ((waiting >> j & 1u) != 0) next = term(terms, j, inside);
      waiting &= waiting - 1;
      insert(partial, next);
    }
  }
  /// Makes a list of one vector: cheaper than to insert each of its columns.
  template <typename Number, int vector>
  static __device__ __forceinline__ void start(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    Entry<Number> sorted[vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) sorted[j] = inside.holds(j) ? term(terms, j, inside) : Entry<Number>::none();
      // Batcher's bitonic sort: runs of `size`, every second one ascending.
#pragma unroll
    for (int size = 2; size <= vector; size *= 2)
#pragma unroll
      for (int distance = size / 2; distance > 0; distance /= 2)
#pragma unroll
        for (int j = 0; j < vector; ++j)
          if ((j & distance) == 0) {
            if ((j & size) == 0)
              order(sorted[j], sorted[j + distance]);
            else
              order(sorted[j + distance], sorted[j]);
          }
#pragma unroll
    for (int rank = 0; rank < k && rank < vector; ++rank) put(partial, rank, sorted[rank]);
  }
  /// Swaps two columns unless the first one comes first.
  template <typename Number>
  static __device__ __forceinline__ void order(Entry<Number>& first, Entry<Number>& second) {
    const bool swapped = second.before(first);
    const Entry<Number> low = swapped ? first : second;
    first = swapped ? second : first;
    second = low;
  }
  template <typename Number>
  static __device__ __forceinline__ void insert(Number* partial, Entry<Number> added) {
#pragma unroll
    for (int rank = 0; rank < k; ++rank) {
      const Entry<Number> here = entry(partial, rank);
      const bool first = added.before(here);
      put(partial, rank, first ? added : here);
      added = first ? here : added;
    }
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    constexpr int width = k <= 1 ? 1 : k <= 2 ? 2 : k <= 4 ? 4 : k <= 8 ? 8 : k <= 16 ? 16 : k <= 32 ? 32 : 64;
    Entry<Number> merged[width];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const int mirrored = width - 1 - i;
      if (i >= k)
        merged[i] = entry(other, mirrored);
      else if (mirrored >= k)
        merged[i] = entry(partial, i);
      else
        merged[i] = entry(partial, i).before(entry(other, mirrored)) ? entry(partial, i) : entry(other, mirrored);
    }
#pragma unroll
    for (int distance = width / 2; distance > 0; distance /= 2)
#pragma unroll
      for (int i = 0; i < width; ++i)
        if ((i & distance) == 0) order(merged[i], merged[i + distance]);
#pragma unroll
    for (int rank = 0; rank < k; ++rank) put(partial, rank, merged[rank]);
  }

  template <typename Number>
  static __device__ __forceinline__ Number value(const Number* partial, int rank) {
    return value_of_key(key_in(partial[rank]));
  }
  template <typename Number>
  static __device__ __forceinline__ int column(const Number* partial, int rank) {
    return static_cast<int>(integer_in(partial[k + rank]));
  }
  template <int which, typename Number>
  static __device__ __forceinline__ Number more(const Number* partial, int rank) {
    return partial[(2 + which) * k + rank];
  }
};

}  // namespace tunesmith
