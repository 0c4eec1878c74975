// Gradient of cross-entropy over a strided dimension, from the forward operation's lse: elementwise, one read and one write.
// Each block processes some columns of a tile of positions.
#pragma once

#include "cross_entropy/lse_gradient.cuh"
#include "cross_entropy/reduction.cuh"
#include "cross_entropy/strided_logits.cuh"

namespace tunesmith {

template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const StridedConfig& config, typename Params>
__device__ __forceinline__ void cross_entropy_backward_strided(const StridedLogits<Params>& params) {
  using Input = typename Types::Input;
  using Output = typename Types::Output;
  using Gradient = CrossEntropyGradient<shape, options>;
  using Number = NumberOf<options>;
  constexpr int vector = config.vector, columns = config.columns;

  // Issue the loads of logits first; use any of them only after the positions' scalars are in flight.
  const StridedPlace<shape, config> place(params.strided);
  const Input* const logits = place.template input<Input>(params.strided, 0);
  Packed<Input, vector> tile[columns];
#pragma unroll
  for (int i = 0; i < columns; ++i)
    tile[i] = place.template load<config.load>(logits, params.strided.first_cols,
                                               place.begin + place.member + i * members<config>, Maximum::identity());
  const StridedTargets<TargetType, shape, config> targets(params, place);
  const LogitScale<options> scale(params);
  const Row<shape> row = columns_before<shape>(params.row, place.end);
  Number sum_of_weights = static_cast<Number>(params.vocab_size);
  if constexpr (options.weights && options.smoothing) sum_of_weights = scratch(params, params.totals)[1];

  Later<RowLoss<options>> losses[vector];
  Later<Gradient> gradients[vector];
  Number of_target[vector];
  bool reaches[vector];
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    const int64 position = targets.first + j;
    const Target<TargetType>& target = targets.of[j].value;
    const GradientScale<options> upstream(params, position);
    const LseIn<options> lse(params, position);
    const LseGradient<Params> through_lse(params, position);
    RowLoss<options>& loss = losses[j].value;
    loss = RowLoss<options>(lse, weight_of<options>(params, target.column), sum_of_weights);
    gradients[j].value = Gradient(params, loss, upstream, target.counts());
    reaches[j] = target.counts();
    if constexpr (LseGradient<Params>::present) {
      through_lse.add_to(gradients[j].value, loss, target.counts());
      reaches[j] = through_lse.reaches(target.counts());
    }
    of_target[j] = 0.0f;
    if (targets.own[j] < 0) continue;
    Number target_logit = 0.0f;
#pragma unroll
    for (int i = 0; i < columns; ++i) {
      Number values[vector];
      tile[i].unpack(values);
      target_logit = targets.own[j] == i ? values[j] : target_logit;
    }
    target_logit = scale(target_logit);
    RowLoss<options> with_target = loss;
    with_target.set_target(target_logit, lse.nll(params, position, target_logit));
    const Gradient gradient(params, with_target, upstream, target.counts());
    if constexpr (LseGradient<Params>::present)
      of_target[j] = through_lse.of_target(gradient, with_target, target_logit);
    else
      of_target[j] = gradient.target(target_logit);
  }
  Output* const dlogits = place.template output<Output>(params.strided);
#pragma unroll
  for (int i = 0; i < columns; ++i) {
    const int64 column = place.begin + place.member + i * members<config>;
    Number values[vector];
    tile[i].unpack(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) {
      Number one[1] = {values[j]};
      gradient_of_logits(params, row, scale, losses[j].value, gradients[j].value, column, one);
      one[0] = targets.own[j] == i ? of_target[j] : one[0];
      values[j] = reaches[j] ? one[0] : 0.0f;  // whatever the logits are
    }
    place.store(dlogits, params.strided.output_cols, column, values);
  }
}

}  // namespace tunesmith
