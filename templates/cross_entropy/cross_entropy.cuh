// What every kernel of cross-entropy works with: its options and parameters, the target of a row, and logits as the loss
// sees them.
#pragma once

#include "device/exponential.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// An upstream gradient: none, one for all rows, or one for each.
enum class Upstream { none, scalar, row };

/// Facts that the source is specialized for, next to those of the rows.
struct CrossEntropyOptions {
  bool scaled = false;     ///< logits are multiplied with CrossEntropyParams::scale
  bool softcap = false;    ///< then softcap * tanh(logit / softcap)
  bool smoothing = false;  ///< label smoothing
  bool weights = false;    ///< of classes
  bool z_loss = false;
  bool nll = false;       ///< lse - logit of the target is written, or read by the backward operation
  bool argmax = false;    ///< the class with the largest logit is looked for
  bool gradient = false;  ///< dlogits are written
  bool shard = false;     ///< of the vocabulary: a row's part is written instead of its loss
  bool reduced = false;   ///< losses of rows go to the workspace, to be summed up
  bool mean = false;      ///< gradients are divided by the rows' weights
  bool count_correct = false;
  bool check_targets = false;
  Upstream upstream = Upstream::none;
};

/// The mean has two divisors: the weights of the targets, and the number of rows for the z term, which has no weight.
template <const CrossEntropyOptions& options>
constexpr bool two_divisors = (options.mean && options.weights && options.z_loss);

/// The kernels' only argument. Logits are row.input[0], dlogits row.output.
struct CrossEntropyParams {
  RowParams row;
  const void* targets;
  const float* weight;    ///< [cols]
  const float* upstream;  ///< dloss: [1] or [rows]
  const float* lse_in;    ///< backward: [rows]
  const float* nll_in;    ///< backward: [rows]
  float* loss;            ///< [rows], or [1]
  float* lse;             ///< [rows]
  float* z_loss;          ///< as loss
  float* nll;             ///< [rows]
  void* argmax;           ///< [rows], of the targets' type
  float* shard_partials;  ///< of shards: [shards][rows][8]
  int64* num_correct;     ///< [1]
  int64* bad_targets;     ///< [2]
  /// Where in the workspace: one float a row each, and partial and final totals.
  int64 row_losses, row_z_losses, row_weights, row_correct, partial_totals, totals;  // bytes
  int64 partials;  ///< blocks that leave partial totals; 0: none
  int64 ignore_index;
  int64 vocab_start, vocab_size;
  int64 shards;
  float scale, softcap, inverse_softcap;
  float hard_share;    ///< 1 - label smoothing
  float smooth_share;  ///< label smoothing / vocab_size
  float z_factor;
  float reserved[2];
};

/// The target of a row.
template <typename TargetType>
struct Target {
  int64 column;  ///< among the columns at hand; -1 when it is none of them
  bool ignored;
  bool bad;  ///< neither a class nor ignored

  __device__ __forceinline__ Target(const CrossEntropyParams& params, int64 row, int64 cols) {
    const auto value = static_cast<int64>(static_cast<const TargetType*>(params.targets)[row]);
    ignored = value == params.ignore_index;
    const bool is_class = !ignored && value >= 0 && value < params.vocab_size;
    bad = !ignored && !is_class;
    const int64 local = is_class ? value - params.vocab_start : -1;
    column = local >= 0 && local < cols ? local : -1;
  }
  /// The row has a loss.
  __device__ __forceinline__ bool counts() const { return !ignored && !bad; }
};

/// tanh(x) within a few units in the last place.
__device__ __forceinline__ float tanh_of(float x) {
  const float size = x < 0.0f ? -x : x;
  if (size < 0.55f) {
    // x (1 + x^2 p(x^2)), p of degree 4 fitted for the least largest relative error: 0.7 units in the last place.
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

/// Logits as the loss sees them.
template <const CrossEntropyOptions& options>
struct LogitScale {
  float scale, cap, inverse_cap;

  static constexpr bool plain = !options.scaled && !options.softcap;

  __device__ __forceinline__ explicit LogitScale(const CrossEntropyParams& params)
      : scale(params.scale), cap(params.softcap), inverse_cap(params.inverse_softcap) {}

  __device__ __forceinline__ float operator()(float logit) const {
    if constexpr (options.scaled) logit = multiply(logit, scale);
    if constexpr (options.softcap)  // what was masked out stays so
      logit = logit == Maximum::identity() ? logit : multiply(cap, tanh_of(multiply(logit, inverse_cap)));
    return logit;
  }
  template <int count>
  __device__ __forceinline__ void apply(float (&logits)[count]) const {
    if constexpr (!plain) {
#pragma unroll
      for (int j = 0; j < count; ++j) logits[j] = (*this)(logits[j]);
    }
  }
  /// The derivative at a logit, given as operator() made it.
  __device__ __forceinline__ float slope(float logit) const {
    float factor = options.scaled ? scale : 1.0f;
    if constexpr (options.softcap) {
      const float share = multiply(logit, inverse_cap);
      const float rest = multiply(subtract(1.0f, share), add(1.0f, share));
      factor = logit == Maximum::identity() ? 0.0f : multiply(factor, rest);
    }
    return factor;
  }
};

/// The weight of a class; 1 without weights.
template <const CrossEntropyOptions& options>
__device__ __forceinline__ float weight_of(const CrossEntropyParams& params, int64 column) {
  return options.weights && column >= 0 ? params.weight[column] : 1.0f;
}

/// Weights of the classes of a vector; 0 for columns that do not exist. `column` counts from the row's shift.
template <const RowShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void weights_of(const CrossEntropyParams& params, const Row<shape>& row, int64 column,
                                           float (&weights)[shape.vector]) {
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) {
    const bool exists = row.all.template holds<1>(column + j);
    weights[j] = !exists ? 0.0f : (options.weights ? params.weight[column + j - row.shift] : 1.0f);
  }
}

/// A row's scratch in the workspace.
__device__ __forceinline__ float* scratch(const CrossEntropyParams& params, int64 offset) {
  return reinterpret_cast<float*>(static_cast<char*>(params.row.workspace) + offset);
}

}  // namespace tunesmith
