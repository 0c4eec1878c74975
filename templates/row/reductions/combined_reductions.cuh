// The reductions of one stage as one reduction, so that they share every exchange between threads
// (row/reductions/partial_result.cuh).
#pragma once

#include "row/reductions/partial_result.cuh"

namespace tunesmith {

template <typename Each, typename Number>
__device__ __forceinline__ void settle(Each, Number*) {}
template <int lanes, typename Each, typename Number>
__device__ __forceinline__ void to_sums(Each, Number*) {}
template <typename Each, typename Number>
__device__ __forceinline__ void add_sums(Each, Number* partial, const Number* other) {
  Each::combine(partial, other);
}

/// The reductions of one stage, as one reduction (device/reduce.cuh).
template <typename Type, typename... Each>
struct ReductionsOf {
  using Number = Type;
  static constexpr int operands = (0 + ... + Each::operands);
  static constexpr int floats = (0 + ... + Each::floats);
  using Value = Floats<(floats > 0 ? floats : 1), Number>;

  static __device__ __forceinline__ Value identity() {
    Value all{};
    Number* at = all.value;
    ((Each::clear(at), at += Each::floats), ...);
    return all;
  }
  template <int vector>
  static __device__ __forceinline__ void include(Value& all, const Number (*terms)[vector], ElementsInside inside) {
    Number* at = all.value;
    ((Each::include(at, terms, inside), at += Each::floats, terms += Each::operands), ...);
  }
  static __device__ __forceinline__ void settle_all(Value& all) {
    Number* at = all.value;
    ((settle(Each(), at), at += Each::floats), ...);
  }
  /// Starts a reduction over groups of `lanes` lanes. All 32 lanes together.
  template <int lanes>
  static __device__ __forceinline__ void all_to_sums(Value& all) {
    Number* at = all.value;
    ((to_sums<lanes>(Each(), at), at += Each::floats), ...);
  }
  /// Combines two partial results of all_to_sums().
  struct Sums {
    __device__ __forceinline__ Value operator()(Value all, const Value& other) const {
      Number* at = all.value;
      const Number* from = other.value;
      ((add_sums(Each(), at, from), at += Each::floats, from += Each::floats), ...);
      return all;
    }
  };
  __device__ __forceinline__ Value operator()(Value all, const Value& other) const {
    Number* at = all.value;
    const Number* from = other.value;
    ((Each::combine(at, from), at += Each::floats, from += Each::floats), ...);
    return all;
  }
};
template <typename... Each>
using Reductions = ReductionsOf<float, Each...>;

/// Reduces over groups of lanes, as in device/reduce.cuh. The first lane of a group has columns if any lane of it has.
template <int lanes, typename Number, typename... Each>
__device__ __forceinline__ typename ReductionsOf<Number, Each...>::Value reduce_lanes(
    typename ReductionsOf<Number, Each...>::Value value, ReductionsOf<Number, Each...>) {
  using All = ReductionsOf<Number, Each...>;
  All::template all_to_sums<lanes>(value);
  value = reduce_lanes<lanes>(value, typename All::Sums());
  All::settle_all(value);
  return value;
}

/// Tells the lanes of a warp which columns of their row cannot be chosen any more (row/reductions/top_lists.cuh). Other
/// reductions need all columns. All 32 lanes together, with columns of one row.
template <typename Value, typename Reduction>
__device__ __forceinline__ void raise_bounds(Value&, Reduction) {}

}  // namespace tunesmith
