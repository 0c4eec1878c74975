// The gradient of cross-entropy from the log-sum-exp that the forward operation left: element by element, one read and one
// write, whatever a row's length. Blocks take tiles of a row.
#pragma once

#include "cross_entropy/cross_entropy_tiled.cuh"

namespace tunesmith {

template <typename Types, typename TargetType, const RowShape& shape, const CrossEntropyOptions& options,
          const TiledConfig& config>
__device__ __forceinline__ void cross_entropy_backward(const CrossEntropyParams& params) {
  using Loss = RowLoss<typename Types::Input, shape, options>;
  using Gradient = CrossEntropyGradient<typename Types::Input, shape, options>;
  over_parts<shape, config>(params.row, [&](int64 index, int part) {
    const Row<shape> row(params.row, index, static_cast<const typename Types::Input*>(nullptr));
    const Target<TargetType> target(params, index, shape.cols);
    const float lse = params.lse_in[index];
    float sum_of_weights = static_cast<float>(params.vocab_size);
    if constexpr (options.weights && options.smoothing) sum_of_weights = scratch(params, params.totals)[1];
    const Loss loss(lse, weight_of<options>(params, target.column), sum_of_weights);
    const Gradient gradient(params, loss, index, target.counts());
    write_gradient<Types, TargetType, shape, options, config>(params, row, target, part, loss, gradient, [&](float logit) {
      Loss complete = loss;
      complete.set_target(logit, options.nll ? params.nll_in[index] : subtract(lse, logit));
      return Gradient(params, complete, index, target.counts()).target(logit);
    });
  });
}

}  // namespace tunesmith
