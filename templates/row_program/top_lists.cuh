// Lists of more than 32 chosen columns (row_program/top_columns.cuh). A thread that held its own list and that of another
// lane would need more registers than there are. So lanes exchange two entries at a time and merge them at once, and the
// steps between lanes are a loop: a merge of 64 entries is thousands of instructions.
#pragma once

#include "row_program/top_columns.cuh"

namespace tunesmith {

/// Combines a partial result with that of the lane at a distance. All lanes of the warp.
template <typename Each>
struct WithOtherLane {
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, int distance) {
    Number other[Each::floats];
#pragma unroll
    for (int i = 0; i < Each::floats; ++i) other[i] = shuffle_xor(partial[i], distance);
    Each::combine(partial, other);
  }
};
/// As TopColumns::combine(): the larger halves of both lists, then a bitonic merge.
template <int k, int carried>
struct WithOtherLane<TopColumns<k, carried>> {
  using List = TopColumns<k, carried>;
  template <typename Number>
  using Entry = typename List::template Entry<Number>;
  static constexpr int width = k > 32 ? 64 : 32;

  template <typename Number>
  static __device__ __forceinline__ Entry<Number> shuffled(const Number* partial, int rank, int distance) {
    Entry<Number> entry = List::entry(partial, rank);
    entry.key = shuffle_xor(entry.key, distance);
    entry.column = shuffle_xor(entry.column, distance);
#pragma unroll
    for (int c = 0; c < carried; ++c) entry.more[c] = shuffle_xor(entry.more[c], distance);
    return entry;
  }
  template <typename Number>
  static __device__ __forceinline__ Entry<Number> first_of(const ChosenColumn<carried, Number>& a,
                                                           const ChosenColumn<carried, Number>& b) {
    return a.before(b) ? a : b;
  }

  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, int distance) {
    Entry<Number> merged[width];
#pragma unroll
    for (int i = 0; i < width / 2; ++i) {
      const int mirrored = width - 1 - i;
      const Entry<Number> low = List::entry(partial, i), other_low = shuffled(partial, i, distance);
      merged[i] = low;
      merged[mirrored] = other_low;
      if (mirrored < k) {
        const Entry<Number> high = List::entry(partial, mirrored), other_high = shuffled(partial, mirrored, distance);
        merged[i] = first_of(low, other_high);
        merged[mirrored] = first_of(high, other_low);
      }
    }
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2)
#pragma unroll
      for (int i = 0; i < width; ++i)
        if ((i & step) == 0) List::order(merged[i], merged[i + step]);
#pragma unroll
    for (int rank = 0; rank < k; ++rank) List::put(partial, rank, merged[rank]);
  }
};

/// The reductions of a stage with such a list. Its own reduce_lanes() is preferred to that of all reductions.
template <typename Number, typename... Each>
struct ListReductionsOf : ReductionsOf<Number, Each...> {
  template <int lanes, typename Value>
  friend __device__ __forceinline__ Value reduce_lanes(Value value, ListReductionsOf) {
#pragma unroll 1
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      Number* at = value.value;
      ((WithOtherLane<Each>::combine(at, distance), at += Each::floats), ...);
    }
    return value;
  }
};
template <typename... Each>
using ListReductions = ListReductionsOf<float, Each...>;

}  // namespace tunesmith
