// Sums, maxima, minima, counts and the user's functions of columns, as reductions (row/reductions/partial_result.cuh). Sums
// are compensated unless few columns and 16 bits make that needless; the configuration fixes their order.
#pragma once

#include "row/reductions/partial_result.cuh"

namespace tunesmith {

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

struct MaximumOfColumns {
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
struct MinimumOfColumns : MaximumOfColumns {
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

/// A user's associative and commutative function. `Monoid` has
///   components; identity(Number*); combine(Number* partial, const Number* other).
template <typename Monoid>
struct CustomReduction {
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

}  // namespace tunesmith
