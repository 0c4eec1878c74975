// The running softmax of queries whose scores lie as tensor cores leave them: of 16 rows a thread holds two, g = lane / 4
// and g + 8, and of every 8 columns two neighbouring ones, 2t and 2t + 1 with t = lane % 4, so that a quad of lanes holds a
// row:
//   scores[4n + 0, 1] row g,     columns 8n + 2t, 8n + 2t + 1
//   scores[4n + 2, 3] row g + 8, likewise
#pragma once

#include "attention/softmax.cuh"
#include "attention/tiles.cuh"

namespace tunesmith {

/// Weights are rounded to 16 bits, f16 ones after a factor of 2^7: so much larger may those be that are denormal, and the
/// largest stays finite although it may exceed 1 (rescale_above, at most 8).
template <typename Element>
constexpr float weight_exponent = is_same<Element, f16> ? 7.0f : 0.0f;
template <typename Element>
constexpr float inverse_weight_factor = is_same<Element, f16> ? 1.0f / 128.0f : 1.0f;

/// What the accumulators of a thread's two rows have to be multiplied with, where `any` of the warp's have to be.
struct Rescale {
  bool any;
  float rows[2];
};

/// Of a thread's two rows, over tiles of `keys` keys. `Rule`: what a row's scores are and which of them count; a Scores, or
/// what looks like one where rows are not neighbouring queries of one head. `biased_by_product`: of a whole tile all keys
/// lie on one side of all queries, and what ALiBi adds to a row's scores beyond the first key's is there already. `sums`:
/// weights are added up here, and not by who multiplies with them.
template <typename Element, const AttentionShape& shape, typename Modification, int keys,
          typename Rule = Scores<shape, Modification>, bool biased_by_product = false, bool sums = true>
struct QuadSoftmax {
  /// Soft cap and ALiBi by ways that what a warp's tile has in common allows.
  static constexpr bool in_steps = Rule::neighbours && !shape.score_mod && (shape.softcap || shape.alibi);
  static constexpr bool has_base = in_steps && shape.alibi;
  static constexpr bool caps_alone = in_steps && shape.softcap && !shape.alibi;

  float largest[2];  ///< score so far, before Scores::factor()
  float sum[2];      ///< this thread's part of the weights', where they are added up here

  __device__ __forceinline__ void reset() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      largest[r] = Maximum::identity();
      sum[r] = 0.0f;
    }
  }

  /// Dot products of a tile become weights, 2^(score - largest + weight_exponent). `query`: of the first row; `all_seen`:
  /// all pairs exist and are seen (Visibility::of_all); `all_kept`: nor by a mask_mod; `rescale`: what the output has to be
  /// multiplied with. A row is rescaled when its largest score has grown by more than 2^rescale_above since the last time:
  /// what is added up meanwhile is larger, never wrong.
  template <bool all_seen, bool all_kept = !shape.mask_mod>
  __device__ __forceinline__ void exponentiate(float (&scores)[keys / 2], const Rule& rule, int query, int first_k, int lane,
                                               float rescale_above, Rescale& rescale) {
    if constexpr (caps_alone && all_seen && all_kept)
      if (exponentiate_small(scores, rule, rescale_above, rescale)) return;
    const float factor = rule.factor();
    float top[2];
    float base[2] = {0.0f, 0.0f};  // what this thread's scores of a row have in common, beyond what stands in their places
    score<all_seen, all_kept>(scores, rule, query, first_k, lane, top, base);
    if constexpr (has_base) {
#pragma unroll
      for (int r = 0; r < 2; ++r) top[r] = add(top[r], base[r]);
    }
    // Of most tiles no lane's own scores have, and then no lane has to hear of the others'.
    rescale.any = any_in_warp(grown(0, top, factor, rescale_above) || grown(1, top, factor, rescale_above));
    if (rescale.any) raise(top, factor, rescale_above, rescale);
    float origin[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float from = subtracted(largest[r]);
      origin[r] = fused_multiply_add(has_base ? subtract(base[r], from) : -from, factor, weight_exponent<Element>);
    }
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2;
      scores[i] = exp2_approx(fused_multiply_add(scores[i], factor, origin[r]));
      if constexpr (sums) sum[r] = add(sum[r], scores[i]);
    }
  }

  /// The same with a soft cap, of a tile that is small enough for a polynomial of two terms: false, and nothing has been
  /// done, where it is not. Magnitudes serve as maxima too: what is subtracted may be larger than any score, by less than
  /// what float32 and bf16 have room for.
  __device__ __forceinline__ bool exponentiate_small(float (&scores)[keys / 2], const Rule& rule, float rescale_above,
                                                     Rescale& rescale) {
    constexpr bool has_room = !is_same<Element, f16>;
    const float factor = rule.factor();
    float farthest[2][2], highest[2][2];
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2;
      farthest[i % 2][r] = i < 4 ? absolute(scores[i]) : maximum(farthest[i % 2][r], absolute(scores[i]));
      if constexpr (!has_room) highest[i % 2][r] = i < 4 ? scores[i] : maximum(highest[i % 2][r], scores[i]);
    }
    float top[2], size[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      size[r] = maximum(farthest[0][r], farthest[1][r]);
      top[r] = has_room ? size[r] : maximum(highest[0][r], highest[1][r]);
    }
    const bool beyond = !(maximum(size[0], size[1]) <= rule.small_bound());
    rescale.any = any_in_warp(beyond || grown(0, top, factor, rescale_above) || grown(1, top, factor, rescale_above));
    if (rescale.any) {
      if (any_in_warp(beyond)) return false;
      raise(top, factor, rescale_above, rescale);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = fused_multiply_add(-subtracted(largest[r]), factor, weight_exponent<Element>);
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) {
      const int r = i / 2 % 2;
      scores[i] = exp2_approx(rule.small_exponent(scores[i], top[r]));
      if constexpr (sums) sum[r] = add(sum[r], scores[i]);
    }
    return true;
  }

  /// Whether row r has to be rescaled. Also from -inf, where the difference is infinite; -inf less itself is NaN, and
  /// nothing changes.
  __device__ __forceinline__ bool grown(int r, const float (&top)[2], float factor, float rescale_above) const {
    return multiply(subtract(top[r], largest[r]), factor) > rescale_above;
  }
  /// `top`: of each lane's scores.
  __device__ __forceinline__ void raise(float (&top)[2], float factor, float rescale_above, Rescale& rescale) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = maximum(top[r], shuffle_xor(top[r], 1));
      top[r] = maximum(largest[r], maximum(top[r], shuffle_xor(top[r], 2)));
      rescale.rows[r] = 1.0f;
      if (grown(r, top, factor, rescale_above)) {
        rescale.rows[r] = exp2_approx(multiply(subtract(largest[r], top[r]), factor));
        largest[r] = top[r];
        if constexpr (sums) sum[r] = multiply(sum[r], rescale.rows[r]);
      }
    }
  }

  /// Dot products become scores less `base`, those that do not count -inf; `top`: the largest of each row that this thread
  /// has.
  template <bool all_seen, bool all_kept>
  __device__ __forceinline__ void score(float (&scores)[keys / 2], const Rule& rule, int query, int first_k, int lane,
                                        float (&top)[2], float (&base)[2]) const {
    // A text is asked for a pair that exists and is seen only; where all do and are, without branches.
    constexpr bool modified = (shape.score_mod && !all_seen) || (shape.mask_mod && !(all_seen && all_kept));
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
    if constexpr (in_steps && shape.softcap) cap(scores, rule);
    if constexpr (has_base && !biased_by_product) {
      bias(scores, rule, query, first_k, lane, base);
    } else if constexpr (has_base && all_seen) {
#pragma unroll
      for (int r = 0; r < 2; ++r) base[r] = rule.biased(0.0f, query + 8 * r, first_k, 0);
    } else if constexpr (has_base) {
#pragma unroll
      for (int i = 0; i < keys / 2; ++i) scores[i] = rule.biased(scores[i], query + i / 2 % 2 * 8, first, i / 4 * 8 + i % 2);
    }
    // Two for each row, in turns: a warp has few others beside it that would hide what one waits for the one before.
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

  /// Soft cap. The special function unit has enough to do with the exponentials: where all dot products of the warp are near
  /// 0, as they mostly are, a polynomial takes its place.
  __device__ __forceinline__ void cap(float (&scores)[keys / 2], const Rule& rule) const {
    float farthest = 0.0f;
#pragma unroll
    for (int i = 0; i < keys / 2; ++i) farthest = maximum(farthest, absolute(scores[i]));
    if (all_in_warp(farthest <= rule.near_bound())) {
#pragma unroll
      for (int i = 0; i < keys / 2; ++i) scores[i] = rule.near_capped(scores[i]);
    } else {
#pragma unroll
      for (int i = 0; i < keys / 2; ++i) scores[i] = rule.capped(scores[i]);
    }
  }

  /// ALiBi. Where the bias grows with the key alone, what a thread's scores of a row have in common is left to their base.
  __device__ __forceinline__ void bias(float (&scores)[keys / 2], const Rule& rule, int query, int first_k, int lane,
                                       float (&base)[2]) const {
    const int first = first_k + lane % 4 * 2, place = query + rule.visibility().offset;
    const int first_place = place - lane / 4, last_place = first_place + 15;
    const bool behind = first_k + keys - 1 <= first_place;
    if (behind || first_k >= last_place) {
      const float slope = behind ? rule.slope() : -rule.slope();
#pragma unroll
      for (int r = 0; r < 2; ++r) base[r] = multiply(slope, static_cast<float>(first - (place + 8 * r)));
#pragma unroll
      for (int i = 0; i < keys / 2; ++i)
        scores[i] = fused_multiply_add(slope, static_cast<float>(i / 4 * 8 + i % 2), scores[i]);
    } else {
#pragma unroll
      for (int i = 0; i < keys / 2; ++i) scores[i] = rule.biased(scores[i], query + i / 2 % 2 * 8, first, i / 4 * 8 + i % 2);
    }
  }

  /// What becomes of row r; all lanes together.
  __device__ __forceinline__ SoftmaxEnd end(const AttentionParams& params, int head, float factor, int r) const {
    return end_of_sum(params, head, factor, largest[r], reduce_lanes<4>(sum[r], Sum()));
  }
  /// The same where the sum of the whole row's weights is known.
  static __device__ __forceinline__ SoftmaxEnd end_of_sum(const AttentionParams& params, int head, float factor,
                                                          float largest, float sum) {
    const float total = multiply(sum, inverse_weight_factor<Element>);
    const SoftmaxEnd end = approximate_end_of<shape>(params, head, multiply(largest, factor), total);
    return {multiply(end.scale, inverse_weight_factor<Element>), end.lse};
  }
};

/// Weights of keys 16 `step` to 16 `step` + 15, rounded: A of a product with their values.
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
