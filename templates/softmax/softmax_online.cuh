// Softmax, rows of any length: a block walks over its row twice. The first pass keeps a running maximum and sum, the second
// reads the row again, from the L2 cache where it still lies there, and writes the result.
#pragma once

#include "device/online_softmax.cuh"
#include "softmax/softmax.cuh"

namespace tunesmith {

struct SoftmaxOnlineConfig {
  int threads;
  int unroll;           ///< vectors that a thread loads before it uses the first
  LoadHint load;        ///< first pass
  LoadHint load_again;  ///< second pass
  StoreHint store;
};

template <typename Input, typename Output, const SoftmaxShape& shape, const SoftmaxOnlineConfig& config>
__device__ __forceinline__ void softmax_online(const SoftmaxParams& params) {
  using Exponential = typename ExponentialFor<Output>::Type;
  constexpr int threads = config.threads;
  constexpr int vector = shape.vector;
  constexpr int unroll = config.unroll;
  constexpr int64 cols = shape.cols;
  constexpr int64 tile = int64(threads) * unroll * vector;  // elements that the block takes in one step
  constexpr int64 whole_tiles_end = cols / tile * tile;
  TUNESMITH_SHARED(float, partials, 2 * threads / 32);

  const int64 row = block_index();
  if (row >= params.rows) return;  // the grid is folded when there are more rows than it has places in one dimension
  const Input* x = x_row<Input>(params, row);
  Output* y = y_row<Output>(params, row);

  OnlineSoftmax<Exponential> state;
  const auto read_tile = [&](int64 begin) {
    Packed<Input, vector> loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      loaded[i] = load_vector<Input, vector, config.load>(x, begin + (i * threads + thread_index()) * vector, cols,
                                                          Maximum::identity());
    float values[unroll * vector];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      float part[vector];
      loaded[i].unpack(part);
#pragma unroll
      for (int j = 0; j < vector; ++j) values[i * vector + j] = part[j];
    }
    state.include(values);
  };
  for (int64 begin = 0; begin < whole_tiles_end; begin += tile) read_tile(begin);
  if constexpr (whole_tiles_end < cols) read_tile(whole_tiles_end);

  state = combine_block<threads>(state, partials);
  const Exponential exponential(state.largest);
  const float scale = softmax_scale(state.largest, state.sum);

  const auto write_tile = [&](int64 begin) {
    Packed<Input, vector> loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      loaded[i] = load_vector<Input, vector, config.load_again>(x, begin + (i * threads + thread_index()) * vector, cols,
                                                                Maximum::identity());
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      float values[vector];
      loaded[i].unpack(values);
#pragma unroll
      for (int j = 0; j < vector; ++j) values[j] = multiply(exponential(values[j]), scale);
      store_vector<Output, vector, config.store>(y, begin + (i * threads + thread_index()) * vector, cols, values);
    }
  };
  for (int64 begin = 0; begin < whole_tiles_end; begin += tile) write_tile(begin);
  if constexpr (whole_tiles_end < cols) write_tile(whole_tiles_end);
}

}  // namespace tunesmith
