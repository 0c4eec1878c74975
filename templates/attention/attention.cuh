// Shared by all attention kernels: stores of outputs, and visibility of keys.
#pragma once

#include "attention/sequence.cuh"
#include "device/reduce.cuh"
#include "device/vector.cuh"

namespace tunesmith {

/// Without dropout.
struct NoDropout {
  __device__ __forceinline__ NoDropout(const AttentionDropout*, int, int) {}
  static __device__ __forceinline__ float factor_of(const AttentionDropout*) { return 1.0f; }
};
template <const AttentionShape& shape, bool dropout = shape.dropout>
struct DroppedOf {
  using Pairs = NoDropout;
  struct Bits {
    __device__ __forceinline__ Bits(const NoDropout&, int, int) {}
  };
  template <bool keys_in_rows, int count>
  using BitsOf = Bits;
};
template <const AttentionShape& shape>
struct DroppedOf<shape, true> {
  using Pairs = typename AttentionFeatures<shape>::Dropped;
  template <bool keys_in_rows, int count>
  using BitsOf = typename Pairs::template Bits<keys_in_rows, count>;
};

constexpr float log2_e = 1.44269504088896341f;
constexpr float ln_2 = 0.693147180559945309f;

/// Stores 2 to 16 bytes in one access.
template <typename Element, int count>
__device__ __forceinline__ void store_access(Element* elements, int64 at, const float (&values)[count]) {
  constexpr int bytes = count * static_cast<int>(sizeof(Element));
  Bits<bytes> bits;
  if constexpr (bytes == 2) {
    bits.word = from_float<Element>(values[0]).bits;
  } else {
#pragma unroll
    for (int j = 0; j < bytes / 4; ++j) {
      if constexpr (sizeof(Element) == 4)
        bits.word[j] = bits_of(values[j]);
      else
        bits.word[j] = pack<Element>(values[2 * j], values[2 * j + 1]);
    }
  }
  store<bytes, StoreHint::plain>(elements + at, bits);
}

/// Stores consecutive elements in accesses of at most `vector` elements.
template <int vector, typename Element, int count>
__device__ __forceinline__ void store_part(Element* address, const float (&values)[count]) {
  constexpr int width = vector < count ? vector : count;
#pragma unroll
  for (int i = 0; i < count; i += width) {
    float part[width];
#pragma unroll
    for (int j = 0; j < width; ++j) part[j] = values[i + j];
    store_access(address, i, part);
  }
}

/// Keys [begin, end).
struct KeyRange {
  int begin, end;
  __device__ __forceinline__ bool empty() const { return begin >= end; }
  __device__ __forceinline__ bool holds(int first, int last) const { return first >= begin && last < end; }
};

/// Keys that a query sees by position: sequence bounds, causal masks and windows.
template <const AttentionShape& shape>
struct Visibility {
  int seq_q, seq_kv;
  int offset;       ///< query i has the position of key i + offset
  int left, right;  ///< of the window; right is 0 for causal masks

  __device__ __forceinline__ Visibility(const AttentionParams& params, const Sequence& sequence)
      : seq_q(sequence.seq_q),
        seq_kv(sequence.seq_kv),
        offset(shape.diagonal == Diagonal::bottom_right ? sequence.seq_kv - sequence.seq_q : 0),
        left(params.window_left),
        right(params.window_right) {}

  /// Returns a range that contains all keys seen by any of the queries [first, last].
  __device__ __forceinline__ KeyRange of_any(int first, int last) const {
    KeyRange range = {0, seq_kv};
    if constexpr (shape.bounded_left) range.begin = largest(0, first + offset - left);
    if constexpr (shape.bounded_right) range.end = smallest(seq_kv, last + offset + right + 1);
    return range;
  }
  /// Returns the keys that all queries [first, last] see; empty if a user function would be called for missing queries.
  __device__ __forceinline__ KeyRange of_all(int first, int last) const {
    if constexpr (shape.score_mod || shape.mask_mod)
      if (last >= seq_q) return {0, 0};
    KeyRange range = {0, seq_kv};
    if constexpr (shape.bounded_left) range.begin = largest(0, last + offset - left);
    if constexpr (shape.bounded_right) range.end = smallest(seq_kv, first + offset + right + 1);
    return range;
  }
  __device__ __forceinline__ bool sees(int query, int key) const {
    bool seen = key < seq_kv;
    if constexpr (shape.bounded_left) seen = seen && key >= query + offset - left;
    if constexpr (shape.bounded_right) seen = seen && key <= query + offset + right;
    return seen;
  }

  static __device__ __forceinline__ int largest(int a, int b) { return a > b ? a : b; }
  static __device__ __forceinline__ int smallest(int a, int b) { return a < b ? a : b; }
};

}  // namespace tunesmith
