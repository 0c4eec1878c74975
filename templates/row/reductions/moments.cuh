// Mean and variance of columns, as reductions (row/reductions/partial_result.cuh). A partial result is a count, the mean in
// two floats, and the sum of squared deviations, so that the variance keeps its digits under offsets that are large next to
// it. Two are combined as in Chan, Golub and LeVeque, 1979.
#pragma once

#include "row/reductions/partial_result.cuh"

namespace tunesmith {

/// Returns 1 / count; in float32, with an error of one unit. 0 columns count as 1.
template <typename Number>
__device__ __forceinline__ Number inverse_of_count(Number count) {
  return tunesmith::divide(Number(1), count > 1.0f ? count : Number(1));
}
template <>
__device__ __forceinline__ float inverse_of_count<float>(float count) {
  return reciprocal_approx(count > 1.0f ? count : 1.0f);
}

struct Moments {
  static constexpr int operands = 1, floats = 4;
  template <typename Number>
  static __device__ __forceinline__ void clear(Number* partial) {
    partial[0] = partial[1] = partial[2] = partial[3] = 0.0f;
  }
  template <typename Number>
  static __device__ __forceinline__ void combine(Number* partial, const Number* other) {
    if constexpr (sizeof(Number) == 8) {  // a division of doubles takes longer than a branch, and more registers
      if (other[0] == 0.0f) return;
      if (partial[0] == 0.0f) {
#pragma unroll
        for (int k = 0; k < floats; ++k) partial[k] = other[k];
        return;
      }
    }
    const Number count = add(partial[0], other[0]), share = multiply(other[0], inverse_of_count(count));
    const Number delta = add(subtract(other[1], partial[1]), subtract(other[2], partial[2])), step = multiply(delta, share);
    const bool finite = is_finite(delta);
    const Number total = finite ? add(partial[1], step)
                                : fused_multiply_add(other[1], share, multiply(partial[1], subtract(Number(1), share)));
    partial[2] = finite ? add(partial[2], lost_by_adding(partial[1], step, total)) : 0.0f;
    partial[1] = total;
    // By the count before the second difference: a square of 1e38 is infinite, and its product with a count of 0 is NaN.
    partial[3] = add(partial[3], add(other[3], multiply(delta, multiply(step, partial[0]))));
    partial[0] = count;
  }
  template <typename Number>
  static __device__ __forceinline__ Number mean(const Number* partial) {
    return add(partial[1], partial[2]);
  }
  template <typename Number>
  static __device__ __forceinline__ Number variance(const Number* partial) {
    return tunesmith::divide(partial[3], partial[0]);
  }
};

/// Returns the mean of the elements of a vector that are in the row. It may be finite where their sum overflows.
template <typename Number, int vector>
__device__ __forceinline__ Number mean_of_vector(const Number (&terms)[vector], ElementsInside inside,
                                                 Number inverse_count) {
  Number mean = 0.0f;
#pragma unroll
  for (int j = 0; j < vector; ++j) mean = fused_multiply_add(inside.holds(j) ? terms[j] : 0.0f, inverse_count, mean);
  return mean;
}

/// Combines each vector with those before it (the corrected two-pass algorithm within a vector). For any number of columns.
struct MomentsOfColumns : Moments {
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    if (inside.to <= inside.from) return;
    const auto count = static_cast<Number>(inside.to - inside.from);
    const Number inverse = inside.to - inside.from == vector ? Number(1) / vector : inverse_of_count(count);
    const Number mean = mean_of_vector(terms[0], inside, inverse);
    Number deviations = 0.0f, squares = 0.0f;
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      const Number deviation = inside.holds(j) ? subtract(terms[0][j], mean) : 0.0f;
      deviations = add(deviations, deviation);
      squares = fused_multiply_add(deviation, deviation, squares);
    }
    const bool finite = is_finite(deviations);
    const Number low = finite ? multiply(deviations, inverse) : 0.0f;
    const Number all[floats] = {count, mean, low, finite ? fused_multiply_add(-deviations, low, squares) : squares};
    combine(partial, all);
  }
};

/// Adds differences from a pivot, and their squares: three instructions a column and one exchange for a row, instead of a
/// mean, an exchange, and squared deviations. The pivot is the mean of the thread's first vector, or its first element if an
/// end of the row is in that vector. With n vectors the sum of squares is at most n + 1 times the sum of squared deviations
/// (with an end of the row, one more than its columns), even if the pivot comes from the only outlier. For the few columns
/// that a thread has of a row on the chip.
///
/// Before settle(), a partial result is a count, the pivot, and the two sums.
struct MomentsAroundAPivot : Moments {
  template <typename Number, int vector>
  static __device__ __forceinline__ void include(Number* partial, const Number (*terms)[vector], ElementsInside inside) {
    if (inside.to <= inside.from) return;
    const auto count = static_cast<Number>(inside.to - inside.from);
    if (partial[0] == 0.0f) {
      // Of equal elements the pivot is their value: the square of a rounding error of 1e38 is infinite.
      Number first = terms[0][0];
#pragma unroll
      for (int j = 1; j < vector; ++j) first = j == inside.from ? terms[0][j] : first;
      partial[1] = inside.to - inside.from == vector ? mean_of_vector(terms[0], inside, Number(1) / vector) : first;
    }
    Number sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      const Number difference = inside.holds(j) ? subtract(terms[0][j], partial[1]) : 0.0f;
      sum = add(sum, difference);
      squares = fused_multiply_add(difference, difference, squares);
    }
    partial[0] = add(partial[0], count);
    partial[2] = add(partial[2], sum);
    partial[3] = add(partial[3], squares);
  }
};
/// Lanes take the mean of the first one as their pivot, so that they only add. The combination of two partial results is a
/// chain of a reciprocal and four floats.
template <int lanes, typename Number>
__device__ __forceinline__ void to_sums(MomentsAroundAPivot, Number* partial) {
  const Number mean = shuffle(partial[1], lane_index() / lanes * lanes), pivot = is_finite(mean) ? mean : Number(0);
  const Number difference = add(subtract(partial[1], pivot), partial[2]), sum = multiply(partial[0], difference);
  partial[1] = pivot;
  partial[2] = sum;
  partial[3] = fused_multiply_add(sum, difference, partial[3]);
}
template <typename Number>
__device__ __forceinline__ void add_sums(MomentsAroundAPivot, Number* partial, const Number* other) {
  partial[0] = add(partial[0], other[0]);
  partial[2] = add(partial[2], other[2]);
  partial[3] = add(partial[3], other[3]);
}
/// Of a thread's columns or of the sums of lanes. With an infinite or NaN pivot, the differences are NaN, and the mean is
/// the pivot.
template <typename Number>
__device__ __forceinline__ void settle(MomentsAroundAPivot, Number* partial) {
  const Number pivot = partial[1], sum = partial[2];
  const Number difference = is_finite(pivot) ? multiply(sum, inverse_of_count(partial[0])) : 0.0f;
  const Number mean = add(pivot, difference), squares = fused_multiply_add(-sum, difference, partial[3]);
  partial[1] = mean;
  partial[2] = is_finite(mean) ? lost_by_adding(pivot, difference, mean) : 0.0f;
  partial[3] = squares < 0.0f ? Number(0) : squares;
}

}  // namespace tunesmith
