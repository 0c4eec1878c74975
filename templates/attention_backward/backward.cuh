// Shared by all kernels of attention's backward pass: parameters, and where the rows' statistics are stored.
#pragma once

#include "attention/attention.cuh"
#include "attention_backward/params.cuh"

namespace tunesmith {

struct BackwardShape {
  int dout_vector, dq_vector, dk_vector, dv_vector;  ///< elements that one access may take
  bool dlse, dsinks, dslopes;
  bool padded;       ///< sequences have rows of statistics in multiples of 128, and blocks add to their parts of dslopes
  int sums_columns;  ///< of dq's float32 sums in the workspace that the first kernel zeroes; 0: none
  bool counters;     ///< of dq's float32 sums, zeroed or not
  bool accumulate;   ///< gradients are added to what their arrays hold
  bool exact_aux;    ///< gradients of user arrays are summed in integers
};

/// Stores consecutive elements of a gradient, or adds them to what is there, in accesses of at most `vector` elements.
template <int vector, bool accumulate, typename Element, int count>
__device__ __forceinline__ void write_part(Element* address, float (&values)[count]) {
  if constexpr (accumulate) {
    constexpr int width = vector < count ? vector : count;
#pragma unroll
    for (int i = 0; i < count; i += width) {
      float before[width];
      load_whole<Element, width, LoadHint::plain>(address, i).unpack(before);
#pragma unroll
      for (int j = 0; j < width; ++j) values[i + j] = add(before[j], values[i + j]);
    }
  }
  store_part<vector>(address, values);
}
/// Does the same for a gradient of a number of each head.
template <const BackwardShape& backward>
__device__ __forceinline__ void write_of_head(float* gradients, int head, float value) {
  gradients[head] = backward.accumulate ? add(gradients[head], value) : value;
}

/// Statistics of a row (a query of a head), in the layout of lse: log2(e) * lse, +inf for a row without keys, so that its
/// probabilities are 0; and delta = sum(o * dout) - dlse.
struct RowStatistics {
  const float *lse, *delta;  ///< of query 0
};

__device__ __forceinline__ float* workspace_floats(const AttentionBackwardParams& params, int64 at) {
  return reinterpret_cast<float*>(params.attention.workspace + at);
}

__device__ __forceinline__ uint32* workspace_words(const AttentionBackwardParams& params, int64 at) {
  return reinterpret_cast<uint32*>(params.attention.workspace + at);
}

template <const AttentionShape& shape>
__device__ __forceinline__ RowStatistics statistics_of(const AttentionBackwardParams& params, const Sequence& sequence,
                                                       int batch, int head) {
  const AttentionParams& attention = params.attention;
  const int64 first = shape.varlen ? head * params.statistics_rows + sequence.q_start
                                   : (static_cast<int64>(batch) * attention.heads + head) * params.statistics_rows;
  return {workspace_floats(params, params.lse_at) + first, workspace_floats(params, params.delta_at) + first};
}

/// Returns where a block of queries, or four warps of 64 keys, store their parts of dslopes[head].
__device__ __forceinline__ float* slope_part(const AttentionBackwardParams& params, int batch, int head, int tile) {
  return workspace_floats(params, params.slopes_at) +
         (static_cast<int64>(head) * params.attention.batch + batch) * params.slope_parts + tile * params.parts_of_tile;
}

/// Statistics and sums of packed sequences begin at multiples of 128 rows: returns that row of the sequence that starts at
/// position `start`.
__device__ __forceinline__ int padded_start(int batch, int start) { return (start / 128 + batch) * 128; }
/// Returns the sequence that such a row belongs to.
__device__ __forceinline__ int sequence_of_row(const AttentionParams& params, int row) {
  int first = 0, end = params.batch;
  while (end - first > 1) {
    const int middle = first + (end - first) / 2;
    (padded_start(middle, params.cu_seqlens_q[middle]) <= row ? first : end) = middle;
  }
  return first;
}

/// The K/V tile of a block and its key head. Neighbouring blocks have different heads of the same tile. The first keys,
/// which a causal mask shows to most queries, come first.
template <const AttentionShape& shape, int tile_kv>
struct BlockOfKeys {
  int batch, kv_head, tile;
  Sequence sequence;
  int first_k;

  __device__ __forceinline__ explicit BlockOfKeys(const AttentionBackwardParams& params) {
    const int64 work = block_index();
    kv_head = static_cast<int>(work % params.attention.kv_heads);
    batch = static_cast<int>(work / params.attention.kv_heads % params.attention.batch);
    const int64 number = work / params.attention.kv_heads / params.attention.batch;
    tile = number < params.kv_tiles ? static_cast<int>(number) : params.kv_tiles;
    sequence = sequence_of<shape>(params.attention, batch);
    first_k = tile * tile_kv;
  }
  __device__ __forceinline__ bool is_empty() const { return first_k >= sequence.seq_kv; }

  template <typename Element>
  __device__ __forceinline__ Element* at(Element* base, const AttentionStrides& strides) const {
    return head_of<shape>(base, strides, sequence.kv_start, batch, kv_head);
  }
};

/// Queries [begin, end) that may see at least one of the keys [first, last].
template <const AttentionShape& shape>
__device__ __forceinline__ KeyRange queries_of(const Visibility<shape>& visibility, int first, int last) {
  KeyRange range = {0, visibility.seq_q};
  if constexpr (shape.bounded_right)
    range.begin = Visibility<shape>::largest(0, first - visibility.offset - visibility.right);
  if constexpr (shape.bounded_left)
    range.end = Visibility<shape>::smallest(visibility.seq_q, last - visibility.offset + visibility.left + 1);
  return range;
}

/// Copies statistics of queries [first, first + count) to shared memory. Queries from `end` on get statistics that make
/// probability and gradient 0.
template <int count, int threads>
__device__ __forceinline__ void stage_statistics(const RowStatistics& statistics, int first, int end, float* lse,
                                                 float* delta) {
  for (int i = thread_index(); i < count; i += threads) {
    const bool there = first + i < end;
    lse[i] = there ? statistics.lse[first + i] : -Maximum::identity();
    delta[i] = there ? statistics.delta[first + i] : 0.0f;
  }
}

/// Whether the range holds any of [first, last].
__device__ __forceinline__ bool meets(const KeyRange& range, int first, int last) {
  return first < range.end && last >= range.begin;
}

}  // namespace tunesmith
