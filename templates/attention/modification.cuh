// Evaluates the user functions alone, at given positions, to check them against the reference.
#pragma once

#include "attention/attention.cuh"
#include "attention/modification_params.cuh"
#include "attention/user_functions.cuh"

namespace tunesmith {

constexpr int modification_threads = 128;

template <const AttentionShape& shape, typename Modification>
__device__ __forceinline__ void evaluate_modification(const ModificationParams& params) {
  for (int64 i = block_index() * modification_threads + thread_index(); i < params.rows * params.keys; i += params.stride) {
    const int* const place = params.places + i / params.keys * 5;
    const auto key = static_cast<int>(i % params.keys);
    if (key >= place[4]) continue;
    const int batch = place[0], head = place[1], query = place[2];
    bool keeps = true;
    if constexpr (shape.mask_mod) keeps = Modification::keeps(batch, head, query, place[3] + key, params.aux);
    float score = Maximum::identity();
    if (keeps) score = params.scores[i];
    if constexpr (shape.score_mod)
      if (keeps) score = Modification::score(score, batch, head, query, place[3] + key, params.aux);
    params.scores[i] = score;
  }
}

}  // namespace tunesmith
