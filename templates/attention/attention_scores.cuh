// From a dot product to what the softmax takes: scale, soft cap, a user's modification, ALiBi; and which scores count.
#pragma once

#include "attention/attention_modification.cuh"

namespace tunesmith {

/// tanh(x) from one power of two, within 2^-21 of 1; for scores, whose own rounding is larger.
__device__ __forceinline__ float fast_tanh(float x) {
  const float power = exp2_approx(multiply(x, 2.0f * log2_e));  // e^(2 x); +inf and 0 give 1 and -1
  return subtract(1.0f, divide(2.0f, add(power, 1.0f)));
}

/// Scores of one head of one batch entry. `Modification` is made of the user's text by the generated source: score()
/// is what becomes of a score, keeps() whether it counts, from where it stands; of each only what the shape says there is.
template <const AttentionShape& shape, typename Modification>
class Scores {
 public:
  /// A score is `factor` times a dot product and nothing else, so that the maximum may be taken of dot products.
  static constexpr bool linear = !shape.softcap && !shape.alibi && !shape.score_mod;

  __device__ __forceinline__ Scores(const AttentionParams& params, const Sequence& sequence, int batch, int head)
      : params_(&params), visibility_(params, sequence), batch_(batch), head_(head) {
    if constexpr (shape.alibi) slope_ = multiply(params.alibi_slopes[head], log2_e);
  }

  __device__ __forceinline__ const Visibility<shape>& visibility() const { return visibility_; }

  /// What a value of operator() is multiplied with to be an exponent of 2.
  __device__ __forceinline__ float factor() const { return linear ? params_->scale_log2 : 1.0f; }

  /// Of the dot product of query and key: the dot product itself where scores are linear, else the exponent of 2.
  __device__ __forceinline__ float operator()(float dot, int query, int key) const {
    if constexpr (linear) {
      return dot;
    } else if constexpr (!shape.softcap && !shape.score_mod) {
      return fused_multiply_add(dot, params_->scale_log2, distance_bias(query, key));
    } else {
      float score = multiply(dot, params_->scale);
      if constexpr (shape.softcap) score = multiply(params_->softcap, fast_tanh(multiply(score, params_->inverse_softcap)));
      if constexpr (shape.score_mod) score = Modification::score(score, batch_, head_, query, key, params_->aux);
      return shape.alibi ? fused_multiply_add(score, log2_e, distance_bias(query, key)) : multiply(score, log2_e);
    }
  }

  /// Whether the score of query and key takes part. Without this a score must not be asked for: modifications read the
  /// user's arrays. `inside`: the two are known to see each other as far as Visibility goes.
  __device__ __forceinline__ bool counts(int query, int key, bool inside) const {
    bool seen = inside || visibility_.sees(query, key);
    if constexpr (shape.score_mod || shape.mask_mod) seen = seen && query < visibility_.seq_q;
    if constexpr (shape.mask_mod) seen = seen && Modification::keeps(batch_, head_, query, key, params_->aux);
    return seen;
  }

 private:
  /// -slope * distance of the key from the query's place, as an exponent of 2.
  __device__ __forceinline__ float distance_bias(int query, int key) const {
    if constexpr (!shape.alibi) return 0.0f;
    const int distance = query + visibility_.offset - key;
    return multiply(-slope_, static_cast<float>(distance < 0 ? -distance : distance));
  }

  const AttentionParams* params_;
  Visibility<shape> visibility_;
  int batch_, head_;
  float slope_ = 0.0f;
};

/// Of attention without a user's modification.
struct NoModification {};

}  // namespace tunesmith
