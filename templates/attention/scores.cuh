// From dot products to scores: scale, soft cap, score_mod, ALiBi, and masking.
#pragma once

#include "attention/modification.cuh"
#include "device/matrix.cuh"

namespace tunesmith {

/// True if a matrix product can add ALiBi's bias to the dot products.
template <const AttentionShape& shape>
constexpr bool adds_bias = shape.alibi && !shape.softcap && !shape.score_mod;

/// Returns whether the sum of three elements represents the slope: f16 may overflow, or its rounding error times 255 keys
/// may be too large for a score.
template <typename Element>
__device__ __forceinline__ bool slope_fits(const AttentionParams& params, float slope) {
  return slope != 0.0f && (!is_same<Element, f16> || (absolute(slope) < 0x1p15f && params.scale <= 1.0f));
}

/// Scores of one head of one batch entry. `Modification` wraps the user functions: score() is score_mod, keeps() is
/// mask_mod, each only if the shape has it.
template <const AttentionShape& shape, typename Modification>
class Scores {
 public:
  /// True if a score is `factor` times a dot product: the maximum is then taken of dot products.
  static constexpr bool linear = !shape.softcap && !shape.alibi && !shape.score_mod;
  /// Scores are in units of dot products; factor() applies the scale.
  static constexpr bool unscaled = !shape.score_mod;
  /// Rows are consecutive queries of one head.
  static constexpr bool neighbours = true;
  /// factor() contains the scale of K.
  static constexpr bool scales_keys = shape.scaled && linear;

  __device__ __forceinline__ Scores(const AttentionParams& params, const Sequence& sequence, int batch, int head)
      : params_(&params), visibility_(params, sequence), batch_(batch), head_(head) {
    if constexpr (shape.alibi) slope_ = AttentionFeatures<shape>::Bias::template slope_of<shape>(params, head);
    if constexpr (scales_keys) key_scale_ = AttentionFeatures<shape>::Scales::k_of(params, batch, head);
  }

  __device__ __forceinline__ const AttentionParams& params() const { return *params_; }
  __device__ __forceinline__ const Visibility<shape>& visibility() const { return visibility_; }

  /// Returns the factor from a result of operator() to an exponent of 2.
  __device__ __forceinline__ float factor() const {
    if constexpr (scales_keys) return multiply(factor(*params_), key_scale_);
    return factor(*params_);
  }
  static __device__ __forceinline__ float factor(const AttentionParams& params) {
    return unscaled ? params.scale_log2 : log2_e;
  }

  /// Returns the score of the query and key `first` + `at` from their dot product. In unrolled code `at` is a constant and
  /// `first` is uniform for a row, so the compiler computes terms of `first` once.
  __device__ __forceinline__ float operator()(float dot, int query, int first, int at) const {
    if constexpr (linear) {
      return dot;
    } else if constexpr (unscaled) {
      return biased(capped(dot), query, first, at);
    } else {
      const float score = multiply(capped(dot), params_->scale);
      return biased(Modification::score(score, batch_, head_, query, first + at, params_->aux), query, first, at);
    }
  }

  /// Returns score - slope * |position of the query - position of the key|; the distance is exact below 2^24.
  __device__ __forceinline__ float biased(float score, int query, int first, int at) const {
    if constexpr (shape.alibi)
      return AttentionFeatures<shape>::Bias::biased(slope_, score, query + visibility_.offset - first, at);
    else
      return score;
  }
  __device__ __forceinline__ float slope() const { return slope_; }

  /// Returns whether the pair is unmasked. Do not compute scores of masked pairs: score_mod reads user arrays. `inside`: the
  /// pair is known to be visible; `kept`: mask_mod is known to keep it.
  __device__ __forceinline__ bool counts(int query, int key, bool inside, bool kept) const {
    bool seen = inside || visibility_.sees(query, key);
    if constexpr (shape.score_mod || shape.mask_mod) seen = seen && query < visibility_.seq_q;
    if constexpr (shape.mask_mod) seen = seen && (kept || Modification::keeps(batch_, head_, query, key, params_->aux));
    return seen;
  }

 private:
  __device__ __forceinline__ float capped(float dot) const {
    if constexpr (shape.softcap) return AttentionFeatures<shape>::Cap::capped(*params_, dot);
    return dot;
  }

  const AttentionParams* params_;
  Visibility<shape> visibility_;
  int batch_, head_;
  float slope_ = 0.0f;  ///< in units of the score
  float key_scale_ = 1.0f;
};

/// Without user functions.
struct NoModification {};

}  // namespace tunesmith
