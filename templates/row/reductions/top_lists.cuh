// Chosen columns (row/reductions/top_columns.cuh) of neighbouring lanes. Each lane has a sorted list.
//
// Up to 32 columns, lanes choose together: in each round, the largest of all heads is the next column, and the lane that had
// it removes it from its list. A round of a warp is two reductions of integers, which sm_80 and later have as instructions.
// For 8 columns this is a sixth of the instructions of merging lists in five steps.
//
// While a warp reads a long row, its lanes tell each other a bound below which no column can be chosen. Otherwise each lane
// inserts all that are among the largest of its own columns, while its warp waits.
//
// For longer lists, moving a list by one entry in each round costs as much as merging. A thread that held its own and
// another lane's list would need more registers than there are. So lanes exchange two entries at a time and merge them at
// once, and the steps between lanes are a loop: a merge of 64 entries is thousands of instructions.
#pragma once

#include "row/reductions/combined_reductions.cuh"
#include "row/reductions/top_columns.cuh"

namespace tunesmith {

/// Reduces integers over groups of `lanes` neighbouring lanes. All 32 lanes together.
template <int lanes, typename Integer>
__device__ __forceinline__ Integer largest_in_lanes(Integer value) {
#if !defined(TUNESMITH_HOST_EXECUTOR) && TUNESMITH_SM >= 800
  constexpr bool has_instruction = lanes == 32 && sizeof(Integer) == 4;
#else
  constexpr bool has_instruction = false;
#endif
  if constexpr (has_instruction) {
    return __reduce_max_sync(0xffffffffu, value);
  } else {
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      const Integer other = shuffle_xor(value, distance);
      value = other > value ? other : value;
    }
    return value;
  }
}

/// Combines a partial result with the other lanes' results.
template <typename Each>
struct OverLanes {
  template <typename Number>
  static __device__ __forceinline__ void raise_bound(Number*) {}
  template <int lanes, typename Number>
  static __device__ __forceinline__ void reduce(Number* partial) {
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      Number other[Each::floats];
#pragma unroll
      for (int i = 0; i < Each::floats; ++i) other[i] = shuffle_xor(partial[i], distance);
      Each::combine(partial, other);
    }
  }
};

template <int k, int carried>
struct OverLanes<TopColumns<k, carried>> {
  using List = TopColumns<k, carried>;
  template <typename Number>
  using Entry = typename List::template Entry<Number>;
  static constexpr bool in_rounds = k <= 32;

  template <int lanes, typename Number>
  static __device__ __forceinline__ void reduce(Number* partial) {
    if constexpr (in_rounds) {
      choose<lanes>(partial);
    } else {
#pragma unroll 1
      for (int distance = lanes / 2; distance > 0; distance /= 2) merge(partial, distance);
    }
  }

  /// Replaces all columns below a bound that at least k others reach: in each of `groups` groups of lanes, one has as many
  /// as it takes. The replacements come after all columns that reach the bound, so they are never chosen.
  template <typename Number>
  static __device__ __forceinline__ void raise_bound(Number* partial) {
    constexpr int groups = list_width(k) < 32 ? list_width(k) : 32, of_lane = (k + groups - 1) / groups;
    Entry<Number> bound{};
    bound.key = key_in(partial[of_lane - 1]);
#pragma unroll
    for (int distance = 16 / groups; distance > 0; distance /= 2) {
      const auto other = shuffle_xor(bound.key, distance);
      bound.key = other > bound.key ? other : bound.key;
    }
    bound.key = ~largest_in_lanes<32>(~bound.key);  // the smallest
#pragma unroll
    for (int rank = 0; rank < k; ++rank) {
      const Entry<Number> here = List::entry(partial, rank);
      List::put(partial, rank, Entry<Number>::select(here.key < bound.key, bound, here));
    }
  }

  template <int lanes, typename Number>
  static __device__ __forceinline__ void choose(Number* partial) {
    Number chosen[List::floats];
#pragma unroll
    for (int rank = 0; rank < k; ++rank) {
      const Entry<Number> head = List::entry(partial, 0);
      Entry<Number> next{};
      next.key = largest_in_lanes<lanes>(head.key);
      next.inverted = largest_in_lanes<lanes>(head.key == next.key ? head.inverted : 0u);
      const bool removed = head.key == next.key && head.inverted == next.inverted;  // no two lanes have the same column
#pragma unroll
      for (int c = 0; c < carried; ++c) next.more[c] = from_lane<lanes>(removed, head.more[c]);
      List::put(chosen, rank, next);
#pragma unroll
      for (int i = 0; i + 1 < k - rank; ++i)
        List::put(partial, i, Entry<Number>::select(removed, List::entry(partial, i + 1), List::entry(partial, i)));
    }
#pragma unroll
    for (int i = 0; i < List::floats; ++i) partial[i] = chosen[i];
  }
  /// Returns the value of the lane where `here` holds, of `lanes` lanes.
  template <int lanes, typename Number>
  static __device__ __forceinline__ Number from_lane(bool here, Number value) {
    return with_key(largest_in_lanes<lanes>(here ? key_in(value) : 0));
  }

  /// As TopColumns::merge(), with the list of the lane at a distance.
  template <typename Number>
  static __device__ __forceinline__ void merge(Number* partial, int distance) {
    constexpr int width = list_width(k);
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
  template <typename Number>
  static __device__ __forceinline__ Entry<Number> shuffled(const Number* partial, int rank, int distance) {
    Entry<Number> entry = List::entry(partial, rank);
    entry.key = shuffle_xor(entry.key, distance);
    entry.inverted = shuffle_xor(entry.inverted, distance);
#pragma unroll
    for (int c = 0; c < carried; ++c) entry.more[c] = shuffle_xor(entry.more[c], distance);
    return entry;
  }
  template <typename Number>
  static __device__ __forceinline__ Entry<Number> first_of(const ChosenColumn<carried, Number>& a,
                                                           const ChosenColumn<carried, Number>& b) {
    return Entry<Number>::select(a.before(b), a, b);
  }
};

/// The reductions of a stage with such a list. Its own reduce_lanes() is preferred to the general one.
template <typename Number, typename... Each>
struct ListReductionsOf : ReductionsOf<Number, Each...> {
  template <int lanes, typename Value>
  friend __device__ __forceinline__ Value reduce_lanes(Value value, ListReductionsOf) {
    Number* at = value.value;
    ((OverLanes<Each>::template reduce<lanes>(at), at += Each::floats), ...);
    return value;
  }
  template <typename Value>
  friend __device__ __forceinline__ void raise_bounds(Value& value, ListReductionsOf) {
    Number* at = value.value;
    ((OverLanes<Each>::raise_bound(at), at += Each::floats), ...);
  }
};
template <typename... Each>
using ListReductions = ListReductionsOf<float, Each...>;

}  // namespace tunesmith
