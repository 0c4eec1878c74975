// Online softmax on accumulators of tensor cores. Of 16 rows a thread holds rows g = lane / 4 and g + 8, and of every 8
// columns 2t and 2t + 1 with t = lane % 4, so a quad of lanes shares a row:
//   scores[4n + 0, 1] row g,     columns 8n + 2t, 8n + 2t + 1
//   scores[4n + 2, 3] row g + 8, likewise
#pragma once

#include "attention/alibi.cuh"
#include "attention/masked_tiles.cuh"
#include "attention/sinks.cuh"
#include "attention/soft_cap.cuh"

namespace tunesmith {

/// Growth of the maximum, as an exponent of 2, above which accumulators are rescaled.
constexpr float rescale_above = 8.0f;

/// Weights are rounded to 16 bits. f16 weights are first multiplied by 2^7, so that fewer of them are denormal; the maximum
/// stays finite although it may exceed 1, by rescale_above.
template <typename Element>
constexpr float weight_exponent = is_same<Element, f16> ? 7.0f : 0.0f;
template <typename Element>
constexpr float inverse_weight_factor = is_same<Element, f16> ? 1.0f / 128.0f : 1.0f;

/// Rescaling factors of a thread's two rows; `any`: some row of the warp must be rescaled.
struct Rescale {
  bool any;
  float rows[2];
};

/// Online softmax of a thread's two rows over K/V tiles of `keys` keys. `Rule`: scores and masks of a row, see Scores.
/// `biased_by_product`: in full tiles all keys are on one side of all queries, and a matrix product has added ALiBi's bias
/// relative to the first key. `sums`: sum the weights here; otherwise the product with V does.
template <typename Element, const AttentionShape& shape, typename Modification, int keys,
          typename Rule = Scores<shape, Modification>, bool biased_by_product = false, bool sums = true>
struct QuadSoftmax {
  using Features = AttentionFeatures<shape>;
  /// Applies soft cap and ALiBi to a whole tile at a time.
  static constexpr bool in_steps = Rule::neighbours && !shape.score_mod && (shape.softcap || shape.alibi);
  static constexpr bool has_base = in_steps && shape.alibi;
  static constexpr bool caps_alone = in_steps && shape.softcap && !shape.alibi;

  float largest[2];  ///< running maximum, before Scores::factor()
  float sum[2];      ///< this thread's partial sum of weights, if summed here

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = Maximum::identity();
      sum[r] = 0.0f;
    }
  }

  /// Replaces the dot products of a tile by weights, 2^(score - largest + weight_exponent). `query`: first row's query;
  /// `all_seen`: no pair is masked by position (Visibility::of_all); `all_kept`: nor by mask_mod; `rescale`: receives the
  /// factors of the output. A row is rescaled when its maximum has grown by more than 2^rescale_above since the last
  /// rescaling; until then its weights may exceed 1, which is exact.
  template <bool all_seen, bool all_kept = !shape.mask_mod>
  __device__ __forceinline__ void exponentiate(float (&scores)[keys / 2], const Rule& rule, int query, int first_k, int lane,
                                               Rescale& rescale) {
    const float factor = rule.factor();
    if constexpr (caps_alone && all_seen && all_kept)
      if (Features::CapSteps::template exponentiate_small<Element>(*this, scores, rule.params(), factor, rescale)) return;
    float top[2];
    float base[2] = {0.0f, 0.0f};  // common term of this thread's scores of a row
    score<all_seen, all_kept>(scores, rule, query, first_k, lane, top, base);
    if constexpr (has_base) {
#pragma unroll
      for (int r = 0; r < 2; ++r) top[r] = add(top[r], base[r]);
    }
    // In most tiles no lane must rescale; then no maxima are exchanged.
    rescale.any = any_in_warp(grown(0, top, factor) || grown(1, top, factor));
    if (rescale.any) raise(top, factor, rescale);
    float origin[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) origin[r] = has_base ? origin_of(r, factor, base[r]) : origin_of(r, factor);
    weigh(scores, [&](float score, int r) { return fused_multiply_add(score, factor, origin[r]); });
  }

  /// Returns the addend of the exponents of row r, whose scores omit the common term `base`.
  __device__ __forceinline__ float origin_of(int r, float factor) const {
    return fused_multiply_add(-subtracted(largest[r]), factor, weight_exponent<Element>);
  }
  __device__ __forceinline__ float origin_of(int r, float factor, float base) const {
    return fused_multiply_add(subtract(base, subtracted(largest[r])), factor, weight_exponent<Element>);
  }
  /// Replaces scores by weights, 2^exponent(score, row).
  template <typename Exponent>
  __device__ __forceinline__ void weigh(float (&scores)[keys / 2], const Exponent& exponent) {
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2;
      scores[i] = exp2_approx(exponent(scores[i], r));
      if constexpr (sums) sum[r] = add(sum[r], scores[i]);
    }
  }

  /// Returns whether row r must be rescaled. True from -inf, where the difference is infinite; false for -inf - (-inf),
  /// which is NaN.
  __device__ __forceinline__ bool grown(int r, const float (&top)[2], float factor) const {
    return multiply(subtract(top[r], largest[r]), factor) > rescale_above;
  }
  /// `top`: maximum of this lane's scores of each row.
  __device__ __forceinline__ void raise(float (&top)[2], float factor, Rescale& rescale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = maximum(top[r], shuffle_xor(top[r], 1));
      top[r] = maximum(largest[r], maximum(top[r], shuffle_xor(top[r], 2)));
      rescale.rows[r] = 1.0f;
      if (grown(r, top, factor)) {
        rescale.rows[r] = exp2_approx(multiply(subtract(largest[r], top[r]), factor));
        largest[r] = top[r];
        if constexpr (sums) sum[r] = multiply(sum[r], rescale.rows[r]);
      }
    }
  }

  /// Replaces dot products by scores minus `base`, masked ones by -inf. `top`: receives this thread's maximum of each row.
  template <bool all_seen, bool all_kept>
  __device__ __forceinline__ void score(float (&scores)[keys / 2], const Rule& rule, int query, int first_k, int lane,
                                        float (&top)[2], float (&base)[2]) const {
    // Call user functions for unmasked pairs only; no branches if all pairs are unmasked.
    constexpr bool modified = (shape.score_mod && !all_seen) || (shape.mask_mod && !(all_seen && all_kept));
    // Keys that a row sees, relative to this thread's first key, so that comparisons are with constants.
    const int first = first_k + lane % 4 * 2;
    int begin[2] = {0, 0}, end[2] = {keys, keys};
    if constexpr (!all_seen && !modified) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const KeyRange range = rule.visibility().of_any(query + 8 * r, query + 8 * r);
        begin[r] = range.begin - first;
        end[r] = range.end - first;
      }
    }
    if constexpr (in_steps && shape.softcap) Features::CapSteps::cap(scores, rule.params());
    if constexpr (has_base && !biased_by_product) {
      Features::BiasSteps::bias(scores, rule, query, first_k, lane, base);
    } else if constexpr (has_base && all_seen) {
#pragma unroll
      for (int r = 0; r < 2; ++r) base[r] = rule.biased(0.0f, query + 8 * r, first_k, 0);
    } else if constexpr (has_base) {
      Features::BiasSteps::bias_each(scores, rule, query, first);
    }
    // Two independent maxima per row: few warps are resident to hide the latency of a dependent chain.
    float highest[2][2];
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2, at = i / 4 * 8 + i % 2;
      const auto value = [&] { return Rule::linear || in_steps ? scores[i] : rule(scores[i], query + 8 * r, first, at); };
      if constexpr (modified) {
        scores[i] = rule.counts(query + 8 * r, first + at, all_seen, all_kept) ? value() : Maximum::identity();
      } else {
        scores[i] = value();
        if constexpr (!all_seen) {
          const bool counts = at < end[r] && (!shape.bounded_left || at >= begin[r]);
          scores[i] = counts ? scores[i] : Maximum::identity();
        }
      }
      highest[i % 2][r] = i < 4 ? scores[i] : maximum(highest[i % 2][r], scores[i]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = maximum(highest[0][r], highest[1][r]);
  }
};

/// Returns the final scale and lse of a row.
template <typename Element, const AttentionShape& shape>
__device__ __forceinline__ FinalScale end_of_quad(const AttentionParams& params, int head, float factor, float largest,
                                                  float sum) {
  const float total = multiply(sum, inverse_weight_factor<Element>);
  const FinalScale end = approximate_end_of<shape>(params, head, multiply(largest, factor), total);
  return {multiply(end.scale, inverse_weight_factor<Element>), end.lse};
}

/// Rounds the weights of keys 16 `step` to 16 `step` + 15: the A operand of the product with V.
template <typename Element, int count>
__device__ __forceinline__ void round_weights(const float (&scores)[count], int step, uint32 (&weights)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) weights[i] = pack<Element>(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
}

template <int count>
__device__ __forceinline__ void rescale_rows(float (&output)[count], const Rescale& rescale) {
  if (!rescale.any) return;
#pragma unroll
  for (int i = 0; i < count; ++i) output[i] = multiply(output[i], rescale.rows[i / 2 % 2]);
}

}  // namespace tunesmith
