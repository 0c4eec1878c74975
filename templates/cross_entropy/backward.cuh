// Gradient of cross-entropy from the forward operation's lse: elementwise, one read and one write for any row length. Each
// block processes one tile of a row.
#pragma once

#include "cross_entropy/lse_gradient.cuh"
#include "cross_entropy/reduction.cuh"
#include "cross_entropy/running.cuh"
#include "row/schedules/tiles.cuh"

namespace tunesmith {

/// Computes the gradient of one tile. `inside`: the tile lies within the row, so no bounds checks are needed.
template <bool inside, typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config, typename Params>
__device__ __forceinline__ void cross_entropy_backward_tile(const Params& params, const Row<shape>& row, int64 index,
                                                            int64 begin) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Gradient = CrossEntropyGradient<shape, options>;
  using Number = NumberOf<options>;
  constexpr int vector = shape.vector;

  // Issue the tile's loads first, then the row's scalars; use any of them only after all are in flight.
  Packed<Input, vector> tile[config.unroll];
  load_tile<Input, shape, config, config.load>(row.template input<Input>(params.row, 0), begin, row.all, inside,
                                               Maximum::identity(), tile);
  const GradientScale<options> upstream(params, index);
  const LseIn<options> lse(params, index);
  const LseGradient<Params> through_lse(params, index);
  const Target<TargetType> target(params, index, columns_of<shape>(params.row));
  Number sum_of_weights = static_cast<Number>(params.vocab_size);
  if constexpr (options.weights && options.smoothing) sum_of_weights = scratch(params, params.totals)[1];
  RowLoss<options> loss(lse, weight_of<options>(params, target.column), sum_of_weights);
  const LogitScale<options> scale(params);
  Gradient gradient(params, loss, upstream, target.counts());
  if constexpr (LseGradient<Params>::present) through_lse.add_to(gradient, loss, target.counts());

  Output* const dlogits = row.template output<Output>(params.row);
  const int64 position = target.column >= 0 ? target.column + row.shift : -1;
  const bool in_tile = begin <= position && position < begin + tile_elements<shape, config>;
  const int at = in_tile ? static_cast<int>(position - begin) : -1;
  const bool holds_target = in_tile && at / vector % config.threads == thread_index();
  Number target_logit = 0.0f;
  if (holds_target) {
#pragma unroll
    for (int i = 0; i < config.unroll; ++i) {
      Number values[vector];
      tile[i].unpack(values);
#pragma unroll
      for (int j = 0; j < vector; ++j)
        target_logit = at == (i * config.threads + thread_index()) * vector + j ? values[j] : target_logit;
    }
  }
#pragma unroll
  for (int i = 0; i < config.unroll; ++i) {
    const int64 column = begin + (i * config.threads + thread_index()) * vector;
    Number values[vector];
    tile[i].unpack(values);
    gradient_of_logits(params, row, scale, loss, gradient, column, values);
    // Write zeros whatever the logits are. Select instead of branch: the compiler would move the loads after the branch.
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      if constexpr (LseGradient<Params>::present)
        values[j] = through_lse.reaches(target.counts()) ? values[j] : 0.0f;
      else
        values[j] = target.counts() ? values[j] : 0.0f;
    }
    RowFeatures<shape>::Edges::template store<Output, vector, config.store>(dlogits, column, row.all, inside, values);
  }
  if (!holds_target) return;
  // The same thread stores the vector that contains the target, so this store comes after it.
  target_logit = scale(target_logit);
  loss.set_target(target_logit, lse.nll(params, index, target_logit));
  if constexpr (LseGradient<Params>::present)
    store_element(dlogits + position,
                  through_lse.of_target(Gradient(params, loss, upstream, target.counts()), loss, target_logit));
  else
    store_element(dlogits + position, Gradient(params, loss, upstream, target.counts()).target(target_logit));
}

template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config, typename Params>
__device__ __forceinline__ void cross_entropy_backward(const Params& params) {
  constexpr int64 length = tile_elements<shape, config>;
  const int64 index = block_index() / config.blocks_per_row;
  if (index >= params.row.rows) return;
  const int64 begin = block_index() % config.blocks_per_row * length;
  const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
  // Instantiate twice, so that the common case has no branches around its accesses.
  constexpr bool all_inside = !shape.shifted && shape.min_cols == 0 && shape.cols % length == 0;
  if (all_inside || (begin >= row.all.begin && begin + length <= row.all.end))
    cross_entropy_backward_tile<true, Types, TargetType, shape, options, config>(params, row, index, begin);
  else if constexpr (!all_inside)
    cross_entropy_backward_tile<false, Types, TargetType, shape, options, config>(params, row, index, begin);
}

}  // namespace tunesmith
