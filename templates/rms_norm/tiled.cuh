// RMS normalization in two reads, for rows that do not fit on chip. Either one block processes a row, or several share it: a
// first kernel writes one partial sum of squares per block, a second one reduces them and writes y.
#pragma once

#include "rms_norm/rms_norm.cuh"
#include "row/tiles.cuh"

namespace tunesmith {

/// Sums over a block; all threads get the result.
template <int threads, typename Number>
__device__ __forceinline__ PairOf<Number> sum_of_block(PairOf<Number> sum) {
  sum = BlockGroup<threads>(nullptr, 0).template reduce<0>(sum, SumOfTwo<Number>());
  sync_block();  // the next row's sum uses the same shared memory
  return sum;
}

/// Sums the squares of a block's slice of a row.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ PairOf<Number<shape>> squares_of_part(const RmsNormParamsOf<Number<shape>>& params,
                                                                 const Row<shape>& row, int part) {
  using Input = typename Types::Input;
  const Input* const x = row.template input<Input>(params.row, 0);
  CompensatedSumOf<Number<shape>> squares;
  over_tiles<shape, config, true>(columns_of<shape>(params.row), part, row.seen.end, [&](bool inside, int64 begin) {
    Packed<Input, shape.vector> tile[config.unroll];
    load_tile<Input, shape, config, config.load>(x, begin, row.seen, inside, 0.0f, tile);
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      Number<shape> values[shape.vector];
      tile[i].unpack(values);
      include_squares(squares, values);
    }
  });
  return sum_of_block<config.threads>(squares.both());
}

/// Reads a block's slice of a row again and writes the result.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void normalize_part(const RmsNormParamsOf<Number<shape>>& params, const Row<shape>& row, int part,
                                               PairOf<Number<shape>> squares) {
  using Input = typename Types::Input;
  const Input* const x = row.template input<Input>(params.row, 0);
  const Number<shape> rstd = rstd_of<shape>(params, squares);
  if (part == 0 && thread_index() == 0 && params.rstd != nullptr) params.rstd[row.index] = rstd;
  over_tiles<shape, config, true>(columns_of<shape>(params.row), part, row.all.end, [&](bool inside, int64 begin) {
    Packed<Input, shape.vector> tile[config.unroll];
    load_tile<Input, shape, config, config.load_again>(x, begin, row.seen, inside, 0.0f, tile);
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      Number<shape> values[shape.vector];
      tile[i].unpack(values);
      store_normalized<Types, shape, config.store>(params, row, begin + (i * config.threads + thread_index()) * shape.vector,
                                                   inside, rstd, values);
    }
  });
}

/// Runs both passes with one block per row.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void rms_norm_two_pass(const RmsNormParamsOf<Number<shape>>& params) {
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    normalize_part<Types, shape, config>(params, row, part, squares_of_part<Types, shape, config>(params, row, part));
  });
}

/// First kernel of several blocks per row: writes [rows][blocks_per_row] partial sums.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void rms_norm_split_sums(const RmsNormParamsOf<Number<shape>>& params) {
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const PairOf<Number<shape>> squares = squares_of_part<Types, shape, config>(params, row, part);
    if (thread_index() == 0)
      static_cast<PairOf<Number<shape>>*>(params.row.workspace)[index * config.blocks_per_row + part] = squares;
  });
}

/// Second kernel of several blocks per row: reduces the partial sums and writes y.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void rms_norm_split(const RmsNormParamsOf<Number<shape>>& params) {
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const auto* const parts =
        static_cast<const PairOf<Number<shape>>*>(params.row.workspace) + index * config.blocks_per_row;
    PairOf<Number<shape>> squares = SumOfTwo<Number<shape>>::identity();
    for (int i = thread_index(); i < config.blocks_per_row; i += config.threads)
      squares = SumOfTwo<Number<shape>>()(squares, parts[i]);
    normalize_part<Types, shape, config>(params, row, part, sum_of_block<config.threads>(squares));
  });
}

}  // namespace tunesmith
