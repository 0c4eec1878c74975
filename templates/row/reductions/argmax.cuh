// The column of the largest or smallest value, as a reduction (row/reductions/partial_result.cuh).
#pragma once

#include "row/reductions/partial_result.cuh"

namespace tunesmith {

/// The value and its column, whose bits are the second number. NaN is larger than any number; ties give the lowest column.
struct ArgmaxOfColumns {
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

/// The argmax of the negated values; so is the partial result.
struct ArgminOfColumns : ArgmaxOfColumns {
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    Number negated[1][vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) negated[0][j] = -terms[0][j];
    ArgmaxOfColumns::include(partial, negated, inside);
  }
};

}  // namespace tunesmith
