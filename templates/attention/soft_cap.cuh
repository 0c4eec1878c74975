// Soft cap: replaces a score by softcap * tanh(score / softcap). Scores and the cap are in units of dot products.
#pragma once

#include "attention/attention.cuh"
#include "device/matrix.cuh"

namespace tunesmith {

/// Caps one dot product.
struct SoftCap {
  static __device__ __forceinline__ float capped(const AttentionParams& params, float dot) {
    const float cap = divide(params.softcap, params.scale);
    return fused_multiply_add(-2.0f * cap, below_tanh(params, dot), cap);
  }

 private:
  /// Returns (1 - tanh(x)) / 2 = 1 / (e^(2 x) + 1) for x = scale * dot / softcap, within 2^-22; 0 and 1 for large |x|.
  static __device__ __forceinline__ float below_tanh(const AttentionParams& params, float dot) {
    const float to_exponent = multiply(multiply(params.scale, params.inverse_softcap), 2.0f * log2_e);
    return reciprocal_approx(add(exp2_approx(multiply(dot, to_exponent)), 1.0f));
  }
};

/// Caps all dot products of a thread in a tile (QuadSoftmax), with cheaper formulas for small values.
struct SoftCapSteps {
  /// Uses a polynomial if all dot products of the warp are near 0, as they usually are: the exponentials already keep the
  /// special function unit busy.
  template <int count>
  static __device__ __forceinline__ void cap(float (&scores)[count], const AttentionParams& params) {
    float farthest = 0.0f;
#pragma unroll
    for (int i = 0; i < count; ++i) farthest = maximum(farthest, absolute(scores[i]));
    if (all_in_warp(farthest <= params.cap_near)) {
#pragma unroll
      for (int i = 0; i < count; ++i) scores[i] = near_capped(params, scores[i]);
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i) scores[i] = SoftCap::capped(params, scores[i]);
    }
  }

  /// QuadSoftmax::exponentiate() for a tile with values small enough for a polynomial of two terms, or of three if the
  /// caller asks for lse; otherwise returns false and does nothing. Maxima may be of magnitudes: the subtracted value may
  /// exceed all scores, by less than the headroom of float32 and bf16.
  template <typename Element, int count, typename Softmax, typename Rescale>
  static __device__ __forceinline__ bool exponentiate_small(Softmax& softmax, float (&scores)[count],
                                                            const AttentionParams& params, float factor, Rescale& rescale) {
    constexpr bool has_room = !is_same<Element, f16>;
    float farthest[2][2], highest[2][2];
#pragma unroll
    for (int i = 0; i < count; ++i) {
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
    const bool has_lse = params.lse != nullptr;
    const bool beyond = !(maximum(size[0], size[1]) <= (has_lse ? params.cap_lse : params.cap_small));
    rescale.any = any_in_warp(beyond || softmax.grown(0, top, factor) || softmax.grown(1, top, factor));
    if (rescale.any) {
      if (any_in_warp(beyond)) return false;
      softmax.raise(top, factor, rescale);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) top[r] = softmax.origin_of(r, factor);
    if (has_lse)
      softmax.weigh(scores, [&](float dot, int r) { return lse_exponent(params, dot, top[r]); });
    else
      softmax.weigh(scores, [&](float dot, int r) { return small_exponent(params, dot, top[r]); });
    return true;
  }

 private:
  /// SoftCap::capped() for |dot products| up to params.cap_near.
  static __device__ __forceinline__ float near_capped(const AttentionParams& params, float dot) {
    const float square = multiply(dot, dot);
    float ratio = fused_multiply_add(square, params.cap_terms[2], params.cap_terms[1]);
    ratio = fused_multiply_add(square, ratio, params.cap_terms[0]);
    return multiply(dot, fused_multiply_add(square, ratio, 1.0f));
  }
  /// Returns the exponent of 2, plus `origin`, for |dot products| up to params.cap_small, as accurate as 16-bit weights
  /// need.
  static __device__ __forceinline__ float small_exponent(const AttentionParams& params, float dot, float origin) {
    const float ratio = fused_multiply_add(multiply(dot, dot), params.cap_small_terms[1], params.cap_small_terms[0]);
    return fused_multiply_add(dot, ratio, origin);
  }
  /// The same for |dot products| up to params.cap_lse, as accurate as an lse needs.
  static __device__ __forceinline__ float lse_exponent(const AttentionParams& params, float dot, float origin) {
    const float square = multiply(dot, dot);
    const float inner = fused_multiply_add(square, params.cap_lse_terms[2], params.cap_lse_terms[1]);
    return fused_multiply_add(dot, fused_multiply_add(square, inner, params.cap_lse_terms[0]), origin);
  }
};

}  // namespace tunesmith
