// Shared by all attention kernels: parameters, the shape they are specialized for, addresses of sequences, and visibility of
// keys.
#pragma once

#include "attention/params.cuh"
#include "device/reduce.cuh"
#include "device/vector.cuh"

namespace tunesmith {

/// Causal mask alignment; also applies to windows and ALiBi distances.
enum class Diagonal {
  top_left,      ///< query i and key i have the same position
  bottom_right,  ///< the last query and the last key have the same position
};

struct AttentionShape {
  int head_dim, head_dim_v;
  int q_vector, k_vector, v_vector, o_vector;  ///< elements per access; all rows start at a multiple of them
  Diagonal diagonal;
  bool varlen;
  bool bounded_left,
      bounded_right;  ///< keys too far before, or after, a query's position are masked; causal masks bound the right
  bool softcap, alibi, sinks;
  bool score_mod, mask_mod;
  bool dropout;
};

/// Compile-time choices of the generated source, so that it contains only the code of enabled options:
///   Tiles<most_q, tile_kv>     KeyTiles, or MaskedKeyTiles with a mask_mod
///   Ring<tile_q, ...>          QueryRing, or MaskedQueryRing with a mask_mod, for backward kernels on wgmma
///   Cap, CapSteps, Bias, BiasSteps, Sink  SoftCap, SoftCapSteps, Alibi, AlibiSteps and Sinks, if the shape has them
///   Chunks                     AlignedChunks or UnalignedChunks, for kernels on mma.sync
///   Dropped                    DroppedPairs, with dropout
template <const AttentionShape& shape>
struct AttentionFeatures;

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

/// The queries and keys of one sequence.
struct Sequence {
  int64 q_start, kv_start;  ///< start in the packed arrays; 0 otherwise
  int seq_q, seq_kv;
};

template <const AttentionShape& shape>
__device__ __forceinline__ Sequence sequence_of(const AttentionParams& params, int batch) {
  if constexpr (shape.varlen) {
    const int q_start = params.cu_seqlens_q[batch], kv_start = params.cu_seqlens_kv[batch];
    return {q_start, kv_start, params.cu_seqlens_q[batch + 1] - q_start, params.cu_seqlens_kv[batch + 1] - kv_start};
  }
  return {0, 0, params.seq_q, params.seq_kv};
}

/// Returns the address of position 0 of the sequence and head.
template <const AttentionShape& shape, typename Element>
__device__ __forceinline__ Element* head_of(Element* base, const AttentionStrides& strides, int64 start, int batch,
                                            int head) {
  return base + (shape.varlen ? start * strides.seq : batch * strides.batch) + head * strides.head;
}

template <const AttentionShape& shape>
__device__ __forceinline__ float* lse_of(const AttentionParams& params, const Sequence& sequence, int batch, int head) {
  if constexpr (shape.varlen) return params.lse + head * params.total_q + sequence.q_start;
  return params.lse + (static_cast<int64>(batch) * params.heads + head) * params.seq_q;
}

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
