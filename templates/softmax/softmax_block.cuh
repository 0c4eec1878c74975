// Softmax, rows of about a thousand to some ten thousand columns: a block owns a row, which stays in its registers between
// one read and one write. The maximum is reduced over the block first and the sum after it, so nothing is ever rescaled.
#pragma once

#include "device/reduce.cuh"
#include "softmax/softmax.cuh"

namespace tunesmith {

struct SoftmaxBlockConfig {
  int threads;
  int min_blocks;  ///< per multiprocessor: bounds the registers of a thread to 65536 / (threads * min_blocks)
  Registers registers;
  LoadHint load;
  StoreHint store;
};

/// One vector of a row while it waits, in either form.
template <typename Input, int vector, Registers form>
struct Waiting {
  Packed<Input, vector> packed;
  __device__ __forceinline__ void hold(const Packed<Input, vector>& loaded) { packed = loaded; }
  __device__ __forceinline__ void get(float (&values)[vector]) {
    packed.forget_uses();  // else the unpacked row stays in registers from pass to pass, which is what packing avoids
    packed.unpack(values);
  }
};
template <typename Input, int vector>
struct Waiting<Input, vector, Registers::float32> {
  float wide[vector];
  __device__ __forceinline__ void hold(const Packed<Input, vector>& loaded) { loaded.unpack(wide); }
  __device__ __forceinline__ void get(float (&values)[vector]) {
#pragma unroll
    for (int j = 0; j < vector; ++j) values[j] = wide[j];
  }
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

  Waiting<Input, vector, config.registers> waiting[vectors];
#pragma unroll
  for (int i = 0; i < vectors; ++i)
    waiting[i].hold(load_vector<Input, vector, config.load>(at.x, (int64(i) * threads + thread_index()) * vector, at.range,
                                                            inside_row<shape, threads>(i), Maximum::identity()));

  float largest = Maximum::identity();
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    float values[vector];
    waiting[i].get(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) largest = maximum_or_nan(largest, values[j]);
  }
  largest = reduce_block<threads>(largest, Maximum(), maximum_partials);

  const typename ArithmeticFor<Output>::Exponential exponential(largest);
  typename ArithmeticFor<Output>::RunningSum running_sum;
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    float values[vector];
    waiting[i].get(values);
    float vector_sum = 0.0f;
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      values[j] = exponential(values[j]);
      vector_sum = add(vector_sum, values[j]);
      // In float32 registers the exponential takes its element's place; packed elements are raised again below.
      if constexpr (config.registers == Registers::float32) waiting[i].wide[j] = values[j];
    }
    running_sum.include(vector_sum);
  }
  const float sum = reduce_block<threads>(running_sum.value(), Sum(), sum_partials);

  const typename ArithmeticFor<Output>::Quotient share(largest, sum);
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    float values[vector];
    waiting[i].get(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      if constexpr (config.registers == Registers::packed) values[j] = exponential(values[j]);
      values[j] = share(values[j]);
    }
    store_vector<Output, vector, config.store>(at.y, (int64(i) * threads + thread_index()) * vector, at.range,
                                               inside_row<shape, threads>(i), values);
  }
}

}  // namespace tunesmith
