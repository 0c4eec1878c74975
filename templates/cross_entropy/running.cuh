// Sums over the logits of a row but for its target's, which grow with what is seen; and the loss and gradient that they
// make once the row is complete.
//
// The target is kept apart because of confident rows: with p near 1, loss = log(1 + others) and p - 1 = -others / sum have
// all their digits in the sum over the others, which would be lost if the target's exponential were in it.
#pragma once

#include "cross_entropy/cross_entropy.cuh"
#include "device/logarithm.cuh"

namespace tunesmith {

/// exp(logit - largest) for a loss, which needs it to some 2^-20 and not to its last digit: one multiplication and the
/// hardware's power of two. What the rounded shift is off by is a factor that the whole row shares, and cancels.
///
/// From 2^28 on that factor would leave the range, and neighbouring floats are 32 apart: what is not the largest is as good
/// as nothing next to it. A power of two stands for log2(e) then, so that the largest itself gives exactly 1.
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
  /// What a sum formed under this largest logit is multiplied with to stand under `other`'s, which is not smaller.
  __device__ __forceinline__ float rescale_to(const LogitExponential& other) const {
    return multiplier == other.multiplier ? exp2_approx(subtract(other.shift, shift)) : 0.0f;
  }
};

/// A part of a row, the target's logit left out of the sums.
template <bool smoothing, bool argmax>
struct CrossEntropyPartial {
  float largest;            ///< logit, the target's included where it is known
  float sum_excluding_max;  ///< exponentials under it
  float below;              ///< smoothing: sum of weight * (largest - logit)
  float weights;            ///< smoothing: sum of the weights of those classes
  float index;              ///< predicted: the bits of the first column that has the largest logit
};
template <>
struct CrossEntropyPartial<true, false> {
  float largest, sum_excluding_max, below, weights;
};
template <>
struct CrossEntropyPartial<false, true> {
  float largest, sum_excluding_max, index;
};
template <>
struct CrossEntropyPartial<false, false> {
  float largest, sum_excluding_max;
};

template <const CrossEntropyOptions& options>
using PartialOf = CrossEntropyPartial<options.smoothing, options.argmax>;

/// No column.
constexpr int no_column = 0x7fffffff;

struct First {
  static __device__ __forceinline__ int identity() { return no_column; }
  __device__ __forceinline__ int operator()(int a, int b) const { return a < b ? a : b; }
};

/// Whether a logit is the one that argmax looks for: NaN counts as the largest.
__device__ __forceinline__ bool is_largest(float logit, float largest) {
  return logit == largest || (largest != largest && logit != logit);
}

/// The first of a vector's columns that has the largest logit; `column` counts from the row's shift, the result does not.
template <const RowShape& shape>
__device__ __forceinline__ int first_largest(const Row<shape>& row, int64 column, float largest,
                                             const float (&logits)[shape.vector]) {
  int first = no_column;
#pragma unroll
  for (int j = shape.vector - 1; j >= 0; --j)
    if (is_largest(logits[j], largest) && row.all.template holds<1>(column + j))
      first = static_cast<int>(column - row.shift) + j;
  return first;
}

/// Adds up weight * (largest - logit) and the weights over a vector, but for the target, which is at `target` (counted from
/// the row's shift; negative: not in this row).
template <const RowShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void include_below(const CrossEntropyParams& params, const Row<shape>& row, int64 column,
                                              int64 target, float largest, const float (&logits)[shape.vector], float& below,
                                              float& sum_of_weights) {
  float weights[shape.vector];
  weights_of<shape, options>(params, row, column, weights);
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) {
    const bool takes_part = row.all.template holds<1>(column + j) && column + j != target;
    below = add(below, takes_part ? multiply(weights[j], subtract(largest, logits[j])) : 0.0f);
    sum_of_weights = add(sum_of_weights, takes_part ? weights[j] : 0.0f);
  }
}

/// What a thread has seen of its row so far, after Milakov and Gimelshein, "Online normalizer calculation for softmax"
/// (2018).
template <const RowShape& shape, const CrossEntropyOptions& options>
struct RunningCrossEntropy {
  using Partial = PartialOf<options>;

  float largest = Maximum::identity();
  LogitExponential exponential;  ///< under the largest so far, or 0 while that is -inf
  CompensatedSum sum_excluding_max;
  float below = 0.0f;
  float weights = 0.0f;
  int index = no_column;

  __device__ __forceinline__ RunningCrossEntropy() : exponential(0.0f) {}

  /// Sums of -inf stand under 0.
  static __device__ __forceinline__ float finite_or_zero(float largest) {
    return largest == Maximum::identity() ? 0.0f : largest;
  }
  __device__ __forceinline__ void raise_to(float now) {
    if (now == largest) return;
    if constexpr (options.smoothing)
      below = fused_multiply_add(weights, subtract(finite_or_zero(now), finite_or_zero(largest)), below);
    if constexpr (options.argmax) index = is_largest(largest, now) ? index : no_column;
    const LogitExponential raised(now);
    // Nothing but -inf so far: the sum is 0 whatever it stands under.
    if (largest != Maximum::identity()) sum_excluding_max.rescale(exponential.rescale_to(raised));
    exponential = raised;
    largest = now;
  }

  /// Takes in vectors, the largest of whose logits is `highest`: rescales once for all of them.
  template <int count>
  __device__ __forceinline__ void include(const CrossEntropyParams& params, const Row<shape>& row,
                                          const int64 (&columns)[count], int64 target, float highest,
                                          float (&logits)[count][shape.vector]) {
    if (!(highest <= largest)) raise_to(maximum_or_nan(largest, highest));
    const float under = finite_or_zero(largest);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if constexpr (options.smoothing)
        include_below<shape, options>(params, row, columns[i], target, under, logits[i], below, weights);
      if constexpr (options.argmax) index = First()(index, first_largest(row, columns[i], largest, logits[i]));
      sum = add(sum, exponentiate<shape.vector>(exponential, logits[i]));
    }
    sum_excluding_max.include(sum);
  }

  /// Takes in what others made of another part.
  __device__ __forceinline__ void include(const Partial& part) {
    raise_to(maximum_or_nan(largest, part.largest));
    if constexpr (options.smoothing) {
      const float lifted = subtract(finite_or_zero(largest), finite_or_zero(part.largest));
      below = add(below, fused_multiply_add(part.weights, lifted, part.below));
      weights = add(weights, part.weights);
    }
    if constexpr (options.argmax) {
      if (is_largest(part.largest, largest)) index = First()(index, static_cast<int>(bits_of(part.index)));
    }
    if (part.largest == Maximum::identity()) return;
    sum_excluding_max.include(multiply(part.sum_excluding_max, LogitExponential(part.largest).rescale_to(exponential)));
  }

  __device__ __forceinline__ Partial part() const {
    Partial result;
    result.largest = largest;
    result.sum_excluding_max = sum_excluding_max.value();
    if constexpr (options.smoothing) {
      result.below = below;
      result.weights = weights;
    }
    if constexpr (options.argmax) result.index = float_of(static_cast<uint32>(index));
    return result;
  }

  /// What the members of a team have seen between them: lanes of a warp, or a block.
  template <typename Group>
  __device__ __forceinline__ Partial over_group(Group& group) const {
    RunningCrossEntropy state = *this;
    state.raise_to(group.template reduce<2>(largest, Maximum()));
    Partial result = state.part();
    result.sum_excluding_max = group.template reduce<3>(result.sum_excluding_max, Sum());
    if constexpr (options.smoothing) {
      const FloatPair sums = group.template reduce<4>(FloatPair{result.below, result.weights}, SumOfEach());
      result.below = sums.first;
      result.weights = sums.second;
    }
    if constexpr (options.argmax)
      result.index = float_of(static_cast<uint32>(group.template reduce<5>(state.index, First())));
    return result;
  }
};

/// A row's loss and what its gradient is made of.
template <const CrossEntropyOptions& options>
struct RowLoss {
  using Partial = PartialOf<options>;

  LogitExponential exponential;
  float loss;  ///< without z_loss if that has a divisor of its own
  float lse, z_loss, nll;
  float per_exponential;  ///< 1 / sum
  float target_share;     ///< p of the target
  float target_rest;      ///< p - 1 of the target
  float target_weight;
  float weights;  ///< of all classes
  int argmax;

  /// `part` of the whole row, whose `largest` is no less than the target's logit, -inf for rows without one.
  __device__ __forceinline__ RowLoss(const CrossEntropyParams& params, const Partial& part, float target_logit,
                                     float weight_of_target, bool ignored, bool bad)
      : exponential(part.largest), target_weight(weight_of_target), weights(0.0f), argmax(no_column) {
    const float largest = part.largest;
    const float most = exponential(largest);
    const float sum_excluding_max = divide(part.sum_excluding_max, most);
    const bool has_target = target_logit != Maximum::identity();
    const float of_target = has_target ? divide(exponential(target_logit), most) : 0.0f;
    // Under the largest logit the larger of both is at least 1, and is what 1 is taken from.
    const float beyond_one = of_target == 1.0f ? sum_excluding_max : add(subtract(sum_excluding_max, 1.0f), of_target);
    const bool finite = is_finite(largest);
    const float log_sum = finite ? log_of_one_plus(beyond_one) : float_of(nan_bits);
    const float sum = add(sum_excluding_max, of_target);
    lse = finite ? add(largest, log_sum) : largest;
    nll = add(subtract(largest, target_logit), log_sum);
    per_exponential = finite ? divide(1.0f, add(part.sum_excluding_max, multiply(of_target, most))) : float_of(nan_bits);
    target_share = finite ? divide(of_target, sum) : float_of(nan_bits);
    target_rest = finite ? -divide(sum_excluding_max, sum) : float_of(nan_bits);

    loss = multiply(multiply(params.hard_share, target_weight), nll);
    if constexpr (options.smoothing) {
      weights = add(part.weights, ignored || bad ? 0.0f : target_weight);
      // The sum of weight * (lse - logit), in terms none of which is negative.
      const float below = fused_multiply_add(target_weight, subtract(largest, target_logit), part.below);
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
    if constexpr (options.argmax) argmax = static_cast<int>(bits_of(part.index));
  }

  /// From what the forward operation found: for gradients only. `sum_of_weights` of all classes.
  __device__ __forceinline__ RowLoss(float row_lse, float weight_of_target, float sum_of_weights)
      : exponential(row_lse),
        loss(0.0f),
        lse(row_lse),
        z_loss(0.0f),
        nll(0.0f),
        per_exponential(is_finite(row_lse) ? exponential.reciprocal(row_lse) : float_of(nan_bits)),
        target_share(0.0f),
        target_rest(0.0f),
        target_weight(weight_of_target),
        weights(sum_of_weights),
        argmax(no_column) {}

  /// The same once the target's logit is known. 1 - exp(-nll) = 2 t / (1 + t) with t = tanh(nll / 2): no digits are lost
  /// however small it is.
  __device__ __forceinline__ void set_target(float target_logit, float target_nll) {
    nll = target_nll;
    target_share = multiply(exponential(target_logit), per_exponential);
    const float half = tanh_of(multiply(0.5f, nll));
    target_rest = is_finite(lse) ? -divide(multiply(2.0f, half), add(1.0f, half)) : float_of(nan_bits);
  }
};

/// What a row's gradient is multiplied with, as it lies in memory: asked for long before it is looked at.
template <const CrossEntropyOptions& options>
struct GradientScale {
  float dloss = 1.0f;    ///< the row's, or the one of all
  float divisor = 1.0f;  ///< mean: what the rows weigh together
  float rows = 1.0f;     ///< mean with two divisors: the number of rows that are not ignored

  __device__ __forceinline__ GradientScale(const CrossEntropyParams& params, int64 row) {
    if constexpr (options.upstream == Upstream::scalar) dloss = params.upstream[0];
    if constexpr (options.upstream == Upstream::row) dloss = params.upstream[row];
    if constexpr (options.mean) divisor = scratch(params, params.totals)[0];
    if constexpr (two_divisors<options>) rows = scratch(params, params.totals)[2];
  }
  __device__ __forceinline__ float value() const { return options.mean ? divide(dloss, divisor) : dloss; }
  /// What the z term is multiplied with before value(): the ratio of the divisors.
  __device__ __forceinline__ float z_ratio() const { return divide(divisor, rows); }
};

/// What becomes of a row's logits when their gradient is asked for:
///   dlogit_c = dloss * slope * (p_c * factor - smooth_share * w_c),
///   factor   = hard_share * w_t + smooth_share * sum of w + 2 z lse,  the last times z_ratio if there are two divisors,
/// and hard_share * w_t less for the target, which takes the digits of p - 1.
template <const RowShape& shape, const CrossEntropyOptions& options>
struct CrossEntropyGradient {
  LogitScale<options> scale;
  float upstream;         ///< dloss; 0 for rows without a loss
  float per_exponential;  ///< dloss * factor / sum
  float per_weight;       ///< dloss * smooth_share
  float of_target;        ///< the target's, but for its slope
  bool empty;

  __device__ __forceinline__ CrossEntropyGradient(const CrossEntropyParams& params, const RowLoss<options>& loss,
                                                  const GradientScale<options>& by, bool counts)
      : scale(params), upstream(by.value()), empty(!counts) {
    const float hard = multiply(params.hard_share, loss.target_weight);
    float from_share = 0.0f;  // what stands next to hard * (p - 1)
    if constexpr (options.smoothing) from_share = multiply(params.smooth_share, loss.weights);
    if constexpr (options.z_loss) {
      float slope = multiply(2.0f, params.z_factor);
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

  /// Exponentials become gradients, in a row that has a loss; `logits` are only looked at for their slope, `column` counts
  /// from the row's shift.
  __device__ __forceinline__ void compute(const CrossEntropyParams& params, const Row<shape>& row, int64 column,
                                          const float (&logits)[shape.vector], float (&values)[shape.vector]) const {
    float weights[shape.vector];
    if constexpr (options.smoothing) weights_of<shape, options>(params, row, column, weights);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j) {
      values[j] = multiply(values[j], per_exponential);
      if constexpr (options.smoothing) values[j] = fused_multiply_add(-per_weight, weights[j], values[j]);
      if constexpr (!LogitScale<options>::plain) values[j] = multiply(values[j], scale.slope(logits[j]));
    }
  }
  /// The target's gradient; `logit` as LogitScale made it.
  __device__ __forceinline__ float target(float logit) const {
    return LogitScale<options>::plain ? of_target : multiply(of_target, empty ? 0.0f : scale.slope(logit));
  }
};

/// Logits of a vector become their gradients, in a row that has a loss.
template <const RowShape& shape, const CrossEntropyOptions& options>
__device__ __forceinline__ void gradient_of_logits(const CrossEntropyParams& params, const Row<shape>& row,
                                                   const LogitScale<options>& scale, const RowLoss<options>& loss,
                                                   const CrossEntropyGradient<shape, options>& gradient, int64 column,
                                                   float (&values)[shape.vector]) {
  scale.apply(values);
  float logits[shape.vector];
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) logits[j] = values[j];
  exponentiate<shape.vector>(loss.exponential, values);
  gradient.compute(params, row, column, logits, values);
}

}  // namespace tunesmith
