// Softmax and log_softmax of rows that do not fit on the chip, in two reads. The first pass keeps a running maximum and the
// sums under it, after Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); the second reads the row
// again, from the L2 cache where it still lies there, and writes the result. One block does both for whole rows, or many
// share a row: then a first kernel leaves each part's sums in the workspace and a second one puts them together.
#pragma once

#include "row/mask.cuh"
#include "row/tiles.cuh"
#include "softmax/log_softmax.cuh"
#include "softmax/running.cuh"

namespace tunesmith {

/// The sums over a block's part of a row.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ SoftmaxPartial softmax_first_pass(const RowParams& params, const Row<shape>& row, int part) {
  using Input = typename Types::Input;
  RunningSoftmax<shape> state(params);
  const Input* const x = row.template input<Input>(params, 0);
  over_tiles<shape, config, !ragged<shape>>(part, row.seen.end, [&](bool inside, int64 begin) {
    Packed<Input, shape.vector> tile[config.unroll];
    load_tile<Input, shape, config, config.load>(x, begin, row.seen, inside, Maximum::identity(), tile);
    float values[config.unroll][shape.vector];
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      tile[i].unpack(values[i]);
      RowFeatures<shape>::Mask::template apply<shape>(
          params, row, begin + (i * config.threads + thread_index()) * shape.vector, inside, Maximum::identity(), values[i]);
    }
    state.include(values);
  });
  return combine_block<config.threads>(state);
}

/// Reads a block's part of a row again and writes the result.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_second_pass(const RowParams& params, const Row<shape>& row, int part,
                                                    const SoftmaxPartial& statistics) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  const typename RowFeatures<shape>::Function::template Result<shape> result(params, statistics.largest,
                                                                             {statistics.sum, statistics.max_count});
  const Input* const x = row.template input<Input>(params, 0);
  Output* const y = row.template output<Output>(params);
  over_tiles<shape, config, true>(part, row.all.end, [&](bool inside, int64 begin) {
    Packed<Input, shape.vector> tile[config.unroll];
    load_tile<Input, shape, config, config.load_again>(x, begin, row.seen, inside && !ragged<shape>, Maximum::identity(),
                                                       tile);
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      const int64 column = begin + (i * config.threads + thread_index()) * shape.vector;
      float values[shape.vector];
      tile[i].unpack(values);
      RowFeatures<shape>::Mask::template apply<shape>(params, row, column, inside && !ragged<shape>, Maximum::identity(),
                                                      values);
      result.compute(values);
      RowFeatures<shape>::Edges::template store<Output, shape.vector, config.store>(y, column, row.all, inside, values);
    }
  });
}

/// One block per row.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_two_pass(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const SoftmaxPartial statistics = softmax_first_pass<Types, shape, config>(params, row, part);
    softmax_second_pass<Types, shape, config>(params, row, part, statistics);
  });
}

/// Many blocks per row, first kernel: leaves [rows][blocks_per_row] sums.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_split_sums(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const SoftmaxPartial sums = softmax_first_pass<Types, shape, config>(params, row, part);
    if (thread_index() == 0) static_cast<SoftmaxPartial*>(params.workspace)[index * config.blocks_per_row + part] = sums;
  });
}

/// Many blocks per row, second kernel: puts the sums together and writes.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_split(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const auto* const parts = static_cast<const SoftmaxPartial*>(params.workspace) + index * config.blocks_per_row;
    RunningSoftmax<shape> state(params);
    for (int i = thread_index(); i < config.blocks_per_row; i += config.threads) state.include(parts[i]);
    softmax_second_pass<Types, shape, config>(params, row, part, combine_block<config.threads>(state));
  });
}

}  // namespace tunesmith
