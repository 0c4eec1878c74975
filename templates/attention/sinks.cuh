// Attention sinks: an additional term exp(sink) in the sum of a query's weights, with value 0.
#pragma once

#include "attention/softmax.cuh"

namespace tunesmith {

struct Sinks {
  /// end_of() with a sink.
  static __device__ __forceinline__ FinalScale end(float largest, float sum, float sink) {
    const float exponent = multiply(sink, log2_e);
    const float top = maximum(sum == 0.0f ? Maximum::identity() : largest, exponent);
    const float factor = sum == 0.0f ? 0.0f : exp2_approx(subtract(subtracted(largest), subtracted(top)));
    const FinalScale without =
        end_of(top, fused_multiply_add(sum, factor, exp2_approx(subtract(exponent, subtracted(top)))));
    return {multiply(without.scale, factor), without.lse};
  }
  /// approximate_end_of() with a sink.
  static __device__ __forceinline__ FinalScale approximate_end(float largest, float sum, float sink) {
    const bool none = sum == 0.0f;
    const float exponent = multiply(sink, log2_e);
    const float top = maximum(none ? Maximum::identity() : largest, exponent);
    const float factor = none ? 0.0f : exp2_approx(subtract(subtracted(largest), subtracted(top)));
    const float total = fused_multiply_add(sum, factor, exp2_approx(subtract(exponent, subtracted(top))));
    const FinalScale end = approximate_end_of(top, total);
    return {multiply(end.scale, factor), end.lse};
  }
};

}  // namespace tunesmith
