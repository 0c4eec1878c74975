// Softmax, rows of about a thousand to some ten thousand columns: a block owns a row, which stays in its registers between
// one read and one write. The maximum is reduced over the block first and the sum after it, so nothing is ever rescaled.
#pragma once

#include "device/reduce.cuh"
#include "softmax/softmax_waiting.cuh"

namespace tunesmith {

struct SoftmaxBlockConfig {
  int threads;
  int min_blocks;  ///< per multiprocessor: bounds the registers of a thread to 65536 / (threads * min_blocks)
  Registers registers;
  LoadHint load;
  StoreHint store;
};

template <typename Input, typename Output, const SoftmaxShape& shape, const SoftmaxBlockConfig& config>
__device__ __forceinline__ void softmax_block(const SoftmaxParams& params) {
  constexpr int threads = config.threads;
  constexpr int vector = shape.vector;
  constexpr int vectors = vectors_per_thread<shape, threads>;
  TUNESMITH_SHARED(float, maximum_partials, threads / 32);
  TUNESMITH_SHARED(float, sum_partials, threads / 32);

  const int64 row = block_index();
  if (row >= params.rows) return;  // the grid is folded when there are more rows than it has places in one dimension
  const SoftmaxRow<Input, Output, shape> at(params, row);

  WaitingVector<Input, vector, config.registers> waiting[vectors];
#pragma unroll
  for (int i = 0; i < vectors; ++i)
    waiting[i].hold(load_vector<Input, vector, config.load>(at.x, (int64(i) * threads + thread_index()) * vector, at.range,
                                                            inside_row<shape, threads>(i), Maximum::identity()));

  float largest = waiting[0].largest();
#pragma unroll
  for (int i = 1; i < vectors; ++i) largest = maximum_or_nan(largest, waiting[i].largest());
  largest = reduce_block<threads>(largest, Maximum(), maximum_partials);

  const typename ArithmeticFor<Output>::Exponential exponential(largest);
  if (exponential.moves()) {
#pragma unroll
    for (int i = 0; i < vectors; ++i) waiting[i].center_elements(exponential);
  }
  typename ArithmeticFor<Output>::template RunningSum<vectors> running_sum;
#pragma unroll
  for (int i = 0; i < vectors; ++i) running_sum.include(waiting[i].raise(exponential));
  const float sum = reduce_block<threads>(running_sum.value(), Sum(), sum_partials);

  const typename ArithmeticFor<Output>::Quotient share(largest, sum);
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    float values[vector];
    waiting[i].results(exponential, share, values);
    store_vector<Output, vector, config.store>(at.y, (int64(i) * threads + thread_index()) * vector, at.range,
                                               inside_row<shape, threads>(i), values);
  }
}

}  // namespace tunesmith
