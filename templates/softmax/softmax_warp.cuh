// Softmax, short rows: a group of lanes of one warp owns a row, which stays in registers between one read and one write.
// Nothing but shuffles is needed, so a block holds as many independent rows as it has groups.
#pragma once

#include "device/reduce.cuh"
#include "softmax/softmax.cuh"

namespace tunesmith {

struct SoftmaxWarpConfig {
  int threads;  ///< per block
  int lanes;    ///< per row: a power of two up to 32
  LoadHint load;
  StoreHint store;
};

template <typename Input, typename Output, const SoftmaxShape& shape, const SoftmaxWarpConfig& config>
__device__ __forceinline__ void softmax_warp(const SoftmaxParams& params) {
  constexpr int lanes = config.lanes;
  constexpr int vector = shape.vector;
  constexpr int vectors = vectors_per_thread<shape, lanes>;
  constexpr int rows_per_block = config.threads / lanes;

  const int lane = thread_index() % lanes;
  const int64 own_row = block_index() * rows_per_block + thread_index() / lanes;
  // Groups past the last row follow along with it, because the shuffles need all lanes, and store nothing.
  const int64 row = own_row < params.rows ? own_row : params.rows - 1;
  const SoftmaxRow<Input, Output, shape> at(params, row);

  float values[vectors][vector];
#pragma unroll
  for (int i = 0; i < vectors; ++i)
    load_vector<Input, vector, config.load>(at.x, (int64(i) * lanes + lane) * vector, at.range, inside_row<shape, lanes>(i),
                                            Maximum::identity())
        .unpack(values[i]);

  float largest = largest_of(values[0]);
#pragma unroll
  for (int i = 1; i < vectors; ++i) largest = maximum_or_nan(largest, largest_of(values[i]));
  largest = reduce_lanes<lanes>(largest, Maximum());

  const typename ArithmeticFor<Output>::Exponential exponential(largest);
  typename ArithmeticFor<Output>::template RunningSum<vectors> running_sum;
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    center(exponential, values[i]);
    running_sum.include(exponentiate<vector>(exponential, values[i]));
  }
  const float sum = reduce_lanes<lanes>(running_sum.value(), Sum());

  if (own_row >= params.rows) return;
  const typename ArithmeticFor<Output>::Quotient share(largest, sum);
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
#pragma unroll
    for (int j = 0; j < vector; ++j) values[i][j] = share(values[i][j]);
    store_vector<Output, vector, config.store>(at.y, (int64(i) * lanes + lane) * vector, at.range,
                                               inside_row<shape, lanes>(i), values[i]);
  }
}

}  // namespace tunesmith
