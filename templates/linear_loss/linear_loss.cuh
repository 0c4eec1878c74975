// The loss of a linear layer's outputs, which are never stored: a matrix product whose epilogue writes exponentials.
//
//   start      c[t] = logit of t's target + 32, one dot product per token; stored as a binary logarithm, c log2(e)
//   product    E[t,v] = exp(logit[t,v] - c[t]) in 16 bits; for each tile, the sum of E without the target's, in float32 and
//              before rounding, and the largest logit
//   finish     S = the sum of all E;  lse = c + log S;  loss = lse - logit of the target [+ z_loss lse^2]
//              E[t,target] = -(S - E[t,target]);  row_factors[t] = g / S;  scaled_hidden = row_factors hidden
//
// The gradient of the logits is row_factors[t] E[t,v], so that
//
//   dhidden = row_factors (E weight),   dweight = E^T scaled_hidden
//
// take no pass over the logits. With bfloat16's range, any origin c within 80 of the maximum serves. The loss of a target
// whose logit is farther below the maximum overflows the sum: `repeat` and `finish_again` then compute its group of tokens
// again with the maximum as the origin, and end at once if there are none.
//
// References: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models", 2024 (no stored logits); Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include "cross_entropy/cross_entropy.cuh"
#include "device/group.cuh"
#include "device/logarithm.cuh"
#include "device/vector.cuh"
#include "linear_loss/params.cuh"

namespace tunesmith {

/// The options of the loss that count are scaled, softcap and z_loss.
struct LinearLossShape {
  int vector;     ///< elements of hidden and weight that a thread loads at once
  bool gradient;  ///< writes E, row_factors and scaled_hidden
  bool nll, entropy;
  Upstream upstream;
};

constexpr int linear_loss_threads = 256;
/// How far a target's logit lies below the origin: exponentials of logits from 55 below the target to 95 above it are in
/// range.
constexpr float linear_loss_headroom = 32.0f;
/// A larger sum says that exponentials may have overflowed, or will in the products with weight and hidden.
constexpr float linear_loss_max_sum = 0x1p+92f;

template <typename T>
__device__ __forceinline__ T* linear_loss_array(const LinearLossParams& params, int64 at) {
  return reinterpret_cast<T*>(params.workspace + at);
}

/// Scale and soft cap of the logits. Without a branch: softcap has an absolute error of softcap 2^-22, as for logits of its
/// size.
template <const CrossEntropyOptions& options>
struct LinearLossScale : LogitScale<options> {
  __device__ __forceinline__ explicit LinearLossScale(const auto& params) : LogitScale<options>(scales_of(params)) {}

  __device__ __forceinline__ float operator()(float logit) const {
    if constexpr (options.scaled) logit = multiply(logit, this->scale);
    if constexpr (options.softcap) {  // tanh(x) = 1 - 2 / (exp(2 x) + 1)
      const float power = exp2_approx(multiply(multiply(logit, this->inverse_cap), 2.885390082f));
      logit = multiply(this->cap, fused_multiply_add(-2.0f, reciprocal_approx(add(power, 1.0f)), 1.0f));
    }
    return logit;
  }

  /// Not negative, as rounding makes the slope at the cap: the order of bits is that of numbers that are not.
  __device__ __forceinline__ float slope(float logit) const {
    const float slope = LogitScale<options>::slope(logit);
    return options.softcap && slope < 0.0f ? 0.0f : slope;
  }

 private:
  __device__ __forceinline__ static CrossEntropyParams scales_of(const auto& params) {
    CrossEntropyParams scales = {};
    scales.scale = params.scale;
    scales.softcap = params.softcap;
    scales.inverse_softcap = params.inverse_softcap;
    return scales;
  }
};

/// The epilogue of the product: see LinearEpilogue. `again`: only groups that finish has marked.
template <typename TargetType, const LinearLossShape& shape, const CrossEntropyOptions& options, bool again>
class ExponentialEpilogue {
 public:
  using Params = LinearLossParams;
  static constexpr bool writes = shape.gradient, has_plain_rows = true;
  struct Row {
    float origin;  ///< binary logarithm
    float limit;   ///< of E: keeps it finite, and 0 for tokens without a gradient
    float sum, largest;
    float target_logit;  ///< -inf until it is found
    float weighted;      ///< sum of exponentials times their binary logarithms, with entropy
    int target;          ///< columns from the thread's first one
    int columns;         ///< that exist, from the thread's first one
    int row;
  };

  __device__ __forceinline__ explicit ExponentialEpilogue(const LinearLossParams& params)
      : params_(params), scale_(params) {}

  __device__ __forceinline__ bool skips_all() const {
    return again && linear_loss_array<int>(params_, params_.repeats_at)[params_.groups] == 0;
  }
  __device__ __forceinline__ bool skips(int row, int) const {
    if constexpr (!again) return false;
    return linear_loss_array<int>(params_, params_.repeats_at)[row / params_.group_rows] == 0;
  }

  __device__ __forceinline__ Row row(int row, int column) const {
    Row state = {0.0f, 0.0f, 0.0f, Maximum::identity(), Maximum::identity(), 0.0f, -1, params_.matmul.product.n - column,
                 row};
    if (row >= params_.matmul.product.m) return state;
    const Target<TargetType> target(params_, row, params_.vocab_size);
    state.origin = linear_loss_array<float>(params_, params_.origins_at)[row];
    state.limit = target.counts() ? 0x1.fep+127f : 0.0f;
    if (target.column >= 0) state.target = static_cast<int>(target.column) - column;
    return state;
  }

  /// Without the target, of a token with a gradient. Exponentials that overflow are computed again with another origin, so
  /// that they need no limit.
  __device__ __forceinline__ static bool is_plain(const Row& state, int columns) {
    return state.limit > 0.0f && columns <= state.columns && (state.target < 0 || state.target >= columns);
  }

  template <bool plain>
  __device__ __forceinline__ float value(float sum, Row& state, int offset) const {
    const bool exists = plain || offset < state.columns;
    const float logit = exists ? scale_(sum) : Maximum::identity();
    const float distance = fused_multiply_add(logit, ExponentScale().high, -state.origin);
    float exponential = exp2_approx(distance);
    if constexpr (shape.entropy)
      if (exponential != 0.0f) state.weighted = fused_multiply_add(exponential, distance, state.weighted);
    state.largest = maximum(state.largest, logit);
    if (!plain && offset == state.target)
      state.target_logit = logit;
    else
      state.sum = add(state.sum, exponential);
    if constexpr (writes && !LogitScale<options>::plain) exponential = multiply(exponential, scale_.slope(logit));
    if constexpr (plain) return exponential;
    // Numbers that are not negative have the order of their bits, and NaN is above them.
    const uint32 bits = bits_of(exponential), limit = bits_of(state.limit);
    return float_of(bits < limit ? bits : limit);
  }

  template <int lanes>
  __device__ __forceinline__ void end(const Row& state, int tile) const {
    const float sum = reduce_lanes<lanes>(state.sum, Sum()), largest = reduce_lanes<lanes>(state.largest, LargerNumber());
    const float target_logit = reduce_lanes<lanes>(state.target_logit, Maximum());  // NaN stays: the sums do not have it
    const float weighted = shape.entropy ? reduce_lanes<lanes>(state.weighted, Sum()) : 0.0f;
    if (lane_index() % lanes != 0 || state.row >= params_.matmul.product.m || tile >= params_.tiles) return;
    if (state.target >= 0 && state.target < params_.tile_columns)  // columns from the tile's first one: the lane's, too
      linear_loss_array<float>(params_, params_.target_logits_at)[state.row] = target_logit;
    const int64 at = int64{state.row} * params_.tiles + tile;
    linear_loss_array<LinearLossPartial>(params_, params_.partials_at)[at] = {sum, largest};
    if constexpr (shape.entropy) linear_loss_array<float>(params_, params_.weighted_at)[at] = weighted;
  }

 private:
  /// The maximum of numbers that may be NaN, which the sums have, too.
  struct LargerNumber {
    __device__ __forceinline__ float operator()(float a, float b) const { return maximum(a, b); }
  };

  const LinearLossParams& params_;
  const LinearLossScale<options> scale_;
};

/// Computes the origins: a warp per token.
template <typename Element, typename TargetType, const LinearLossShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void linear_loss_start(const LinearLossParams& params) {
  const MatmulParams& product = params.matmul.product;
  constexpr int warps = linear_loss_threads / 32, vector = shape.vector;
  const int64 row = block_index() * warps + warp_index();
  const int64 thread = block_index() * linear_loss_threads + thread_index();
  if (thread <= params.groups) linear_loss_array<int>(params, params.repeats_at)[thread] = 0;
  if (row >= product.m) return;
  const Target<TargetType> target(params, row, params.vocab_size);
  // Any class serves a token without a target, whose lse is computed.
  const int64 column = target.column >= 0 ? target.column : 0;
  const Element* const hidden = static_cast<const Element*>(product.a) + row * product.a_row_stride;
  const Element* const weight = static_cast<const Element*>(product.b) + column * product.b_row_stride;
  float sum = 0.0f;
  for (int k = lane_index() * vector; k < product.k; k += 32 * vector) {
    float x[vector], w[vector];
    load_whole<Element, vector, LoadHint::plain>(hidden, k).unpack(x);
    load_whole<Element, vector, LoadHint::plain>(weight, k).unpack(w);
#pragma unroll
    for (int j = 0; j < vector; ++j) sum = fused_multiply_add(x[j], w[j], sum);
  }
  sum = reduce_lanes<32>(sum, Sum());
  if (lane_index() == 0) {
    const float logit = LinearLossScale<options>(params)(sum);
    linear_loss_array<float>(params, params.origins_at)[row] =
        multiply(add(logit, linear_loss_headroom), ExponentScale().high);
  }
}

/// Computes losses and what the products need: a block per token. `again`: only for groups whose product was repeated.
template <typename Element, typename TargetType, const LinearLossShape& shape, const CrossEntropyOptions& options,
          bool again>
__device__ __forceinline__ void linear_loss_finish(const LinearLossParams& params) {
  const MatmulParams& product = params.matmul.product;
  const int64 row = block_index();
  if (row >= product.m) return;
  int* const repeats = &linear_loss_array<int>(params, params.repeats_at)[row / params.group_rows];
  if constexpr (again)
    if (*repeats == 0) return;

  const auto* const partials = linear_loss_array<LinearLossPartial>(params, params.partials_at) + row * params.tiles;
  FloatPair rest_of_sum = {}, all_weighted = {};
  float largest = Maximum::identity();
  for (int tile = thread_index(); tile < params.tiles; tile += linear_loss_threads) {
    const LinearLossPartial partial = partials[tile];
    rest_of_sum = SumOfTwoFloats()(rest_of_sum, {partial.sum, 0.0f});
    largest = maximum_or_nan(largest, partial.largest);
    if constexpr (shape.entropy)
      all_weighted = SumOfTwoFloats()(
          all_weighted, {linear_loss_array<float>(params, params.weighted_at)[row * params.tiles + tile], 0.0f});
  }
  BlockGroup<linear_loss_threads> group(nullptr, 0);
  const float rest = rounded(group.template reduce<0>(rest_of_sum, SumOfTwoFloats()));
  largest = group.template reduce<1>(largest, Maximum());
  const float weighted = shape.entropy ? rounded(group.template reduce<2>(all_weighted, SumOfTwoFloats())) : 0.0f;

  const Target<TargetType> target(params, row, params.vocab_size);
  float* const origin_of_row = linear_loss_array<float>(params, params.origins_at) + row;
  const float origin = *origin_of_row;
  const float target_logit =
      target.column >= 0 ? linear_loss_array<float>(params, params.target_logits_at)[row] : Maximum::identity();
  const float of_target = exp2_approx(fused_multiply_add(target_logit, ExponentScale().high, -origin));
  const float sum = add(rest, of_target);
  if constexpr (!again) {
    if (!(sum < linear_loss_max_sum)) {  // or NaN
      sync_block();                      // all threads have read the origin
      if (thread_index() == 0) {
        *origin_of_row = multiply(largest, ExponentScale().high);
        *repeats = linear_loss_array<int>(params, params.repeats_at)[params.groups] = 1;
      }
      return;
    }
  }

  const float log_sum =
      sum < 0.5f ? -log_of_one_plus(subtract(divide(1.0f, sum), 1.0f)) : log_of_one_plus(subtract(sum, 1.0f));
  // The origin in two floats: origin ln(2).
  const float high = multiply(origin, 0x1.62e43p-1f), low = multiply(origin, -0x1.05c61p-29f);
  const float lost = fused_multiply_add(origin, 0x1.62e43p-1f, -high);
  const float lse = add(high, add(log_sum, add(low, lost)));
  // Without cancellation if the target has most of the sum.
  const float nll = rest < of_target ? log_of_one_plus(divide(rest, of_target))
                                     : add(subtract(high, target_logit), add(log_sum, add(low, lost)));
  const float z_loss = options.z_loss ? multiply(params.z_factor, multiply(lse, lse)) : 0.0f;
  const auto of_loss = [&](float value) { return target.ignored ? 0.0f : target.bad ? float_of(nan_bits) : value; };
  if (thread_index() == 0) {
    params.loss[row] = of_loss(add(nll, z_loss));
    params.lse[row] = lse;
    if constexpr (shape.entropy) params.entropy[row] = subtract(log_sum, multiply(divide(weighted, sum), 0x1.62e43p-1f));
    if constexpr (options.z_loss) params.z_loss[row] = of_loss(z_loss);
    if constexpr (shape.nll) params.nll[row] = of_loss(nll);
  }
  if constexpr (!shape.gradient) return;

  const float upstream = shape.upstream == Upstream::none ? 1.0f : params.dloss[shape.upstream == Upstream::row ? row : 0];
  // The gradient of a logit is upstream (slope p - [is target]), with slope = 1 + 2 z_loss lse.
  const float of_z_loss = options.z_loss ? multiply(multiply(2.0f, params.z_factor), lse) : 0.0f;
  const float slope = add(1.0f, of_z_loss);
  // E of the target then is sum (p - 1 / slope). A slope near 0 would make that overflow; at 2^-60, the others vanish.
  const float safe_slope = slope < 0x1p-60f && slope > -0x1p-60f ? 0x1p-60f : slope;
  const float factor = target.counts() ? multiply(upstream, divide(safe_slope, sum)) : 0.0f;
  if (thread_index() == 0) {
    params.row_factors[row] = factor;
    if (target.counts()) {
      float of_class = -rest;
      if constexpr (options.z_loss)
        of_class = fused_multiply_add(sum, divide(of_z_loss, safe_slope), of_class);  // slope - 1 has lost it if it is small
      if constexpr (!LogitScale<options>::plain)
        of_class = multiply(of_class, LinearLossScale<options>(params).slope(target_logit));
      static_cast<Element*>(product.c)[row * product.c_row_stride + target.column] = from_float<Element>(of_class);
    }
  }
  constexpr int vector = shape.vector;
  const Element* const hidden = static_cast<const Element*>(product.a) + row * product.a_row_stride;
  Element* const scaled = static_cast<Element*>(params.scaled_hidden) + row * product.k;
  for (int k = thread_index() * vector; k < product.k; k += linear_loss_threads * vector) {
    float values[vector];
    load_whole<Element, vector, LoadHint::plain>(hidden, k).unpack(values);
#pragma unroll
    for (int j = 0; j < vector; ++j) values[j] = factor == 0.0f ? 0.0f : multiply(values[j], factor);
    store_whole<Element, vector, StoreHint::plain>(scaled, k, values);
  }
}

}  // namespace tunesmith
