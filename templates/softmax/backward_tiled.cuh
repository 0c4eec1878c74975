// Gradient of softmax and log_softmax for rows that do not fit on chip: dy and y are read twice. Either one block processes
// a row, or several share it: a first kernel writes one partial sum per block, a second one reduces them and writes dx.
#pragma once

#include "row/schedules/tiles.cuh"
#include "softmax/backward.cuh"

namespace tunesmith {

/// A block's partial sum, in two numbers, and its maximum of not_zero().
template <typename Number>
struct GradientPart {
  PairOf<Number> sum;
  Number not_zero, unused;
};

/// Calls use(column, dy, y) for the vectors of a tile, with excluded elements replaced.
template <typename Types, const RowShape& shape, const TiledConfig& config, LoadHint hint, typename Use>
__device__ __forceinline__ void over_gradient_tile(const RowParams& params, const Row<shape>& row, int64 begin, bool inside,
                                                   const Use& use) {
  using Input = typename Types::Input;
  const Number<shape> absent = absent_y<Input, shape>();
  Packed<Input, shape.vector> dy_tile[config.unroll], y_tile[config.unroll];
  load_tile<Input, shape, config, hint>(row.template input<Input>(params, 0), begin, row.seen, inside, 0.0f, dy_tile);
  load_tile<Input, shape, config, hint>(row.template input<Input>(params, 1), begin, row.seen, inside, absent, y_tile);
  const MaskOf<shape> mask(params, row);
#pragma unroll
  for (int i = 0; i < config.unroll; ++i) {
    const int64 column = begin + (i * config.threads + thread_index()) * shape.vector;
    Number<shape> dy[shape.vector], y[shape.vector];
    dy_tile[i].unpack(dy);
    y_tile[i].unpack(y);
    if constexpr (RowFeatures<shape>::Mask::present) {
      mask.apply(column, inside, 0.0f, dy);
      mask.apply(column, inside, absent, y);
    }
    use(column, dy, y);
  }
}

template <int threads, const RowShape& shape>
__device__ __forceinline__ GradientPart<Number<shape>> combine_block(GradientPart<Number<shape>> part) {
  BlockGroup<threads> group(nullptr, 0);
  part.sum = group.template reduce<0>(part.sum, SumOfTwo<Number<shape>>());
  part.not_zero = group.template reduce<1>(part.not_zero, Maximum());  // its barrier also separates successive rows
  return part;
}

template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ GradientPart<Number<shape>> gradient_first_pass(const RowParams& params, const Row<shape>& row,
                                                                           int part) {
  using Input = typename Types::Input;
  CompensatedSumOf<Number<shape>> sum;
  Number<shape> found = 0.0f;
  over_tiles<shape, config, !ragged<shape>>(columns_of<shape>(params), part, row.seen.end, [&](bool inside, int64 begin) {
    over_gradient_tile<Types, shape, config, config.load>(
        params, row, begin, inside, [&](int64, Number<shape>(&dy)[shape.vector], Number<shape>(&y)[shape.vector]) {
          include_in_sum<Input, shape>(sum, dy, y);
          if constexpr (shape.safe && shape.logarithm) found = maximum(found, not_zero<Input, shape>(y));
        });
  });
  return combine_block<config.threads, shape>({sum.both(), found, 0.0f});
}

template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void gradient_second_pass(const RowParams& params, const Row<shape>& row, int part,
                                                     const GradientPart<Number<shape>>& whole) {
  using Output = typename Types::Output;
  const SoftmaxGradient<shape> gradient(params, whole.sum, whole.not_zero);
  Output* const dx = row.template output<Output>(params);
  over_tiles<shape, config, true>(columns_of<shape>(params), part, row.all.end, [&](bool inside, int64 begin) {
    over_gradient_tile<Types, shape, config, config.load_again>(
        params, row, begin, inside && !ragged<shape>,
        [&](int64 column, Number<shape>(&dy)[shape.vector], Number<shape>(&y)[shape.vector]) {
          gradient.compute(dy, y);
          RowFeatures<shape>::Edges::template store<Output, shape.vector, config.store>(dx, column, row.all, inside, dy);
        });
  });
}

/// Runs both passes with one block per row.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_backward_two_pass(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    gradient_second_pass<Types, shape, config>(params, row, part,
                                               gradient_first_pass<Types, shape, config>(params, row, part));
  });
}

/// First kernel of several blocks per row: writes [rows][blocks_per_row] partial sums.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_backward_split_sums(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const GradientPart<Number<shape>> sum = gradient_first_pass<Types, shape, config>(params, row, part);
    if (thread_index() == 0)
      static_cast<GradientPart<Number<shape>>*>(params.workspace)[index * config.blocks_per_row + part] = sum;
  });
}

/// Second kernel of several blocks per row: reduces the partial sums and writes dx.
template <typename Types, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void softmax_backward_split(const RowParams& params) {
  over_parts<shape, config>(params, [&](int64 index, int part) {
    const Row<shape> row(params, index, static_cast<const typename Types::Input*>(nullptr));
    const auto* const parts =
        static_cast<const GradientPart<Number<shape>>*>(params.workspace) + index * config.blocks_per_row;
    GradientPart<Number<shape>> whole = {SumOfTwo<Number<shape>>::identity(), 0.0f, 0.0f};
    for (int i = thread_index(); i < config.blocks_per_row; i += config.threads) {
      whole.sum = SumOfTwo<Number<shape>>()(whole.sum, parts[i].sum);
      whole.not_zero = maximum(whole.not_zero, parts[i].not_zero);
    }
    gradient_second_pass<Types, shape, config>(params, row, part, combine_block<config.threads, shape>(whole));
  });
}

}  // namespace tunesmith
