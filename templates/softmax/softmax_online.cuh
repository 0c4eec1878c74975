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

/// Calls step(inside, begin) for every tile of a row. A tile from the second on lies within the row, whatever its shift, if
/// it ends within the first `cols` elements.
template <const SoftmaxShape& shape, int64 tile, typename Step>
__device__ __forceinline__ void over_tiles(const Step& step) {
  constexpr int64 inside_end = shape.cols / tile * tile;
  constexpr int64 rest = inside_end > tile ? inside_end : tile;
  step(!shape.shifted && inside_end >= tile, int64{0});
  for (int64 begin = tile; begin < inside_end; begin += tile) step(true, begin);
  for (int64 begin = rest; begin < row_span<shape>; begin += tile) step(false, begin);
}

template <typename Input, typename Output, const SoftmaxShape& shape, const SoftmaxOnlineConfig& config>
__device__ __forceinline__ void softmax_online(const SoftmaxParams& params) {
  using Exponential = typename ArithmeticFor<Output>::Exponential;
  constexpr int threads = config.threads;
  constexpr int vector = shape.vector;
  constexpr int unroll = config.unroll;
  constexpr int64 tile = int64(threads) * unroll * vector;  // elements that the block takes in one step
  TUNESMITH_SHARED(float, partials, 2 * threads / 32);

  const int64 row = block_index();
  if (row >= params.rows) return;  // the grid is folded when there are more rows than it has places in one dimension
  const SoftmaxRow<Input, Output, shape> at(params, row);

  OnlineSoftmax<Output> state;
  const auto read_tile = [&](bool inside, int64 begin) {
    Packed<Input, vector> loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      loaded[i] = load_vector<Input, vector, config.load>(at.x, begin + (i * threads + thread_index()) * vector, at.range,
                                                          inside, Maximum::identity());
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
  over_tiles<shape, tile>(read_tile);

  const RowStatistics statistics = combine_block<threads>(state, partials);
  const Exponential exponential(statistics.largest);
  const typename ArithmeticFor<Output>::Quotient share(statistics.largest, statistics.sum);

  over_tiles<shape, tile>([&](bool inside, int64 begin) {
    Packed<Input, vector> loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i)
      loaded[i] = load_vector<Input, vector, config.load_again>(at.x, begin + (i * threads + thread_index()) * vector,
                                                                at.range, inside, Maximum::identity());
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      float values[vector];
      loaded[i].unpack(values);
      center(exponential, values);
#pragma unroll
      for (int j = 0; j < vector; ++j) values[j] = share(exponential(values[j]));
      store_vector<Output, vector, config.store>(at.y, begin + (i * threads + thread_index()) * vector, at.range, inside,
                                                 values);
    }
  });
}

}  // namespace tunesmith
