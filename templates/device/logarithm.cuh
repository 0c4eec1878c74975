// The logarithm for log_softmax and log-sum-exp.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

/// Returns ln(1 + x) for x >= 0 within a unit in the last place, or 2.5 with an approximate quotient; 1 + x = 2^k m, ln(m) =
/// 2 atanh(s), s = (m - 1) / (m + 1). The exact m - 1 leads the sum, as in FreeBSD's log1p. NaN and +inf stay.
template <float (*quotient)(float, float) = divide>
__device__ __forceinline__ float log_of_one_plus(float x) {
  const float total = add(1.0f, x);
  if (!(total < 3.0e38f)) return total;
  const float lost = x < 1.0f ? subtract(x, subtract(total, 1.0f)) : subtract(1.0f, subtract(total, x));  // by rounding
  const uint32 offset = bits_of(total) - 0x3f3504f3u;  // sqrt(1/2): m lies in [sqrt(1/2), sqrt(2))
  const int k = static_cast<int>(offset) >> 23;
  const float m = float_of(bits_of(total) - (static_cast<uint32>(k) << 23));
  const float correction = k < 26 ? multiply(lost, float_of(static_cast<uint32>(127 - k) << 23)) : 0.0f;
  const float f = subtract(m, 1.0f);
  const float s = quotient(f, add(2.0f, f));
  const float z = multiply(s, s);
  float series = fused_multiply_add(z, 2.0f / 9.0f, 2.0f / 7.0f);
  series = fused_multiply_add(z, series, 2.0f / 5.0f);
  series = fused_multiply_add(z, series, 2.0f / 3.0f);
  const float half_square = multiply(0.5f, multiply(f, f));
  const float tail = subtract(multiply(s, fused_multiply_add(z, series, half_square)), half_square);
  // d ln(m) = correction / m.
  const float small = add(tail, fused_multiply_add(static_cast<float>(k), 9.05800061445916e-06f, quotient(correction, m)));
  const float leading = fused_multiply_add(static_cast<float>(k), 0.693138122558593750f, f);
  const float rounding = subtract(f, subtract(leading, multiply(static_cast<float>(k), 0.693138122558593750f)));
  return add(leading, add(small, rounding));
}

__device__ __forceinline__ float divide_approx(float a, float b) { return multiply(a, reciprocal_approx(b)); }
/// Returns ln(1 + x), with quotients that take few instructions: a short row has as many for its logarithm as for its sum.
__device__ __forceinline__ float log_of_sum(float x) { return log_of_one_plus<divide_approx>(x); }

}  // namespace tunesmith
