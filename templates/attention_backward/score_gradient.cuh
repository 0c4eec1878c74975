// Evaluates the derivative of score_mod alone, at given positions, to check gradients against the reference.
#pragma once

#include "attention/modification.cuh"
#include "attention_backward/dual.cuh"

namespace tunesmith {

/// Replaces params.scores by the derivatives of score_mod at these scores, 0 where mask_mod masks the pair.
template <const AttentionShape& shape, typename Modification>
__device__ __forceinline__ void evaluate_score_gradient(const ModificationParams& params) {
  for (int64 i = block_index() * modification_threads + thread_index(); i < params.rows * params.keys; i += params.stride) {
    const int* const place = params.places + i / params.keys * 5;
    const auto key = static_cast<int>(i % params.keys);
    if (key >= place[4]) continue;
    const int batch = place[0], head = place[1], query = place[2];
    bool keeps = true;
    if constexpr (shape.mask_mod) keeps = Modification::keeps(batch, head, query, place[3] + key, params.aux);
    float derivative = 0.0f;
    if (keeps)
      derivative = Modification::differentiated(params.scores[i], batch, head, query, place[3] + key, params.aux).derivative;
    params.scores[i] = derivative;
  }
}

}  // namespace tunesmith
