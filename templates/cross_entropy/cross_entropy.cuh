// Shared by all cross-entropy kernels: options, parameters, the target of a row, and the scaled and capped logits.
#pragma once

#include "cross_entropy/params.cuh"
#include "device/exponential.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Upstream gradient: none, one value for all rows, or one per row.
enum class Upstream { none, scalar, row };

/// Properties that the source is specialized for, in addition to RowShape.
struct CrossEntropyOptions {
  bool scaled = false;     ///< logits are multiplied by CrossEntropyParams::scale
  bool softcap = false;    ///< logits become softcap * tanh(logit / softcap), after the scale
  bool smoothing = false;  ///< label smoothing
  bool weights = false;    ///< class weights
  bool z_loss = false;
  bool lse_low = false;   ///< the forward operation writes what rounding lse lost, the backward operation reads it
  bool nll = false;       ///< the same for lse - logit of the target
  bool argmax = false;    ///< finds the class with the maximum logit
  bool gradient = false;  ///< writes dlogits
  bool shard = false;     ///< writes partials of a vocabulary shard instead of losses
  bool reduced = false;   ///< row losses go to the workspace for a reduction
  bool mean = false;      ///< gradients are divided by the sum of the target weights
  bool count_correct = false;
  bool check_targets = false;
  Upstream upstream = Upstream::none;
  bool mark_ignored = false;  ///< argmax of ignored rows is -1
  bool wide = false;          ///< logits, losses, weights and sums are double
};

/// The type of losses, weights and sums.
template <const CrossEntropyOptions& options>
using NumberOf = typename If<options.wide, double, float>::type;
template <const CrossEntropyOptions& options>
using ParamsOf = CrossEntropyParamsOf<NumberOf<options>>;

/// The mean has two divisors if the classes are weighted: the sum of the target weights, and for the z term, which is not
/// weighted, the number of rows.
template <const CrossEntropyOptions& options>
constexpr bool two_divisors = (options.mean && options.weights && options.z_loss);

/// The target of one row.
template <typename TargetType>
struct Target {
  int64 column;  ///< local column; -1 if the target is not in this shard
  bool ignored;
  bool bad;  ///< neither a class nor ignore_index

  __device__ __forceinline__ Target(const auto& params, int64 row, int64 cols) {
    const auto value = static_cast<int64>(static_cast<const TargetType*>(params.targets)[row]);
    ignored = value == params.ignore_index;
    const bool is_class = !ignored && static_cast<uint64>(value) < static_cast<uint64>(params.vocab_size);
    bad = !ignored && !is_class;
    const uint64 local = static_cast<uint64>(value) - static_cast<uint64>(params.vocab_start);
    column = is_class && local < static_cast<uint64>(cols) ? static_cast<int64>(local) : -1;
  }
  /// Returns whether the row has a loss.
  __device__ __forceinline__ bool counts() const { return !ignored && !bad; }
};

/// Returns tanh(x) within a few units in the last place.
__device__ __forceinline__ float tanh_of(float x) {
  const float size = x < 0.0f ? -x : x;
  if (size < 0.55f) {
    // Minimax polynomial x (1 + x^2 p(x^2)) with p of degree 4; its error is below 0.7 units in the last place.
    const float square = multiply(x, x);
    float p = fused_multiply_add(-0x1.9b14e4p-8f, square, 0x1.59370cp-6f);
    p = fused_multiply_add(p, square, -0x1.b9278cp-5f);
    p = fused_multiply_add(p, square, 0x1.110d1ep-3f);
    p = fused_multiply_add(p, square, -0x1.55554ap-2f);
    return fused_multiply_add(multiply(p, square), x, x);
  }
  const float power = exp2_approx(multiply(size, 2.885390082f));  // exp(2 |x|)
  const float result = size > 10.0f ? 1.0f : subtract(1.0f, divide(2.0f, add(power, 1.0f)));
  if (x != x) return x;
  return x < 0.0f ? -result : result;
}

/// Applies scale and soft cap to logits.
template <const CrossEntropyOptions& options>
struct LogitScale {
  NumberOf<options> scale, cap, inverse_cap;

  static constexpr bool plain = !options.scaled && !options.softcap;

  __device__ __forceinline__ explicit LogitScale(const ParamsOf<options>& params)
      : scale(params.scale), cap(params.softcap), inverse_cap(params.inverse_softcap) {}

  __device__ __forceinline__ auto operator()(NumberOf<options> logit) const {
    if constexpr (options.scaled) logit = multiply(logit, scale);
    if constexpr (options.softcap)  // masked logits stay -inf
      logit = logit == Maximum::identity() ? logit : multiply(cap, tanh_of(multiply(logit, inverse_cap)));
    return logit;
  }
  template <int count>
  __device__ __forceinline__ void apply(NumberOf<options> (&logits)[count]) const {
    if constexpr (!plain) {
#pragma unroll
      for (int j = 0; j < count; ++j) logits[j] = (*this)(logits[j]);
    }
  }
  /// Returns the derivative at a logit; `logit` is a result of operator().
  __device__ __forceinline__ auto slope(NumberOf<options> logit) const {
    NumberOf<options> factor = options.scaled ? scale : 1.0f;
    if constexpr (options.softcap) {
      const auto share = multiply(logit, inverse_cap);
      const auto rest = multiply(subtract(NumberOf<options>(1), share), add(NumberOf<options>(1), share));
      factor = logit == Maximum::identity() ? 0.0f : multiply(factor, rest);
    }
    return factor;
  }
};

/// Returns the weight of a class; 1 without class weights.
template <const CrossEntropyOptions& options>
__device__ __forceinline__ NumberOf<options> weight_of(const ParamsOf<options>& params, int64 column) {
  return options.weights && column >= 0 ? params.weight[column] : 1.0f;
}

/// Loads the class weights of a vector; 0 for columns that do not exist. `column` counts from the row's shift.
template <const RowShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void weights_of(const ParamsOf<options>& params, const Row<shape>& row, int64 column,
                                           NumberOf<options> (&weights)[shape.vector]) {
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) {
    const bool exists = row.all.template holds<1>(column + j);
    weights[j] = !exists ? 0.0f : (options.weights ? params.weight[column + j - row.shift] : 1.0f);
  }
}

/// Returns the address of a scratch array in the workspace.
template <typename Number>
__device__ __forceinline__ Number* scratch(const CrossEntropyParamsOf<Number>& params, int64 offset) {
  return reinterpret_cast<Number*>(static_cast<char*>(params.row.workspace) + offset);
}

}  // namespace tunesmith
