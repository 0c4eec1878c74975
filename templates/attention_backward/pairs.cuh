// From the dot product of a query and a key to its probability, and to the factor of its gradient.
#pragma once

#include "attention/masked_tiles.cuh"
#include "attention/scores.cuh"
#include "attention_backward/backward.cuh"

namespace tunesmith {

/// probability = exp(score - lse); the gradient of the (scaled) dot product is slope * the gradient of the score.
struct Pair {
  float probability, slope;
};

/// The gradients of an unmasked pair's score and of its scaled dot product. `product`: of dout and the value.
__device__ __forceinline__ float score_gradient_of(const Pair& pair, float product, float delta) {
  return multiply(pair.probability, subtract(product, delta));
}
__device__ __forceinline__ float gradient_of(const Pair& pair, float product, float delta) {
  return multiply(pair.slope, score_gradient_of(pair, product, delta));
}

/// Whether mask_mod keeps any pair of the K/V tile for `tile_q` queries.
template <int tile_q, typename Tiles>
__device__ __forceinline__ bool any_unmasked(const Tiles& tiles, int index) {
  bool any = false;
#pragma unroll
  for (int row = 0; row < (tile_q + mask_tile - 1) / mask_tile; ++row) any = any || tiles.any_unmasked(row, index);
  return any;
}

/// Pairs of one head of one batch entry.
template <const AttentionShape& shape, typename Modification>
class Pairs {
 public:
  /// The score is a multiple of the dot product, plus a constant.
  static constexpr bool straight = !shape.softcap && !shape.score_mod;

  __device__ __forceinline__ Pairs(const AttentionParams& params, const Sequence& sequence, int batch, int head)
      : scores_(params, sequence, batch, head), batch_(batch), head_(head) {}

  __device__ __forceinline__ const Visibility<shape>& visibility() const { return scores_.visibility(); }
  /// As Scores::counts().
  __device__ __forceinline__ bool counts(int query, int key, bool inside, bool kept) const {
    return scores_.counts(query, key, inside, kept);
  }
  /// Distance of the positions, as in ALiBi.
  __device__ __forceinline__ float distance(int query, int key) const {
    return absolute(static_cast<float>(query + visibility().offset - key));
  }

  /// The score that score_mod sees.
  __device__ __forceinline__ float unmodified(float dot) const {
    const AttentionParams& params = scores_.params();
    if constexpr (shape.softcap) dot = AttentionFeatures<shape>::Cap::capped(params, dot);
    return multiply(dot, params.scale);
  }

  /// Of an unmasked pair. `lse`: RowStatistics::lse of the query.
  __device__ __forceinline__ Pair operator()(float dot, int query, int key, float lse) const {
    const AttentionParams& params = scores_.params();
    Pair pair;
    pair.slope = 1.0f;
    float score = dot;
    if constexpr (shape.softcap) {
      score = AttentionFeatures<shape>::Cap::capped(params, dot);
      const float ratio = multiply(multiply(score, params.scale), params.inverse_softcap);
      pair.slope = fused_multiply_add(-ratio, ratio, 1.0f);
    }
    modify(pair, score, query, key);
    score = scores_.biased(score, query, key, 0);
    pair.probability = exp2_approx(fused_multiply_add(score, scores_.factor(), -lse));
    // The derivative may be infinite where the score is -inf.
    if (shape.score_mod && pair.probability == 0.0f) pair.slope = 0.0f;
    return pair;
  }

  /// Of an unmasked pair whose score has been capped, if there is a soft cap; without score_mod also of a masked one whose
  /// score is -inf.
  __device__ __forceinline__ Pair of_capped(float score, int query, int key, float lse) const {
    const AttentionParams& params = scores_.params();
    Pair pair;
    pair.slope = 1.0f;
    if constexpr (shape.softcap) {
      const float ratio = multiply(score, multiply(params.scale, params.inverse_softcap));
      pair.slope = maximum(fused_multiply_add(-ratio, ratio, 1.0f), 0.0f);
    }
    modify(pair, score, query, key);
    score = scores_.biased(score, query, key, 0);
    pair.probability = exp2_approx(fused_multiply_add(score, scores_.factor(), -lse));
    // The derivative may be infinite where the score is -inf.
    if (shape.score_mod && pair.probability == 0.0f) pair.slope = 0.0f;
    return pair;
  }

 private:
  /// Applies score_mod, if there is one.
  __device__ __forceinline__ void modify(Pair& pair, float& score, int query, int key) const {
    if constexpr (shape.score_mod) {
      const AttentionParams& params = scores_.params();
      const auto modified =
          Modification::differentiated(multiply(score, params.scale), batch_, head_, query, key, params.aux);
      score = modified.value;
      pair.slope = shape.softcap ? multiply(pair.slope, modified.derivative) : modified.derivative;
    }
  }

  Scores<shape, Modification> scores_;
  int batch_, head_;  ///< of score_mod
};

}  // namespace tunesmith
