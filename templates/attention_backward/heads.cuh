// After the backward pass: gradients of per-head scalars (sinks, ALiBi slopes). A block sums the terms of one head in a
// fixed order.
//
//   dsinks[h]  = -sum over queries of exp(sinks[h] - lse) * delta
//   dslopes[h] = sum of the parts that blocks of queries have stored
#pragma once

#include "attention_backward/backward.cuh"

namespace tunesmith {

constexpr int heads_threads = 256;

/// Sums a value of each thread of a block; thread 0 gets the result. All threads together.
template <int threads>
__device__ __forceinline__ float sum_of_block(float value) {
  TUNESMITH_SHARED(float, parts, threads / 32);
  value = reduce_lanes<32>(value, Sum());
  sync_block();
  if (lane_index() == 0) parts[warp_index()] = value;
  sync_block();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < threads / 32; ++i) sum = add(sum, parts[i]);
  return sum;
}

template <const AttentionShape& shape, const BackwardShape& backward>
__device__ __forceinline__ void attention_backward_heads(const AttentionBackwardParams& params) {
  const AttentionParams& attention = params.attention;
  const int head = static_cast<int>(block_index());
  if (head >= attention.heads) return;
  if constexpr (backward.dsinks) {
    const float sink = multiply(attention.sinks[head], log2_e);
    // Padding has weight 0; rows after the last packed sequence may hold anything.
    const int64 queries = !shape.varlen     ? attention.seq_q
                          : backward.padded ? params.statistics_rows
                                            : attention.cu_seqlens_q[attention.batch];
    const int batches = shape.varlen ? 1 : attention.batch;
    CompensatedSum sum;
    for (int batch = 0; batch < batches; ++batch) {
      const int64 first = (static_cast<int64>(batch) * attention.heads + head) * params.statistics_rows;
      const float* const lse = workspace_floats(params, params.lse_at) + first;
      const float* const delta = workspace_floats(params, params.delta_at) + first;
      for (int64 i = thread_index(); i < queries; i += heads_threads)
        sum.include(multiply(exp2_approx(subtract(sink, lse[i])), delta[i]));
    }
    const float total = sum_of_block<heads_threads>(sum.value());
    if (thread_index() == 0) write_of_head<backward>(params.dsinks, head, -total);
  }
  if constexpr (backward.dslopes) {
    const int64 count = static_cast<int64>(attention.batch) * params.slope_parts;
    CompensatedSum sum;
    for (int64 i = thread_index(); i < count; i += heads_threads) sum.include(slope_part(params, 0, head, 0)[i]);
    const float total = sum_of_block<heads_threads>(sum.value());
    if (thread_index() == 0) write_of_head<backward>(params.dslopes, head, total);
  }
}

}  // namespace tunesmith
