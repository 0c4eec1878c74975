// Softmax and log_softmax in two passes, for rows that do not fit on chip. Pass 1 computes the maximum and the sums online
// (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018); pass 2 reads the row again, from L2 if it is
// still there, and writes the result. Either one block processes a row, or several share it: a first kernel then writes one
// partial per block, and a second one combines them.
#pragma once

#include "row/mask.cuh"
#include "row/schedules/tiles.cuh"
#include "softmax/log_softmax.cuh"
#include "softmax/running.cuh"

namespace tunesmith {

/// Computes the partial of a block's slice of a row.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ SoftmaxPartial<shape> softmax_first_pass(const RowParams& params, const Row<shape>& row,
                                                                    int part) {
  using Input = typename Types::Input;
  RunningSoftmax<shape> state(params);
  const Input* const x = row.template input<Input>(params, 0);
  const MaskOf<shape> mask(params, row);
  over_tiles<shape, config, !ragged<shape>>(columns_of<shape>(params), part, row.seen.end, [&](bool inside, int64 begin) {
    Packed<Input, shape.vector> tile[config.unroll];
    load_tile<Input, shape, config, config.load>(x, begin, row.seen, inside, Maximum::identity(), tile);
    Number<shape> values[config.unroll][shape.vector];
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      tile[i].unpack(values[i]);
      mask.apply(begin + (i * config.threads + thread_index()) * shape.vector, inside, Maximum::identity(), values[i]);
    }
    state.include(values);
  });
  return over_group(BlockGroup<config.threads>(nullptr, 0), state);
}

/// Reads a block's slice of a row again and writes the result.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_second_pass(const RowParams& params, const Row<shape>& row, int part,
                                                    const SoftmaxPartial<shape>& statistics) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  const typename RowFeatures<shape>::Function::template Result<shape> result(params, statistics.largest,
                                                                             {statistics.sum, statistics.max_count});
  const Input* const x = row.template input<Input>(params, 0);
  Output* const y = row.template output<Output>(params);
  const MaskOf<shape> mask(params, row);
  over_tiles<shape, config, true>(columns_of<shape>(params), part, row.all.end, [&](bool inside, int64 begin) {
    Packed<Input, shape.vector> tile[config.unroll];
    load_tile<Input, shape, config, config.load_again>(x, begin, row.seen, inside && !ragged<shape>, Maximum::identity(),
                                                       tile);
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      const int64 column = begin + (i * config.threads + thread_index()) * shape.vector;
      Number<shape> values[shape.vector];
      tile[i].unpack(values);
      mask.apply(column, inside && !ragged<shape>, Maximum::identity(), values);
      result.compute(values);
      RowFeatures<shape>::Edges::template store<Output, shape.vector, config.store>(y, column, row.all, inside, values);
    }
  });
}

/// Runs both passes with one block per row.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_two_pass(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const SoftmaxPartial<shape> statistics = softmax_first_pass<Types, shape, config>(params, row, part);
    softmax_second_pass<Types, shape, config>(params, row, part, statistics);
  });
}

/// First kernel of several blocks per row: writes [rows][blocks_per_row] partials.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_split_sums(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const SoftmaxPartial<shape> sums = softmax_first_pass<Types, shape, config>(params, row, part);
    if (thread_index() == 0)
      static_cast<SoftmaxPartial<shape>*>(params.workspace)[index * config.blocks_per_row + part] = sums;
  });
}

/// Second kernel of several blocks per row: combines the partials and writes the result.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_split(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const auto* const parts = static_cast<const SoftmaxPartial<shape>*>(params.workspace) + index * config.blocks_per_row;
    RunningSoftmax<shape> state(params);
    for (int i = thread_index(); i < config.blocks_per_row; i += config.threads) state.include(parts[i]);
    softmax_second_pass<Types, shape, config>(params, row, part, over_group(BlockGroup<config.threads>(nullptr, 0), state));
  });
}

}  // namespace tunesmith
