// The k largest values of a row with their columns: topk of a row program.
#pragma once

#include "row/reductions/partial_result.cuh"

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
  uint32 inverted;  ///< ~column: with equal keys, larger for the lower column
  Number more[carried > 0 ? carried : 1];

  /// No column. It comes after all columns.
  static __device__ __forceinline__ ChosenColumn none() {
    ChosenColumn empty{};
    empty.inverted = ~0x7fffffffu;
    return empty;
  }
  /// The larger value comes first; of equal values, the lower column.
  __device__ __forceinline__ bool before(const ChosenColumn& other) const {
    if constexpr (sizeof(key) == 4) {  // one comparison of 64 bits: two instructions without a branch
      return (static_cast<uint64>(key) << 32 | inverted) > (static_cast<uint64>(other.key) << 32 | other.inverted);
    } else {
      return (key > other.key) | ((key == other.key) & (inverted > other.inverted));
    }
  }
  /// Member by member: a chosen struct would be chosen by its address, in local memory.
  static __device__ __forceinline__ ChosenColumn select(bool condition, const ChosenColumn& a, const ChosenColumn& b) {
    ChosenColumn chosen{condition ? a.key : b.key, condition ? a.inverted : b.inverted, {}};
#pragma unroll
    for (int c = 0; c < carried; ++c) chosen.more[c] = condition ? a.more[c] : b.more[c];
    return chosen;
  }
};

/// Returns the length of a list for which a bitonic merge is defined: the power of two from k on.
__device__ __forceinline__ constexpr int list_width(int k) {
  int width = 1;
  while (width < k) width *= 2;
  return width;
}
/// Returns the steps that merge a list of k columns with one of `count`.
__device__ __forceinline__ constexpr int steps_of_merge(int k, int count) {
  int steps = k < count ? k : count;
  for (int distance = list_width(k) / 2; distance > 0; distance /= 2) steps += list_width(k) / 2;
  return steps;
}
/// Returns the steps that sort `count` columns, a power of two.
__device__ __forceinline__ constexpr int steps_of_sort(int count) {
  int steps = 0;
  for (int size = 2; size <= count; size *= 2)
    for (int distance = size / 2; distance > 0; distance /= 2) steps += count / 2;
  return steps;
}

/// The partial result is a sorted list: keys, inverted columns, and each further value. A thread inserts the columns of a
/// vector that come before its last one, or sorts the vector and merges both lists, whichever is cheaper. A merge keeps the
/// larger halves of both and sorts them by a bitonic merge (Batcher, 1968). Lanes choose from their lists together
/// (row/reductions/top_lists.cuh).
///
/// Cost in steps of about 6 instructions: k for an insertion, which about k log(n / k) of a thread's n columns need; k + k /
/// 2 log2(k) for a merge. k rounds of argmax would read the row k times and exchange k times.
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
    partial[k + rank] = with_bits<Number>(made.inverted);
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
    Entry<Number> made{key_of_value(terms[0][j]), ~(static_cast<uint32>(inside.column) + static_cast<uint32>(j)), {}};
#pragma unroll
    for (int c = 0; c < carried; ++c) made.more[c] = terms[1 + c][j];
    return made;
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    if (key_in(partial[0]) == 0) return start(partial, terms, inside);
    uint32 waiting = 0;
    int count = 0;
#pragma unroll
    for (int j = 0; j < vector; ++j)
      if (inside.holds(j) && term(terms, j, inside).before(entry(partial, k - 1))) {
        waiting |= 1u << j;
        ++count;
      }
    // To choose the next element of a vector costs about half a step for each of its elements.
    constexpr int merge_steps = steps_of_sort(vector) + steps_of_merge(k, vector), insert_steps = k + vector / 2;
    if (count * insert_steps > merge_steps) {
      Entry<Number> sorted[vector];
      sort(sorted, terms, inside);
      return merge<vector>(partial, sorted);
    }
    // Each lane takes its own next element, so that lanes insert together and the insertion is one piece of code.
    while (waiting != 0) {
      Entry<Number> next = Entry<Number>::none();
#pragma unroll
      for (int j = vector - 1; j >= 0; --j)
        next = Entry<Number>::select((waiting >> j & 1u) != 0, term(terms, j, inside), next);
      waiting &= waiting - 1;
      insert(partial, next);
    }
  }
  /// Makes a list of one vector: cheaper than to insert each of its columns.
  template <typename Number, int vector>
  static __device__ __forceinline__ void start(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    Entry<Number> sorted[vector];
    sort(sorted, terms, inside);
#pragma unroll
    for (int rank = 0; rank < k && rank < vector; ++rank) put(partial, rank, sorted[rank]);
  }
  /// Sorts the columns of a vector that are in the row; the others come last. Batcher's bitonic sort: runs of `size`, every
  /// second one ascending.
  template <typename Number, int vector>
  static __device__ __forceinline__ void sort(Entry<Number> (&sorted)[vector], const Number (*terms)[vector],
                                              ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j)
      sorted[j] = Entry<Number>::select(inside.holds(j), term(terms, j, inside), Entry<Number>::none());
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
  }
  /// Swaps two columns unless the first one comes first.
  template <typename Number>
  static __device__ __forceinline__ void order(Entry<Number>& first, Entry<Number>& second) {
    const bool swapped = second.before(first);
    const Entry<Number> low = Entry<Number>::select(swapped, first, second);
    first = Entry<Number>::select(swapped, second, first);
    second = low;
  }
  template <typename Number>
  static __device__ __forceinline__ void insert(Number* partial, Entry<Number> added) {
#pragma unroll
    for (int rank = 0; rank < k; ++rank) {
      const Entry<Number> here = entry(partial, rank);
      const bool first = added.before(here);
      put(partial, rank, Entry<Number>::select(first, added, here));
      added = Entry<Number>::select(first, here, added);
    }
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    Entry<Number> others[k];
#pragma unroll
    for (int rank = 0; rank < k; ++rank) others[rank] = entry(other, rank);
    merge<k>(partial, others);
  }
  /// Merges with a sorted list of `count` columns.
  template <int count, typename Number>
  static __device__ __forceinline__ void merge(Number* partial, const Entry<Number>* others) {
    constexpr int width = list_width(k);
    Entry<Number> merged[width];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const int mirrored = width - 1 - i;
      merged[i] = Entry<Number>::none();
      if (i < k) merged[i] = entry(partial, i);
      if (mirrored < count)
        merged[i] = i < k ? Entry<Number>::select(merged[i].before(others[mirrored]), merged[i], others[mirrored])
                          : others[mirrored];
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
    return static_cast<int>(~integer_in(partial[k + rank]));
  }
  template <int which, typename Number>
  static __device__ __forceinline__ Number more(const Number* partial, int rank) {
    return partial[(2 + which) * k + rank];
  }
};

}  // namespace tunesmith
