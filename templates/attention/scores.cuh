// From a dot product to what the softmax takes: scale, soft cap, a user's modification, ALiBi; and which scores count.
#pragma once

#include "attention/modification.cuh"
#include "device/matrix.cuh"

namespace tunesmith {

/// What ALiBi adds may come out of a matrix product along with the dot products.
template <const AttentionShape& shape>
constexpr bool adds_bias = shape.alibi && !shape.softcap && !shape.score_mod;

/// ALiBi's slope of a head, in units of what it is subtracted from: of dot products where the scale is left to factor().
template <const AttentionShape& shape>
__device__ __forceinline__ float slope_of(const AttentionParams& params, int head) {
  return shape.score_mod ? params.alibi_slopes[head] : divide(params.alibi_slopes[head], params.scale);
}
/// Whether three elements make up the slope: it may be too large for f16, or what that cannot hold times 255 keys too large
/// an error of the score.
template <typename Element>
__device__ __forceinline__ bool slope_fits(const AttentionParams& params, float slope) {
  return slope != 0.0f && (!is_same<Element, f16> || (absolute(slope) < 0x1p15f && params.scale <= 1.0f));
}

/// Scores of one head of one batch entry. `Modification` is made of the user's text by the generated source: score()
/// is what becomes of a score, keeps() whether it counts, from where it stands; of each only what the shape says there is.
template <const AttentionShape& shape, typename Modification>
class Scores {
 public:
  /// A score is `factor` times a dot product and nothing else, so that the maximum may be taken of dot products.
  static constexpr bool linear = !shape.softcap && !shape.alibi && !shape.score_mod;
  /// The scale is left to factor(): scores are in units of dot products.
  static constexpr bool unscaled = !shape.score_mod;
  /// Rows are neighbouring queries of one head.
  static constexpr bool neighbours = true;

  __device__ __forceinline__ Scores(const AttentionParams& params, const Sequence& sequence, int batch, int head)
      : params_(&params), visibility_(params, sequence), batch_(batch), head_(head) {
    if constexpr (shape.alibi) slope_ = slope_of<shape>(params, head);
  }

  __device__ __forceinline__ const AttentionParams& params() const { return *params_; }
  __device__ __forceinline__ const Visibility<shape>& visibility() const { return visibility_; }

  /// What a value of operator() is multiplied with to be an exponent of 2.
  __device__ __forceinline__ float factor() const { return factor(*params_); }
  static __device__ __forceinline__ float factor(const AttentionParams& params) {
    return unscaled ? params.scale_log2 : log2_e;
  }

  /// Of the dot product of the query and key `first` + `at`: what times factor() is the exponent of 2. `at` is a constant in
  /// unrolled code, and `first` the same for all elements of a row: what depends on it alone is computed once.
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

  /// The score less slope * distance of the key from the query's place, which is exact below 2^24.
  __device__ __forceinline__ float biased(float score, int query, int first, int at) const {
    if constexpr (!shape.alibi) return score;
    const float distance = subtract(static_cast<float>(query + visibility_.offset - first), static_cast<float>(at));
    return fused_multiply_add(-slope_, absolute(distance), score);
  }
  __device__ __forceinline__ float slope() const { return slope_; }

  /// Whether the score of query and key takes part. Without this a score must not be asked for: modifications read the
  /// user's arrays. `inside`: the two are known to see each other as far as Visibility goes; `kept`: mask_mod is known to
  /// keep the pair if it is one.
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
  float slope_ = 0.0f;  ///< in units of what it is subtracted from
};

/// Of attention without a user's modification.
struct NoModification {};

}  // namespace tunesmith
