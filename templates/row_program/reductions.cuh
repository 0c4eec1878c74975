// Reductions over the columns of a row, or of a group of columns. Those of one stage are one struct of floats, so that they
// share every exchange between threads. Sums are compensated; the configuration fixes their order.
//
// A reduction has
//   operands, floats     values per column, and floats of a partial result;
//   clear()              the partial result of no columns;
//   include()            includes a vector; columns outside of the row are skipped;
//   combine()            combines two partial results.
#pragma once

#include "row_program/functions.cuh"

namespace tunesmith {

/// A partial result, or several. Aligned for wide accesses to shared memory.
template <int count>
struct alignas(count % 4 == 0   ? 16
               : count % 2 == 0 ? 8
                                : 4) Floats {
  float value[count];
};
template <int count>
__device__ __forceinline__ Floats<count> shuffle_xor(Floats<count> floats, int lane_mask) {
#pragma unroll
  for (int i = 0; i < count; ++i) floats.value[i] = shuffle_xor(floats.value[i], lane_mask);
  return floats;
}

/// The elements of a vector that are in the row: [from, to). `column`: the column of element 0.
struct ElementsInside {
  int from, to;
  int64 column;
  __device__ __forceinline__ bool holds(int element) const { return element >= from && element < to; }
};

struct SumOfColumns {
  static constexpr int operands = 1, floats = 2;
  static __device__ __forceinline__ void clear(float* partial) { partial[0] = partial[1] = 0.0f; }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
    float sum = 0.0f;
#pragma unroll
    for (int j = 0; j < vector; ++j) sum = sum + (inside.holds(j) ? terms[0][j] : 0.0f);
    CompensatedSum total{partial[0], partial[1]};
    total.include(sum);
    partial[0] = total.sum;
    partial[1] = total.lost;
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    const FloatPair sum = SumOfTwoFloats()({partial[0], partial[1]}, {other[0], other[1]});
    partial[0] = sum.first;
    partial[1] = sum.second;
  }
  static __device__ __forceinline__ float result(const float* partial) {
    // If the sum is infinite, the second float is NaN (inf - inf).
    return is_finite(partial[0]) ? add(partial[0], partial[1]) : partial[0];
  }
};

struct LargestColumn {
  static constexpr int operands = 1, floats = 1;
  static __device__ __forceinline__ void clear(float* partial) { *partial = Maximum::identity(); }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j)
      *partial = maximum_or_nan(*partial, inside.holds(j) ? terms[0][j] : Maximum::identity());
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    *partial = maximum_or_nan(*partial, *other);
  }
  static __device__ __forceinline__ float result(const float* partial) { return *partial; }
};

/// The partial result is the largest negated value.
struct SmallestColumn : LargestColumn {
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j)
      *partial = maximum_or_nan(*partial, inside.holds(j) ? -terms[0][j] : Maximum::identity());
  }
  static __device__ __forceinline__ float result(const float* partial) { return -*partial; }
};

/// Booleans as 0 and 1.
struct AnyColumn {
  static constexpr int operands = 1, floats = 1;
  static __device__ __forceinline__ void clear(float* partial) { *partial = 0.0f; }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j) *partial = inside.holds(j) && terms[0][j] != 0.0f ? 1.0f : *partial;
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    *partial = *other != 0.0f ? 1.0f : *partial;
  }
  static __device__ __forceinline__ bool result(const float* partial) { return *partial != 0.0f; }
};

struct AllColumns : AnyColumn {
  static __device__ __forceinline__ void clear(float* partial) { *partial = 1.0f; }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j) *partial = inside.holds(j) && terms[0][j] == 0.0f ? 0.0f : *partial;
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    *partial = *other != 0.0f ? *partial : 0.0f;
  }
};

/// Counts in integers, whose bits are the float.
struct CountOfColumns {
  static constexpr int operands = 1, floats = 1;
  static __device__ __forceinline__ void clear(float* partial) { *partial = 0.0f; }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
    uint32 count = bits_of(*partial);
#pragma unroll
    for (int j = 0; j < vector; ++j) count += inside.holds(j) && terms[0][j] != 0.0f ? 1u : 0u;
    *partial = float_of(count);
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    *partial = float_of(bits_of(*partial) + bits_of(*other));
  }
  static __device__ __forceinline__ int result(const float* partial) { return static_cast<int>(bits_of(*partial)); }
};

/// The value and its column, whose bits are the second float. NaN is larger than any number; ties give the lowest column.
struct PlaceOfLargest {
  static constexpr int operands = 1, floats = 2;
  static __device__ __forceinline__ void clear(float* partial) {
    partial[0] = Maximum::identity();
    partial[1] = float_of(0x7fffffffu);
  }
  static __device__ __forceinline__ void take_better(float* partial, float value, uint32 column) {
    const bool is_nan = value != value, had_nan = partial[0] != partial[0];
    const bool equal = value == partial[0] || (is_nan && had_nan);
    const bool larger = value > partial[0] || (is_nan && !had_nan);
    if (larger || (equal && column < bits_of(partial[1]))) {
      partial[0] = value;
      partial[1] = float_of(column);
    }
  }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j)
      if (inside.holds(j)) take_better(partial, terms[0][j], static_cast<uint32>(inside.column) + static_cast<uint32>(j));
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    take_better(partial, other[0], bits_of(other[1]));
  }
  static __device__ __forceinline__ int result(const float* partial) { return static_cast<int>(bits_of(partial[1])); }
};

/// The partial result is that of the negated values.
struct PlaceOfSmallest : PlaceOfLargest {
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j)
      if (inside.holds(j)) take_better(partial, -terms[0][j], static_cast<uint32>(inside.column) + static_cast<uint32>(j));
  }
};

/// log(sum(exp(x))) as the maximum m and the sum of exp(x - m) in two floats (online softmax: Milakov and Gimelshein,
/// arXiv:1805.02867). The sum means nothing while m is not finite. `precise`: for float32 results.
template <bool precise>
struct LogSumExp {
  static constexpr int operands = 1, floats = 3;
  static __device__ __forceinline__ void clear(float* partial) {
    partial[0] = Maximum::identity();
    partial[1] = partial[2] = 0.0f;
  }
  /// Returns exp(x - maximum), or 0 where both are -inf.
  static __device__ __forceinline__ float weight(float x, float maximum) {
    if (maximum == Maximum::identity()) return 0.0f;
    return precise ? exponential_of_difference(x, maximum) : exponential_of_rounded(subtract(x, maximum));
  }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
    float largest = Maximum::identity(), sum = 0.0f;
#pragma unroll
    for (int j = 0; j < vector; ++j) largest = maximum_or_nan(largest, inside.holds(j) ? terms[0][j] : Maximum::identity());
    const float maximum = maximum_or_nan(partial[0], largest);
#pragma unroll
    for (int j = 0; j < vector; ++j) sum = sum + (inside.holds(j) ? weight(terms[0][j], maximum) : 0.0f);
    CompensatedSum total{partial[1], partial[2]};
    if (maximum != partial[0]) total.rescale(weight(partial[0], maximum));
    total.include(sum);
    partial[0] = maximum;
    partial[1] = total.sum;
    partial[2] = total.lost;
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    const float maximum = maximum_or_nan(partial[0], other[0]);
    const float mine = weight(partial[0], maximum), others = weight(other[0], maximum);
    const FloatPair sum = SumOfTwoFloats()({multiply(partial[1], mine), multiply(partial[2], mine)},
                                           {multiply(other[1], others), multiply(other[2], others)});
    partial[0] = maximum;
    partial[1] = sum.first;
    partial[2] = sum.second;
  }
  static __device__ __forceinline__ float maximum_of(const float* partial) { return partial[0]; }
  static __device__ __forceinline__ float sum_of(const float* partial) {
    return is_finite(partial[0]) ? add(partial[1], partial[2]) : float_of(nan_bits);
  }
  static __device__ __forceinline__ float result(const float* partial) {
    return is_finite(partial[0]) ? add(partial[0], logarithm(add(partial[1], partial[2]))) : partial[0];
  }
};

/// Count, mean in two floats, and sum of squared deviations (Chan, Golub and LeVeque, 1979; their corrected two-pass form
/// within a vector). The variance keeps its digits under offsets that are large next to it.
struct MomentsOfColumns {
  static constexpr int operands = 1, floats = 4;
  static __device__ __forceinline__ void clear(float* partial) { partial[0] = partial[1] = partial[2] = partial[3] = 0.0f; }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
    if (inside.to <= inside.from) return;
    const auto count = static_cast<float>(inside.to - inside.from);
    const float inverse = inside.to - inside.from == vector ? 1.0f / vector : 1.0f / count;
    float mean = 0.0f, deviations = 0.0f, squares = 0.0f;  // the mean may be finite where the sum overflows
#pragma unroll
    for (int j = 0; j < vector; ++j) mean = fused_multiply_add(inside.holds(j) ? terms[0][j] : 0.0f, inverse, mean);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      const float deviation = inside.holds(j) ? subtract(terms[0][j], mean) : 0.0f;
      deviations = add(deviations, deviation);
      squares = fused_multiply_add(deviation, deviation, squares);
    }
    const bool finite = is_finite(deviations);
    const float low = finite ? multiply(deviations, inverse) : 0.0f;
    const float all[floats] = {count, mean, low, finite ? fused_multiply_add(-deviations, low, squares) : squares};
    combine(partial, all);
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) {
    if (partial[0] == 0.0f) {
#pragma unroll
      for (int k = 0; k < floats; ++k) partial[k] = other[k];
      return;
    }
    if (other[0] == 0.0f) return;
    const float count = add(partial[0], other[0]), share = multiply(other[0], 1.0f / count);
    const float delta = add(subtract(other[1], partial[1]), subtract(other[2], partial[2])), step = multiply(delta, share);
    const bool finite = is_finite(delta);
    const float total =
        finite ? add(partial[1], step) : fused_multiply_add(other[1], share, multiply(partial[1], subtract(1.0f, share)));
    partial[2] = finite ? add(partial[2], lost_by_adding(partial[1], step, total)) : 0.0f;
    partial[1] = total;
    partial[3] = add(partial[3], add(other[3], multiply(multiply(delta, step), partial[0])));
    partial[0] = count;
  }
  static __device__ __forceinline__ float mean(const float* partial) { return add(partial[1], partial[2]); }
  static __device__ __forceinline__ float variance(const float* partial) {
    return tunesmith::divide(partial[3], partial[0]);
  }
};

/// A user's associative and commutative function. `Monoid` has
///   components; identity(float*); combine(float* partial, const float* other).
template <typename Monoid>
struct OwnReduction {
  static constexpr int operands = Monoid::components, floats = Monoid::components;
  static __device__ __forceinline__ void clear(float* partial) { Monoid::identity(partial); }
  template <int vector>
  static __device__ __forceinline__ void include(float* partial, const float (*terms)[vector], ElementsInside inside) {
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      if (!inside.holds(j)) continue;
      float term[floats];
#pragma unroll
      for (int k = 0; k < floats; ++k) term[k] = terms[k][j];
      Monoid::combine(partial, term);
    }
  }
  static __device__ __forceinline__ void combine(float* partial, const float* other) { Monoid::combine(partial, other); }
};

/// The reductions of one stage, as one reduction (device/reduce.cuh).
template <typename... Each>
struct Reductions {
  static constexpr int operands = (0 + ... + Each::operands);
  static constexpr int floats = (0 + ... + Each::floats);
  using Value = Floats<(floats > 0 ? floats : 1)>;

  static __device__ __forceinline__ Value identity() {
    Value all{};
    float* at = all.value;
    ((Each::clear(at), at += Each::floats), ...);
    return all;
  }
  template <int vector>
  static __device__ __forceinline__ void include(Value& all, const float (*terms)[vector], ElementsInside inside) {
    float* at = all.value;
    ((Each::include(at, terms, inside), at += Each::floats, terms += Each::operands), ...);
  }
  __device__ __forceinline__ Value operator()(Value all, const Value& other) const {
    float* at = all.value;
    const float* from = other.value;
    ((Each::combine(at, from), at += Each::floats, from += Each::floats), ...);
    return all;
  }
};

}  // namespace tunesmith
