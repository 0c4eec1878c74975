// Reductions over the columns of a row, or of a group of columns. Those of one stage are one struct of floats (of doubles in
// programs that compute in f64), so that they share every exchange between threads. Sums are compensated unless few
// columns and 16 bits make that needless; the configuration fixes their order.
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

#include "row_program/functions.cuh"

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

/// Returns the sum of the elements of a vector that are in the row.
template <typename Number, int vector>
__device__ __forceinline__ Number sum_of_vector(const Number (&terms)[vector], ElementsInside inside) {
  Number sum = inside.holds(0) ? terms[0] : 0.0f;
#pragma unroll
  for (int j = 1; j < vector; ++j) sum = sum + (inside.holds(j) ? terms[j] : 0.0f);
  return sum;
}

struct SumOfColumns {
  static constexpr int operands = 1, floats = 2;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    partial[0] = partial[1] = 0.0f;
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    CompensatedSumOf<Number> total{partial[0], partial[1]};
    total.include(sum_of_vector(terms[0], inside));
    partial[0] = total.sum;
    partial[1] = total.lost;
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    const PairOf<Number> sum = SumOfTwo<Number>()({partial[0], partial[1]}, {other[0], other[1]});
    partial[0] = sum.first;
    partial[1] = sum.second;
  }
  template <typename Number>
  static __device__ __forceinline__ Number result(const Number* partial) {
    // If the sum is infinite, the second number is NaN (inf - inf).
    return is_finite(partial[0]) ? add(partial[0], partial[1]) : partial[0];
  }
};

/// Without compensation: for the few columns that a thread has of a row on the chip, and results of 16 bits.
struct PlainSumOfColumns {
  static constexpr int operands = 1, floats = 1;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    *partial = 0.0f;
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    *partial = add(*partial, sum_of_vector(terms[0], inside));
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    *partial = add(*partial, *other);
  }
  template <typename Number>
  static __device__ __forceinline__ Number result(const Number* partial) {
    return *partial;
  }
};

struct LargestColumn {
  static constexpr int operands = 1, floats = 1;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    *partial = Maximum::identity();
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j)
      *partial = maximum_or_nan(*partial, inside.holds(j) ? terms[0][j] : Maximum::identity());
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    *partial = maximum_or_nan(*partial, *other);
  }
  template <typename Number>
  static __device__ __forceinline__ Number result(const Number* partial) {
    return *partial;
  }
};

/// The partial result is the largest negated value.
struct SmallestColumn : LargestColumn {
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j)
      *partial = maximum_or_nan(*partial, inside.holds(j) ? -terms[0][j] : Maximum::identity());
  }
  template <typename Number>
  static __device__ __forceinline__ Number result(const Number* partial) {
    return -*partial;
  }
};

/// Booleans as 0 and 1.
struct AnyColumn {
  static constexpr int operands = 1, floats = 1;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    *partial = 0.0f;
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j) *partial = inside.holds(j) && terms[0][j] != 0.0f ? 1.0f : *partial;
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    *partial = *other != 0.0f ? 1.0f : *partial;
  }
  template <typename Number>
  static __device__ __forceinline__ bool result(const Number* partial) {
    return *partial != 0.0f;
  }
};

struct AllColumns : AnyColumn {
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    *partial = 1.0f;
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j) *partial = inside.holds(j) && terms[0][j] == 0.0f ? 0.0f : *partial;
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    *partial = *other != 0.0f ? *partial : 0.0f;
  }
};

/// Counts in integers, whose bits are the number.
struct CountOfColumns {
  static constexpr int operands = 1, floats = 1;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    *partial = 0.0f;
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    uint32 count = integer_in(*partial);
#pragma unroll
    for (int j = 0; j < vector; ++j) count += inside.holds(j) && terms[0][j] != 0.0f ? 1u : 0u;
    *partial = with_bits<Number>(count);
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    *partial = with_bits<Number>(integer_in(*partial) + integer_in(*other));
  }
  template <typename Number>
  static __device__ __forceinline__ int result(const Number* partial) {
    return static_cast<int>(integer_in(*partial));
  }
};

/// The value and its column, whose bits are the second number. NaN is larger than any number; ties give the lowest column.
struct PlaceOfLargest {
  static constexpr int operands = 1, floats = 2;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    partial[0] = Maximum::identity();
    partial[1] = with_bits<Number>(0x7fffffffu);
  }
  template <typename Number>
  static __device__ __forceinline__ void take_better(Number* partial, Number value, uint32 column) {
    const bool is_nan = value != value, had_nan = partial[0] != partial[0];
    const bool equal = value == partial[0] || (is_nan && had_nan);
    const bool larger = value > partial[0] || (is_nan && !had_nan);
    if (larger || (equal && column < integer_in(partial[1]))) {
      partial[0] = value;
      partial[1] = with_bits<Number>(column);
    }
  }
  /// Finds the largest element first. Its column matters only if it is not less than the largest so far. Doubles have no
  /// instruction for a maximum, so each is compared at once, in fewer registers.
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    const auto first = static_cast<uint32>(inside.column);
    if constexpr (sizeof(Number) == 8) {
#pragma unroll
      for (int j = 0; j < vector; ++j)
        if (inside.holds(j)) take_better(partial, terms[0][j], first + static_cast<uint32>(j));
      return;
    }
    Number largest = Maximum::identity();
#pragma unroll
    for (int j = 0; j < vector; ++j) largest = maximum_or_nan(largest, inside.holds(j) ? terms[0][j] : Maximum::identity());
    if (largest < partial[0]) return;
    int place = vector;
#pragma unroll
    for (int j = vector - 1; j >= 0; --j) {
      const Number value = terms[0][j];
      // A NaN is the largest if there is one.
      if (((value == largest) | (value != value)) & inside.holds(j)) place = j;
    }
    if (place < vector) take_better(partial, largest, first + static_cast<uint32>(place));
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    take_better(partial, other[0], integer_in(other[1]));
  }
  template <typename Number>
  static __device__ __forceinline__ int result(const Number* partial) {
    return static_cast<int>(integer_in(partial[1]));
  }
};

/// The partial result is that of the negated values.
struct PlaceOfSmallest : PlaceOfLargest {
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    Number negated[1][vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) negated[0][j] = -terms[0][j];
    PlaceOfLargest::include(partial, negated, inside);
  }
};

/// log(sum(exp(x))) as the maximum m and the sum of exp(x - m) in two floats (online softmax: Milakov and Gimelshein,
/// arXiv:1805.02867). The sum means nothing while m is not finite. `precise`: for float32 results.
template <bool precise>
struct LogSumExp {
  static constexpr int operands = 1, floats = 3;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    partial[0] = Maximum::identity();
    partial[1] = partial[2] = 0.0f;
  }
  /// Returns exp(x - maximum), or 0 where both are -inf.
  template <typename Number>
  static __device__ __forceinline__ Number weight(Number x, Number maximum) {
    if (maximum == Maximum::identity()) return 0.0f;
    return precise ? exponential_of_difference(x, maximum) : exponential_of_rounded(subtract(x, maximum));
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    Number largest = Maximum::identity(), sum = 0.0f;
#pragma unroll
    for (int j = 0; j < vector; ++j) largest = maximum_or_nan(largest, inside.holds(j) ? terms[0][j] : Maximum::identity());
    const Number maximum = maximum_or_nan(partial[0], largest);
#pragma unroll
    for (int j = 0; j < vector; ++j) sum = sum + (inside.holds(j) ? weight(terms[0][j], maximum) : 0.0f);
    CompensatedSumOf<Number> total{partial[1], partial[2]};
    if (maximum != partial[0]) total.rescale(weight(partial[0], maximum));
    total.include(sum);
    partial[0] = maximum;
    partial[1] = total.sum;
    partial[2] = total.lost;
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    const Number maximum = maximum_or_nan(partial[0], other[0]);
    const Number mine = weight(partial[0], maximum), others = weight(other[0], maximum);
    const PairOf<Number> sum = SumOfTwo<Number>()({multiply(partial[1], mine), multiply(partial[2], mine)},
                                                  {multiply(other[1], others), multiply(other[2], others)});
    partial[0] = maximum;
    partial[1] = sum.first;
    partial[2] = sum.second;
  }
  template <typename Number>
  static __device__ __forceinline__ Number maximum_of(const Number* partial) {
    return partial[0];
  }
  template <typename Number>
  static __device__ __forceinline__ Number sum_of(const Number* partial) {
    return is_finite(partial[0]) ? add(partial[1], partial[2]) : Number(float_of(nan_bits));
  }
  template <typename Number>
  static __device__ __forceinline__ Number result(const Number* partial) {
    return is_finite(partial[0]) ? add(partial[0], logarithm(add(partial[1], partial[2]))) : partial[0];
  }
};

/// A user's associative and commutative function. `Monoid` has
///   components; identity(Number*); combine(Number* partial, const Number* other).
template <typename Monoid>
struct OwnReduction {
  static constexpr int operands = Monoid::components, floats = Monoid::components;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    Monoid::identity(partial);
  }
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      if (!inside.holds(j)) continue;
      Number term[floats];
#pragma unroll
      for (int k = 0; k < floats; ++k) term[k] = terms[k][j];
      Monoid::combine(partial, term);
    }
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    Monoid::combine(partial, other);
  }
};

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

/// Tells the lanes of a warp which columns of their row cannot be chosen any more (row_program/top_lists.cuh). Other
/// reductions need all columns. All 32 lanes together, with columns of one row.
template <typename Value, typename Reduction>
__device__ __forceinline__ void raise_bounds(Value&, Reduction) {}

}  // namespace tunesmith
