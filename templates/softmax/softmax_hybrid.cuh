// Softmax, rows too long for the registers of a block that shares its multiprocessor: part of the row waits in registers,
// the rest in shared memory, so that two or more blocks fit and one computes while the other moves data. One read, one
// write.
#pragma once

#include "device/reduce.cuh"
#include "softmax/softmax_waiting.cuh"

namespace tunesmith {

struct SoftmaxHybridConfig {
  int threads;
  int register_vectors;  ///< of a thread, held in registers; the others wait in shared memory
  int min_blocks;        ///< per multiprocessor: bounds the registers of a thread to 65536 / (threads * min_blocks)
  Registers registers;
  LoadHint load;
  StoreHint store;
};

template <typename Input, typename Output, const SoftmaxShape& shape, const SoftmaxHybridConfig& config>
__device__ __forceinline__ void softmax_hybrid(const SoftmaxParams& params) {
  constexpr int threads = config.threads;
  constexpr int vector = shape.vector;
  constexpr int vectors = vectors_per_thread<shape, threads>;
  constexpr int held = config.register_vectors;
  constexpr int shared = vectors - held;
  using Place = Packed<Input, vector>;
  static_assert(held > 0 && shared > 0 && Place::accesses == 1 && Place::bytes >= 4, "a row in both kinds of memory");
  TUNESMITH_SHARED(float, maximum_partials, threads / 32);
  TUNESMITH_SHARED(float, sum_partials, threads / 32);

  const int64 row = block_index();
  if (row >= params.rows) return;  // the grid is folded when there are more rows than it has places in one dimension
  const SoftmaxRow<Input, Output, shape> at(params, row);
  Place* const places = reinterpret_cast<Place*>(dynamic_shared()) + thread_index();
  const auto column = [](int i) { return (int64(i) * threads + thread_index()) * vector; };

  // The copies to shared memory are started first: they need nothing of this thread until they are waited for.
#pragma unroll
  for (int i = held; i < vectors; ++i) {
    Place* const place = places + (i - held) * threads;
    if (inside_row<shape, threads>(i) || at.range.template holds<vector>(column(i)))
      async_copy<Place::bytes, config.load>(place, at.x + column(i));
    else
      *place = load_vector<Input, vector, LoadHint::plain>(at.x, column(i), at.range, false, Maximum::identity());
  }
  async_copy_commit();
  WaitingVector<Input, vector, config.registers> waiting[held];
#pragma unroll
  for (int i = 0; i < held; ++i)
    waiting[i].hold(load_vector<Input, vector, config.load>(at.x, column(i), at.range, inside_row<shape, threads>(i),
                                                            Maximum::identity()));

  float largest = waiting[0].largest();
#pragma unroll
  for (int i = 1; i < held; ++i) largest = maximum_or_nan(largest, waiting[i].largest());
  async_copy_wait<0>();
#pragma unroll
  for (int i = 0; i < shared; ++i)
    largest = maximum_or_nan(largest, SharedVector<Input, vector>{places + i * threads}.largest());
  largest = reduce_block<threads>(largest, Maximum(), maximum_partials);

  const typename ArithmeticFor<Output>::Exponential exponential(largest);
  if (exponential.moves()) {
#pragma unroll
    for (int i = 0; i < held; ++i) waiting[i].center_elements(exponential);
  }
  typename ArithmeticFor<Output>::template RunningSum<vectors> running_sum;
#pragma unroll
  for (int i = 0; i < held; ++i) running_sum.include(waiting[i].raise(exponential));
#pragma unroll
  for (int i = 0; i < shared; ++i) running_sum.include(SharedVector<Input, vector>{places + i * threads}.raise(exponential));
  const float sum = reduce_block<threads>(running_sum.value(), Sum(), sum_partials);

  const typename ArithmeticFor<Output>::Quotient share(largest, sum);
#pragma unroll
  for (int i = 0; i < vectors; ++i) {
    float values[vector];
    if (i < held)
      waiting[i < held ? i : 0].results(exponential, share, values);
    else
      SharedVector<Input, vector>{places + (i - held) * threads}.results(exponential, share, values);
    store_vector<Output, vector, config.store>(at.y, column(i), at.range, inside_row<shape, threads>(i), values);
  }
}

}  // namespace tunesmith
