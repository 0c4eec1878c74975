// ALiBi: a bias of -slope * distance between the positions of query and key.
#pragma once

#include "attention/scores.cuh"

namespace tunesmith {

/// Adds the bias to one score.
struct Alibi {
  /// Returns the slope of a head, in units of dot products if factor() applies the scale.
  template <const AttentionShape& shape>
  static __device__ __forceinline__ float slope_of(const AttentionParams& params, int head) {
    return shape.score_mod ? params.alibi_slopes[head] : divide(params.alibi_slopes[head], params.scale);
  }
  /// Returns the biased score of key k + `at`, where k is `before` positions before the query.
  static __device__ __forceinline__ float biased(float slope, float score, int before, int at) {
    const float distance = subtract(static_cast<float>(before), static_cast<float>(at));
    return fused_multiply_add(-slope, absolute(distance), score);
  }
};

/// Adds the bias to all scores of a thread in a tile (QuadSoftmax).
struct AlibiSteps {
  /// If the bias grows with the key alone, `base` receives the term that all scores of a thread's row share.
  template <typename Rule, int count>
  static __device__ __forceinline__ void bias(float (&scores)[count], const Rule& rule, int query, int first_k, int lane,
                                              float (&base)[2]) {
    constexpr int keys = 2 * count;
    const int first = first_k + lane % 4 * 2, position = query + rule.visibility().offset;
    const int first_position = position - lane / 4, last_position = first_position + 15;
    const bool before = first_k + keys - 1 <= first_position;
    if (before || first_k >= last_position) {
      const float slope = before ? rule.slope() : -rule.slope();
#pragma unroll
      for (int r = 0; r < 2; ++r) base[r] = multiply(slope, static_cast<float>(first - (position + 8 * r)));
#pragma unroll
      for (int i = 0; i < count; ++i)
        scores[i] = fused_multiply_add(slope, static_cast<float>(i / 4 * 8 + i % 2), scores[i]);
    } else {
      bias_each(scores, rule, query, first);
    }
  }
  /// For tiles with keys on both sides of the queries' positions. `first`: this thread's first key.
  template <typename Rule, int count>
  static __device__ __forceinline__ void bias_each(float (&scores)[count], const Rule& rule, int query, int first) {
#pragma unroll
    for (int i = 0; i < count; ++i) scores[i] = rule.biased(scores[i], query + i / 2 % 2 * 8, first, i / 4 * 8 + i % 2);
  }
};

}  // namespace tunesmith
