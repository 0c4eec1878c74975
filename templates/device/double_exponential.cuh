// exp(x - max) in double, and softmax's other arithmetic: the counterpart of PreciseArithmetic in device/exponential.cuh.
#pragma once

#include "device/double.cuh"
#include "device/exponential.cuh"

namespace tunesmith {

/// The factor of the elements.
struct DoubleScale {
  double factor = 1.0;
};

/// exp(scale * (x - maximum)) within two units in the last place: the rounding errors of the difference and of the product
/// would be errors of the result, multiplied by its exponent of up to 745, so their sum corrects it.
struct DoubleExponential {
  using Scale = DoubleScale;
  static constexpr double bias = 0.0;
  static constexpr double far_below = -800.0;  // exp(-746) is 0; the corrections of infinite differences are NaN

  DoubleScale scale;
  double origin;

  __device__ __forceinline__ explicit DoubleExponential(double maximum, DoubleScale exponent_scale = {})
      : scale(exponent_scale), origin(maximum) {}

  /// Elements are not centered before the call, which needs the rounding error of that.
  __device__ __forceinline__ constexpr bool moves() const { return false; }
  __device__ __forceinline__ double centered(double x) const { return x; }

  __device__ __forceinline__ double operator()(double x) const {
    const double below = subtract(x, origin);
    const double exponent = multiply(below, scale.factor);
    const double lost = fused_multiply_add(lost_by_adding(x, -origin, below), scale.factor,
                                           fused_multiply_add(below, scale.factor, -exponent));
    const double power = exponential_of(exponent);
    return fused_multiply_add(power, exponent > far_below ? lost : 0.0, power);
  }

  /// Returns the factor that makes a sum relative to `other`'s maximum, which must not be smaller.
  __device__ __forceinline__ double rescale_to(const DoubleExponential& other) const { return other(origin); }
  /// In one factor: what it loses as a denormal number is less than the smallest one in each result.
  __device__ __forceinline__ SplitPowerOf<double> split_rescale_to(const DoubleExponential& other) const {
    return {rescale_to(other), 1.0};
  }
};

/// exponential / sum, corrected by the remainder of the first product like PreciseQuotient. `factor`: rescales exponentials
/// that are relative to another maximum.
struct DoubleQuotient {
  double sum, scale, factor;

  __device__ __forceinline__ DoubleQuotient(double largest, double row_sum, double rescale = 1.0)
      : sum(row_sum), scale(is_finite(largest) ? divide(1.0, row_sum) : double_of(0u, 0x7ff80000u)), factor(rescale) {}
  __device__ __forceinline__ double operator()(double exponential) const {
    const double rescaled = multiply(exponential, factor);
    const double quotient = multiply(rescaled, scale);
    return fused_multiply_add(fused_multiply_add(-quotient, sum, rescaled), scale, quotient);
  }
};

struct DoubleArithmetic {
  using Exponential = DoubleExponential;
  using Quotient = DoubleQuotient;
  template <int terms>
  using RunningSum = SumOf<(terms > 4), double>;
};

}  // namespace tunesmith
