// Running sums over a row's logits without the target's, and the row's loss and gradient from them.
//
// The target is excluded for confident rows: with p near 1, loss = log(1 + rest) and p - 1 = -rest / sum, where `rest` is
// the sum without the target's exponential. Including it would lose the digits of `rest`.
#pragma once

#include "cross_entropy/cross_entropy.cuh"
#include "device/dependent_launch.cuh"
#include "device/logarithm.cuh"

namespace tunesmith {

/// Computes exp(logit - largest) with one multiplication and ex2.approx, accurate to about 2^-20, which a loss needs. The
/// rounding error of the shift is a common factor of the row and cancels.
///
/// For maxima of 2^28 or more that factor could overflow. Neighbouring floats are 32 apart there, so smaller logits are
/// negligible; log2(e) is replaced by a power of two, which makes the maximum's exponential exactly 1.
struct LogitExponential {
  static constexpr float log2e = 1.44269504088896340736f;

  float multiplier, shift;

  __device__ __forceinline__ explicit LogitExponential(float largest) {
    const uint32 exponent = bits_of(largest) >> 23 & 0xffu;
    const bool huge = exponent >= 127 + 28;
    multiplier = huge ? float_of((127u + 127u + 29u - exponent) << 23) : log2e;
    shift = -multiply(largest, multiplier);
  }

  __device__ __forceinline__ float operator()(float logit) const {
    return exp2_approx(fused_multiply_add(logit, multiplier, shift));
  }
  /// 1 / (*this)(logit)
  __device__ __forceinline__ float reciprocal(float logit) const {
    return exp2_approx(-fused_multiply_add(logit, multiplier, shift));
  }
  /// Returns the factor that makes a sum relative to `other`'s maximum, which must not be smaller.
  __device__ __forceinline__ float rescale_to(const LogitExponential& other) const {
    return multiplier == other.multiplier ? exp2_approx(subtract(other.shift, shift)) : 0.0f;
  }
};

struct DoubleLogitExponential;
template <const CrossEntropyOptions& options>
using ExponentialOf = typename If<options.wide, DoubleLogitExponential, LogitExponential>::type;

/// Partial of a row slice; the sums exclude the target.
template <typename Number, bool smoothing, bool argmax>
struct CrossEntropyPartial {
  Number largest;            ///< maximum logit; includes the target's if known
  Number sum_excluding_max;  ///< sum of exponentials relative to it
  Number below;              ///< smoothing: sum of weight * (largest - logit)
  Number weights;            ///< smoothing: sum of the weights
  int index;                 ///< argmax: the first column with the maximum logit
};
template <typename Number>
struct CrossEntropyPartial<Number, true, false> {
  Number largest, sum_excluding_max, below, weights;
};
template <typename Number>
struct CrossEntropyPartial<Number, false, true> {
  Number largest, sum_excluding_max;
  int index;
};
template <typename Number>
struct CrossEntropyPartial<Number, false, false> {
  Number largest, sum_excluding_max;
};

template <const CrossEntropyOptions& options>
using PartialOf = CrossEntropyPartial<NumberOf<options>, options.smoothing, options.argmax>;

/// Means "no column".
constexpr int no_column = 0x7fffffff;

struct First {
  static __device__ __forceinline__ int identity() { return no_column; }
  __device__ __forceinline__ int operator()(int a, int b) const { return a < b ? a : b; }
};

/// Returns whether `logit` is a maximum for argmax. NaN compares as the largest value.
template <typename Number>
__device__ __forceinline__ bool is_largest(Number logit, Number largest) {
  return logit == largest || (largest != largest && logit != logit);
}

/// Returns the first column of a vector with the maximum logit. `column` counts from the row's shift, the result does not.
template <const RowShape& shape>
__device__ __forceinline__ int first_largest(const Row<shape>& row, int64 column, Number<shape> largest,
                                             const Number<shape> (&logits)[shape.vector]) {
  int first = no_column;
#pragma unroll
  for (int j = shape.vector - 1; j >= 0; --j)
    if (is_largest(logits[j], largest) && row.all.template holds<1>(column + j))
      first = static_cast<int>(column - row.shift) + j;
  return first;
}

/// Adds weight * (largest - logit) and the weights of a vector, without the target. `target` counts from the row's shift and
/// is negative if the row does not contain it.
template <const RowShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void include_below(const ParamsOf<options>& params, const Row<shape>& row, int64 column,
                                              int64 target, auto largest, const auto(&logits)[shape.vector], auto& below,
                                              auto& sum_of_weights) {
  Number<shape> weights[shape.vector];
  weights_of<shape, options>(params, row, column, weights);
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) {
    const bool takes_part = row.all.template holds<1>(column + j) && column + j != target;
    below = add(below, takes_part ? multiply(weights[j], subtract(largest, logits[j])) : 0.0f);
    sum_of_weights = add(sum_of_weights, takes_part ? weights[j] : 0.0f);
  }
}

/// Online softmax state of one thread. Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018).
template <const RowShape& shape, const CrossEntropyOptions& options>
struct RunningCrossEntropy {
  using Partial = PartialOf<options>;
  using Number = NumberOf<options>;
  Number largest = Maximum::identity();
  ExponentialOf<options> exponential;  ///< relative to `largest`, or to 0 while that is -inf
  CompensatedSumOf<Number> sum_excluding_max;
  Number below = 0.0f;
  Number weights = 0.0f;
  int index = no_column;

  __device__ __forceinline__ RunningCrossEntropy() : exponential(0.0f) {}

  /// Sums are relative to 0 while the maximum is -inf.
  static __device__ __forceinline__ Number finite_or_zero(Number largest) {
    return largest == Maximum::identity() ? 0.0f : largest;
  }
  __device__ __forceinline__ void raise_to(Number now) {
    if (now == largest) return;
    if constexpr (options.smoothing)
      below = fused_multiply_add(weights, subtract(finite_or_zero(now), finite_or_zero(largest)), below);
    if constexpr (options.argmax) index = is_largest(largest, now) ? index : no_column;
    const ExponentialOf<options> raised(now);
    // While all logits are -inf, the sum is 0 relative to any maximum.
    if (largest != Maximum::identity()) sum_excluding_max.rescale(exponential.rescale_to(raised));
    exponential = raised;
    largest = now;
  }

  /// Adds vectors whose maximum logit is `highest`; rescales at most once.
  template <int count>
  __device__ __forceinline__ void include(const ParamsOf<options>& params, const Row<shape>& row,
                                          const int64 (&columns)[count], int64 target, Number highest,
                                          Number (&logits)[count][shape.vector]) {
    if (!(highest <= largest)) raise_to(maximum_or_nan(largest, highest));
    const Number under = finite_or_zero(largest);
    Number sum = 0.0f;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if constexpr (options.smoothing)
        include_below<shape, options>(params, row, columns[i], target, under, logits[i], below, weights);
      if constexpr (options.argmax) index = First()(index, first_largest(row, columns[i], largest, logits[i]));
      sum = add(sum, exponentiate<shape.vector>(exponential, logits[i]));
    }
    sum_excluding_max.include(sum);
  }

  /// Adds the partial of another slice.
  __device__ __forceinline__ void include(const Partial& part) {
    raise_to(maximum_or_nan(largest, part.largest));
    if constexpr (options.smoothing) {
      const Number lifted = subtract(finite_or_zero(largest), finite_or_zero(part.largest));
      below = add(below, fused_multiply_add(part.weights, lifted, part.below));
      weights = add(weights, part.weights);
    }
    if constexpr (options.argmax) {
      if (is_largest(part.largest, largest)) index = First()(index, part.index);
    }
    if (part.largest == Maximum::identity()) return;
    sum_excluding_max.include(
        multiply(part.sum_excluding_max, ExponentialOf<options>(part.largest).rescale_to(exponential)));
  }

  __device__ __forceinline__ Partial part() const {
    Partial result;
    result.largest = largest;
    result.sum_excluding_max = sum_excluding_max.value();
    if constexpr (options.smoothing) {
      result.below = below;
      result.weights = weights;
    }
    if constexpr (options.argmax) result.index = index;
    return result;
  }

  /// Combines the states of a group: lanes of a warp, or a block.
  template <typename Group>
  __device__ __forceinline__ Partial over_group(Group& group) const {
    RunningCrossEntropy state = *this;
    state.raise_to(group.template reduce<2>(largest, Maximum()));
    Partial result = state.part();
    result.sum_excluding_max = group.template reduce<3>(result.sum_excluding_max, Sum());
    if constexpr (options.smoothing) {
      const auto sums = group.template reduce<4>(PairOf<Number>{result.below, result.weights}, SumOfEach<Number>());
      result.below = sums.first;
      result.weights = sums.second;
    }
    if constexpr (options.argmax) result.index = group.template reduce<5>(state.index, First());
    return result;
  }
};

/// The forward operation's lse of a row. The constructor issues the loads.
template <const CrossEntropyOptions& options>
struct LseIn {
  using Number = NumberOf<options>;
  Number lse, low = 0.0f;  ///< of a sum that is not rounded

  __device__ __forceinline__ LseIn(const ParamsOf<options>& params, int64 row) : lse(params.lse_in[row]) {
    if constexpr (options.lse_low) low = params.lse_low[row];
  }
  /// Returns lse - logit of the target.
  __device__ __forceinline__ Number nll(const ParamsOf<options>& params, int64 row, Number target_logit) const {
    if constexpr (options.nll) return params.nll_in[row];
    const Number difference = subtract(lse, target_logit);
    return options.lse_low ? add(difference, low) : difference;
  }
};

/// The loss of one row, and the factors of its gradient.
template <const CrossEntropyOptions& options>
struct RowLoss {
  using Partial = PartialOf<options>;
  using Number = NumberOf<options>;

  ExponentialOf<options> exponential;
  Number loss;  ///< without z_loss if that has its own divisor
  Number lse, z_loss, nll;
  Number lse_low = 0.0f;   ///< what rounding lse lost
  Number per_exponential;  ///< 1 / sum
  Number target_share;     ///< p of the target
  Number target_rest;      ///< p - 1 of the target
  Number target_weight;
  Number weights;  ///< sum over all classes
  int argmax;

  /// `part`: of the whole row, with `largest` including the target's logit, which is -inf for rows without a target.
  __device__ __forceinline__ RowLoss(const ParamsOf<options>& params, const Partial& part, Number target_logit,
                                     Number weight_of_target, bool ignored, bool bad)
      : exponential(part.largest), target_weight(weight_of_target), weights(0.0f), argmax(no_column) {
    const Number largest = part.largest;
    const Number per_most = exponential.reciprocal(largest);  // 1 but for the rounding of the shift
    const Number sum_excluding_max = multiply(part.sum_excluding_max, per_most);
    // Exactly 1 for the maximum, and 0 for a row without a target.
    const Number of_target = target_logit == largest ? Number(1) : multiply(exponential(target_logit), per_most);
    // sum - 1, relative to the maximum. The larger of the two terms is at least 1, so subtract 1 from that one.
    const Number beyond_one = of_target == 1.0f ? sum_excluding_max : add(subtract(sum_excluding_max, Number(1)), of_target);
    const bool finite = is_finite(largest);
    const Number log_sum = finite ? log_of_sum(beyond_one) : float_of(nan_bits);
    const Number per_sum = finite ? divide(Number(1), add(sum_excluding_max, of_target)) : float_of(nan_bits);
    lse = finite ? add(largest, log_sum) : largest;
    if constexpr (options.lse_low) lse_low = finite ? lost_by_adding(largest, log_sum, lse) : 0.0f;
    nll = add(subtract(largest, target_logit), log_sum);
    per_exponential = multiply(per_sum, per_most);
    target_share = multiply(of_target, per_sum);
    target_rest = -multiply(sum_excluding_max, per_sum);

    loss = multiply(multiply(params.hard_share, target_weight), nll);
    if constexpr (options.smoothing) {
      weights = add(part.weights, ignored || bad ? 0.0f : target_weight);
      // The sum of weight * (lse - logit); no term is negative.
      const Number below = fused_multiply_add(target_weight, subtract(largest, target_logit), part.below);
      loss = fused_multiply_add(params.smooth_share, fused_multiply_add(weights, log_sum, below), loss);
    }
    z_loss = 0.0f;
    if constexpr (options.z_loss) {
      z_loss = multiply(params.z_factor, multiply(lse, lse));
      if constexpr (!two_divisors<options>) loss = add(loss, z_loss);
    }
    if (ignored) loss = z_loss = 0.0f;
    if (bad) loss = z_loss = float_of(nan_bits);
    if (ignored) nll = 0.0f;
    if (bad) nll = float_of(nan_bits);
    if constexpr (options.argmax) argmax = part.index;
  }

  /// From the forward operation's lse of a row, for gradients only. `sum_of_weights`: over all classes.
  __device__ __forceinline__ RowLoss(const LseIn<options>& row, Number weight_of_target, Number sum_of_weights)
      : exponential(row.lse),
        loss(0.0f),
        lse(row.lse),
        z_loss(0.0f),
        nll(0.0f),
        per_exponential(is_finite(row.lse) ? exponential.reciprocal(row.lse) : float_of(nan_bits)),
        target_share(0.0f),
        target_rest(0.0f),
        target_weight(weight_of_target),
        weights(sum_of_weights),
        argmax(no_column) {
    if constexpr (options.lse_low) per_exponential = multiply(per_exponential, ExponentialOf<options>(Number(0))(-row.low));
  }

  /// From a whole row, for the gradients of all classes but the target, without a logarithm: not for z_loss. `relative`:
  /// exponentials relative to the `largest` of `part`, which includes the target's logit.
  __device__ __forceinline__ RowLoss(const ExponentialOf<options>& relative, const Partial& part, Number target_logit,
                                     Number weight_of_target)
      : exponential(relative),
        loss(0.0f),
        lse(0.0f),
        z_loss(0.0f),
        nll(0.0f),
        per_exponential(is_finite(part.largest) ? divide(Number(1), add(part.sum_excluding_max, relative(target_logit)))
                                                : float_of(nan_bits)),
        target_share(0.0f),
        target_rest(0.0f),
        target_weight(weight_of_target),
        weights(0.0f),
        argmax(no_column) {
    if constexpr (options.smoothing) weights = add(part.weights, weight_of_target);
  }

  /// Sets the members that depend on the target's logit. 1 - exp(-nll) = 2 t / (1 + t) with t = tanh(nll / 2) keeps all
  /// digits of a small nll.
  __device__ __forceinline__ void set_target(Number target_logit, Number target_nll) {
    nll = target_nll;
    target_share = multiply(exponential(target_logit), per_exponential);
    const Number half = tanh_of(multiply(Number(0.5f), nll));
    target_rest = is_finite(lse) ? -divide(multiply(Number(2), half), add(Number(1), half)) : float_of(nan_bits);
  }
};

/// Returns the divisor of the gradient of a mean, once the kernel that counts has completed.
template <const CrossEntropyOptions& options>
__device__ __forceinline__ NumberOf<options> divisor_of_mean(const ParamsOf<options>& params) {
  await_last_kernel();
  return scratch(params, params.totals)[0];
}

/// Factors of a row's gradient. The constructor issues the loads early; value() uses them.
template <const CrossEntropyOptions& options>
struct GradientScale {
  NumberOf<options> dloss = 1.0f;    ///< of the row, or of all rows
  NumberOf<options> divisor = 1.0f;  ///< mean: the sum of the target weights
  NumberOf<options> rows = 1.0f;     ///< mean with two divisors: the number of rows that are not ignored

  __device__ __forceinline__ GradientScale(const ParamsOf<options>& params, int64 row) {
    if constexpr (options.upstream == Upstream::scalar) dloss = params.upstream[0];
    if constexpr (options.upstream == Upstream::row) dloss = params.upstream[row];
    if constexpr (options.mean) divisor = divisor_of_mean<options>(params);
    if constexpr (two_divisors<options>) rows = scratch(params, params.totals)[2];
  }
  __device__ __forceinline__ auto value() const { return options.mean ? divide(dloss, divisor) : dloss; }
  /// Returns the ratio of the divisors, by which the z term is multiplied before value().
  __device__ __forceinline__ auto z_ratio() const { return divide(divisor, rows); }
};

/// Computes the gradient of a row's logits:
///   dlogit_c = dloss * slope * (p_c * factor - smooth_share * w_c)
///   factor   = hard_share * w_t + smooth_share * sum of w + 2 z lse,  the last term times z_ratio for two divisors
/// The target's gradient is smaller by hard_share * w_t; p - 1 is computed without cancellation.
template <const RowShape& shape, const CrossEntropyOptions& options>
struct CrossEntropyGradient {
  using Number = NumberOf<options>;
  LogitScale<options> scale;
  Number upstream;         ///< dloss; 0 for rows without a loss
  Number per_exponential;  ///< dloss * factor / sum
  Number per_weight;       ///< dloss * smooth_share
  Number of_target;        ///< of the target, without its slope
  bool empty;

  /// `by`: a GradientScale, or another type with value() and z_ratio().
  __device__ __forceinline__ CrossEntropyGradient(const ParamsOf<options>& params, const RowLoss<options>& loss,
                                                  const auto& by, bool counts)
      : scale(params), upstream(by.value()), empty(!counts) {
    const Number hard = multiply(params.hard_share, loss.target_weight);
    Number from_share = 0.0f;  // coefficient of p
    if constexpr (options.smoothing) from_share = multiply(params.smooth_share, loss.weights);
    if constexpr (options.z_loss) {
      Number slope = multiply(Number(2), params.z_factor);
      if constexpr (two_divisors<options>) slope = multiply(slope, by.z_ratio());
      from_share = fused_multiply_add(slope, loss.lse, from_share);
    }
    of_target = multiply(hard, loss.target_rest);
    if constexpr (options.smoothing || options.z_loss)
      of_target = fused_multiply_add(from_share, loss.target_share, of_target);
    if constexpr (options.smoothing) of_target = fused_multiply_add(-params.smooth_share, loss.target_weight, of_target);
    of_target = empty ? 0.0f : multiply(of_target, upstream);
    per_exponential = multiply(multiply(add(hard, from_share), upstream), loss.per_exponential);
    per_weight = multiply(params.smooth_share, upstream);
  }

  /// Replaces exponentials by gradients, in a row that has a loss. `logits` are used for their slopes only; `column` counts
  /// from the row's shift.
  __device__ __forceinline__ void compute(const ParamsOf<options>& params, const Row<shape>& row, int64 column,
                                          const Number (&logits)[shape.vector], Number (&values)[shape.vector]) const {
    Number weights[shape.vector];
    if constexpr (options.smoothing) weights_of<shape, options>(params, row, column, weights);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      values[j] = multiply(values[j], per_exponential);
      if constexpr (options.smoothing) values[j] = fused_multiply_add(-per_weight, weights[j], values[j]);
      if constexpr (!LogitScale<options>::plain) values[j] = multiply(values[j], scale.slope(logits[j]));
    }
  }
  /// Returns the gradient of the target's logit; `logit` is a result of LogitScale.
  __device__ __forceinline__ Number target(Number logit) const {
    return LogitScale<options>::plain ? of_target : multiply(of_target, empty ? 0.0f : scale.slope(logit));
  }
};

/// Replaces the logits of a vector by their gradients, in a row that has a loss.
template <const RowShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void gradient_of_logits(const ParamsOf<options>& params, const Row<shape>& row,
                                                   const LogitScale<options>& scale, const RowLoss<options>& loss,
                                                   const CrossEntropyGradient<shape, options>& gradient, int64 column,
                                                   Number<shape> (&values)[shape.vector]) {
  scale.apply(values);
  Number<shape> logits[shape.vector];
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) logits[j] = values[j];
  exponentiate<shape.vector>(loss.exponential, values);
  gradient.compute(params, row, column, logits, values);
}

}  // namespace tunesmith
