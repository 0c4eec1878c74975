// The running softmax of queries whose scores lie as tensor cores leave them: of 16 rows a thread holds two, g = lane / 4
// and g + 8, and of every 8 columns two neighbouring ones, 2t and 2t + 1 with t = lane % 4, so that a quad of lanes holds a
// row:
//   scores[4n + 0, 1] row g,     columns 8n + 2t, 8n + 2t + 1
//   scores[4n + 2, 3] row g + 8, likewise
#pragma once

#include "attention/attention_softmax.cuh"
#include "attention/attention_tiles.cuh"

namespace tunesmith {

/// Weights are rounded to 16 bits, f16 ones after a factor of 2^7: so much larger may those be that are denormal, and the
/// largest stays finite although it may exceed 1 (rescale_above, at most 8).
template <typename Element>
constexpr float weight_exponent = is_same<Element, f16> ? 7.0f : 0.0f;
template <typename Element>
constexpr float inverse_weight_factor = is_same<Element, f16> ? 1.0f / 128.0f : 1.0f;

/// Of a thread's two rows, over tiles of `keys` keys. `Rule`: what a row's scores are and which of them count; a Scores, or
/// what looks like one where rows are not neighbouring queries of one head.
template <typename Element, const AttentionShape& shape, typename Modification, int keys,
          typename Rule = Scores<shape, Modification>>
struct QuadSoftmax {
  float largest[2];  ///< score so far, before Scores::factor()
  float sum[2];      ///< this thread's part of the weights'

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = Maximum::identity();
      sum[r] = 0.0f;
    }
  }

  /// Dot products of a tile become weights, 2^(score - largest + weight_exponent). `query`: of the first row; `all_seen`: no
  /// place is hidden for where it is; `all_kept`: nor by a mask_mod; `rescale`: what the output has to be multiplied with. A
  /// row is rescaled when its largest score has grown by more than 2^rescale_above since the last time: what is added up
  /// meanwhile is larger, never wrong.
  template <bool all_seen, bool all_kept = !shape.mask_mod>
  __device__ __forceinline__ void exponentiate(float (&scores)[keys / 2], const Rule& rule, int query, int first_k, int lane,
                                               float rescale_above, float (&rescale)[2]) {
    const float factor = rule.factor();
    float top[2] = {largest[0], largest[1]};
    // A text is asked for a pair that exists only.
    constexpr bool modified = shape.score_mod || (shape.mask_mod && !(all_seen && all_kept));
    // Where the keys that a row sees begin and end, counted from this thread's first one: comparisons with constants.
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
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2, at = i / 4 * 8 + i % 2;
      const auto score = [&] { return Rule::linear ? scores[i] : rule(scores[i], query + 8 * r, first, at); };
      if constexpr (modified) {
        scores[i] = rule.counts(query + 8 * r, first + at, all_seen, all_kept) ? score() : Maximum::identity();
      } else {
        scores[i] = score();
        if constexpr (!all_seen) {
          const bool counts = at < end[r] && (!shape.bounded_left || at >= begin[r]);
          scores[i] = counts ? scores[i] : Maximum::identity();
        }
      }
      top[r] = maximum(top[r], scores[i]);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = maximum(top[r], shuffle_xor(top[r], 1));
      top[r] = maximum(top[r], shuffle_xor(top[r], 2));
      rescale[r] = 1.0f;
      // Also from -inf, where the difference is infinite; -inf less itself is NaN, and nothing changes.
      if (multiply(subtract(top[r], largest[r]), factor) > rescale_above) {
        rescale[r] = exp2_approx(multiply(subtract(largest[r], top[r]), factor));
        largest[r] = top[r];
        sum[r] = multiply(sum[r], rescale[r]);
      }
    }
    const float origin[2] = {fused_multiply_add(-subtracted(largest[0]), factor, weight_exponent<Element>),
                             fused_multiply_add(-subtracted(largest[1]), factor, weight_exponent<Element>)};
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2;
      scores[i] = exp2_approx(fused_multiply_add(scores[i], factor, origin[r]));
      sum[r] = add(sum[r], scores[i]);
    }
  }

  /// What becomes of row r; all lanes together.
  __device__ __forceinline__ SoftmaxEnd end(const AttentionParams& params, int head, float factor, int r) const {
    const float total = multiply(reduce_lanes<4>(sum[r], Sum()), inverse_weight_factor<Element>);
    const SoftmaxEnd end = end_of<shape>(params, head, multiply(largest[r], factor), total);
    return {multiply(end.scale, inverse_weight_factor<Element>), end.lse};
  }
};

/// Weights of keys 16 `step` to 16 `step` + 15, rounded: A of a product with their values.
template <typename Element, int count>
__device__ __forceinline__ void round_weights(const float (&scores)[count], int step, uint32 (&weights)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) weights[i] = pack<Element>(scores[8 * step + 2 * i], scores[8 * step + 2 * i + 1]);
}

/// Multiplies accumulators of the two rows, where any lane of the warp has to.
template <int count>
__device__ __forceinline__ void rescale_rows(float (&output)[count], const float (&rescale)[2]) {
  if (!any_in_warp(rescale[0] != 1.0f || rescale[1] != 1.0f)) return;
#pragma unroll
  for (int i = 0; i < count; ++i) output[i] = multiply(output[i], rescale[i / 2 % 2]);
}

}  // namespace tunesmith
