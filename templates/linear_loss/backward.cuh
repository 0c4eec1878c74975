// The gradient of the logits of a linear layer, from their lse: a matrix product whose epilogue computes it. For losses and
// entropies of tokens whose upstream gradients are known after the forward pass.
//
//   p = exp(x - lse)
//   dlogits[t,v] = x'[t,v] (p (dloss (1 + 2 z_loss lse) + dlse - dentropy (x - lse + entropy)) - [v is the target] dloss)
//
// with x = softcap(scale * hidden weight^T) and its derivative x'. Then dhidden = dlogits weight and dweight = dlogits^T
// hidden.
#pragma once

#include "linear_loss/linear_loss.cuh"

namespace tunesmith {

struct LinearLossBackwardShape {
  bool dlse, dentropy;
  Upstream upstream;
};

/// The epilogue of the product: see LinearEpilogue.
template <typename TargetType, const LinearLossBackwardShape& shape, const CrossEntropyOptions& options>
class LogitGradientEpilogue {
 public:
  using Params = LinearLossBackwardParams;
  static constexpr bool writes = true, has_plain_rows = true;
  struct Row {
    float lse;
    float of_share;   ///< coefficient of p
    float of_target;  ///< dloss, or 0 without a target
    float dentropy;
    int target;   ///< columns from the thread's first one
    int columns;  ///< that exist, from the thread's first one
  };

  __device__ __forceinline__ explicit LogitGradientEpilogue(const LinearLossBackwardParams& params)
      : params_(params), scale_(params) {}

  __device__ __forceinline__ static bool skips_all() { return false; }
  __device__ __forceinline__ static bool skips(int, int) { return false; }

  /// Without the target, and with a gradient.
  __device__ __forceinline__ static bool is_plain(const Row& state, int columns) {
    return state.of_share != 0.0f && columns <= state.columns && (state.target < 0 || state.target >= columns);
  }

  __device__ __forceinline__ Row row(int row, int column) const {
    Row state = {};
    state.target = -1;
    state.columns = params_.matmul.product.n - column;
    if (row >= params_.matmul.product.m) return state;
    const Target<TargetType> target(params_, row, params_.vocab_size);
    state.lse = params_.lse[row];
    if (target.counts()) {
      state.target = static_cast<int>(target.column) - column;
      state.of_target = shape.upstream == Upstream::none ? 1.0f : params_.dloss[shape.upstream == Upstream::row ? row : 0];
    }
    state.of_share = state.of_target;
    if constexpr (options.z_loss)
      state.of_share =
          fused_multiply_add(multiply(multiply(2.0f, params_.z_factor), state.lse), state.of_target, state.of_share);
    if constexpr (shape.dlse) state.of_share = add(state.of_share, params_.dlse[row]);
    if constexpr (shape.dentropy) {
      state.dentropy = params_.dentropy[row];
      state.of_share = fused_multiply_add(-state.dentropy, params_.entropy[row], state.of_share);
    }
    return state;
  }

  template <bool plain>
  __device__ __forceinline__ float value(float sum, const Row& state, int offset) const {
    const float logit = scale_(sum), distance = subtract(logit, state.lse);
    const float share = exp2_approx(multiply(distance, ExponentScale().high));
    float factor = state.of_share;
    if constexpr (shape.dentropy) factor = share == 0.0f ? 0.0f : fused_multiply_add(-state.dentropy, distance, factor);
    // Where no gradient arrives, logits that are not finite do not matter.
    const bool none = (shape.dentropy || !plain) && factor == 0.0f;
    float gradient = none || (!plain && offset >= state.columns) ? 0.0f : multiply(share, factor);
    if (!plain && offset == state.target) gradient = subtract(gradient, state.of_target);
    if constexpr (!LogitScale<options>::plain) gradient = gradient == 0.0f ? 0.0f : multiply(gradient, scale_.slope(logit));
    return gradient;
  }

  template <int lanes>
  __device__ __forceinline__ static void end(const Row&, int) {}

 private:
  const LinearLossBackwardParams& params_;
  const LinearLossScale<options> scale_;
};

}  // namespace tunesmith
