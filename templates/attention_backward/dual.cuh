// Dual numbers, over which score_mod is compiled a second time: its value and its derivative by the score, computed together
// (forward-mode automatic differentiation; Griewank and Walther, "Evaluating Derivatives", 2008, chapter 3).
//
// Derivatives of constants are -0: the compiler knows that x + -0 is x. A term whose own derivative is 0 gives none, even
// where the other factor is infinite. Values are computed as float computes them.
#pragma once

#include "attention/user_functions.cuh"

namespace dual_numbers {

/// Replaces `float` in the differentiated source.
struct Dual {
  float value, derivative;

  Dual() = default;
  __device__ constexpr Dual(float number, float by_score = -0.0f) : value(number), derivative(by_score) {}
  __device__ constexpr Dual(double number) : Dual(static_cast<float>(number)) {}
  __device__ constexpr Dual(int number) : Dual(static_cast<float>(number)) {}
  __device__ constexpr Dual(unsigned number) : Dual(static_cast<float>(number)) {}
  __device__ constexpr Dual(long number) : Dual(static_cast<float>(number)) {}
  __device__ constexpr Dual(unsigned long number) : Dual(static_cast<float>(number)) {}
  __device__ constexpr Dual(long long number) : Dual(static_cast<float>(number)) {}
  __device__ constexpr Dual(unsigned long long number) : Dual(static_cast<float>(number)) {}

  /// The derivative is lost, so conversions are explicit.
  template <typename Number>
  __device__ constexpr explicit operator Number() const {
    return static_cast<Number>(value);
  }

  /// The address, as no other pointer than Dual's: the bits of a number have no derivative.
  struct Address {
    Dual* dual;
    __device__ __forceinline__ operator Dual*() const { return dual; }
  };
  __device__ __forceinline__ Address operator&() { return {this}; }

  /// factor * derivative.
  static __device__ __forceinline__ constexpr float chain(float factor, float derivative) {
    return derivative == 0.0f ? -0.0f : factor * derivative;
  }
  /// A function's value, and its derivative by this number.
  __device__ __forceinline__ Dual through(float result, float slope) const { return {result, chain(slope, derivative)}; }
  /// tanh with the value `result`. Its slope is finite, or NaN if the result is, and needs no test for a derivative of 0.
  __device__ __forceinline__ Dual through_tanh(float result) const {
    return {result, tunesmith::fused_multiply_add(-result, result, 1.0f) * derivative};
  }

  __device__ constexpr Dual operator+() const { return *this; }
  __device__ constexpr Dual operator-() const { return {-value, derivative == 0.0f ? -0.0f : -derivative}; }
  friend __device__ constexpr Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.derivative + b.derivative}; }
  friend __device__ constexpr Dual operator-(Dual a, Dual b) {
    return {a.value - b.value, b.derivative == 0.0f ? a.derivative : a.derivative - b.derivative};
  }
  friend __device__ constexpr Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, chain(b.value, a.derivative) + chain(a.value, b.derivative)};
  }
  friend __device__ constexpr Dual operator/(Dual a, Dual b) {
    const float quotient = a.value / b.value;
    return {quotient, chain(1.0f / b.value, a.derivative) + chain(-quotient / b.value, b.derivative)};
  }
  __device__ constexpr Dual& operator+=(Dual b) { return *this = *this + b; }
  __device__ constexpr Dual& operator-=(Dual b) { return *this = *this - b; }
  __device__ constexpr Dual& operator*=(Dual b) { return *this = *this * b; }
  __device__ constexpr Dual& operator/=(Dual b) { return *this = *this / b; }
  __device__ constexpr Dual& operator++() { return *this += 1.0f; }
  __device__ constexpr Dual& operator--() { return *this -= 1.0f; }
  __device__ constexpr Dual operator++(int) {
    const Dual before = *this;
    *this += 1.0f;
    return before;
  }
  __device__ constexpr Dual operator--(int) {
    const Dual before = *this;
    *this -= 1.0f;
    return before;
  }

  friend __device__ constexpr bool operator<(Dual a, Dual b) { return a.value < b.value; }
  friend __device__ constexpr bool operator>(Dual a, Dual b) { return a.value > b.value; }
  friend __device__ constexpr bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  friend __device__ constexpr bool operator>=(Dual a, Dual b) { return a.value >= b.value; }
  friend __device__ constexpr bool operator==(Dual a, Dual b) { return a.value == b.value; }
  friend __device__ constexpr bool operator!=(Dual a, Dual b) { return a.value != b.value; }
};

// CUDA's functions of float, found by the type of their arguments.

__device__ __forceinline__ bool isnan(Dual x) { return x.value != x.value; }
__device__ __forceinline__ bool isinf(Dual x) { return x.value == INFINITY || x.value == -INFINITY; }
__device__ __forceinline__ bool isfinite(Dual x) { return x.value - x.value == 0.0f; }

__device__ __forceinline__ Dual fabsf(Dual x) {
  return x.through(::fabsf(x.value), x.value > 0.0f ? 1.0f : x.value < 0.0f ? -1.0f : 0.0f);
}
__device__ __forceinline__ Dual fabs(Dual x) { return fabsf(x); }
__device__ __forceinline__ Dual abs(Dual x) { return fabsf(x); }
__device__ __forceinline__ Dual floorf(Dual x) { return ::floorf(x.value); }
__device__ __forceinline__ Dual floor(Dual x) { return ::floorf(x.value); }
__device__ __forceinline__ Dual ceilf(Dual x) { return ::ceilf(x.value); }
__device__ __forceinline__ Dual ceil(Dual x) { return ::ceilf(x.value); }
__device__ __forceinline__ Dual roundf(Dual x) { return ::roundf(x.value); }
__device__ __forceinline__ Dual round(Dual x) { return ::roundf(x.value); }
__device__ __forceinline__ Dual rintf(Dual x) { return ::rintf(x.value); }
__device__ __forceinline__ Dual rint(Dual x) { return ::rintf(x.value); }
__device__ __forceinline__ Dual truncf(Dual x) { return ::truncf(x.value); }
__device__ __forceinline__ Dual trunc(Dual x) { return ::truncf(x.value); }

/// The smaller and the larger of two numbers; of equal ones, the mean of their derivatives.
__device__ __forceinline__ Dual fminf(Dual x, Dual y) {
  const float mean = 0.5f * (x.derivative + y.derivative);
  return {::fminf(x.value, y.value), x.value < y.value ? x.derivative : y.value < x.value ? y.derivative : mean};
}
__device__ __forceinline__ Dual fmaxf(Dual x, Dual y) {
  const float mean = 0.5f * (x.derivative + y.derivative);
  return {::fmaxf(x.value, y.value), x.value > y.value ? x.derivative : y.value > x.value ? y.derivative : mean};
}
__device__ __forceinline__ Dual fmin(Dual x, Dual y) { return fminf(x, y); }
__device__ __forceinline__ Dual fmax(Dual x, Dual y) { return fmaxf(x, y); }
__device__ __forceinline__ Dual min(Dual x, Dual y) { return fminf(x, y); }
__device__ __forceinline__ Dual max(Dual x, Dual y) { return fmaxf(x, y); }
__device__ __forceinline__ Dual __saturatef(Dual x) { return fminf(fmaxf(x, 0.0f), 1.0f); }

__device__ __forceinline__ Dual fmaf(Dual x, Dual y, Dual z) {
  const float derivative = Dual::chain(y.value, x.derivative) + Dual::chain(x.value, y.derivative);
  return {::fmaf(x.value, y.value, z.value), derivative + z.derivative};
}
__device__ __forceinline__ Dual fma(Dual x, Dual y, Dual z) { return fmaf(x, y, z); }
__device__ __forceinline__ Dual __fmaf_rn(Dual x, Dual y, Dual z) { return fmaf(x, y, z); }
__device__ __forceinline__ Dual __fdividef(Dual x, Dual y) {
  const float quotient = ::__fdividef(x.value, y.value), inverse = ::__fdividef(1.0f, y.value);
  return {quotient, Dual::chain(inverse, x.derivative) + Dual::chain(-quotient * inverse, y.derivative)};
}
__device__ __forceinline__ Dual fmodf(Dual x, Dual y) {
  const float quotient = ::truncf(x.value / y.value);
  return {::fmodf(x.value, y.value), x.derivative + Dual::chain(-quotient, y.derivative)};
}
__device__ __forceinline__ Dual fmod(Dual x, Dual y) { return fmodf(x, y); }
__device__ __forceinline__ Dual copysignf(Dual x, Dual y) {
  const float value = ::copysignf(x.value, y.value);
  return x.through(value, value == x.value ? 1.0f : -1.0f);
}
__device__ __forceinline__ Dual copysign(Dual x, Dual y) { return copysignf(x, y); }

__device__ __forceinline__ Dual expf(Dual x) {
  const float value = ::expf(x.value);
  return x.through(value, value);
}
__device__ __forceinline__ Dual exp(Dual x) { return expf(x); }
__device__ __forceinline__ Dual __expf(Dual x) {
  const float value = ::__expf(x.value);
  return x.through(value, value);
}
__device__ __forceinline__ Dual exp2f(Dual x) {
  const float value = ::exp2f(x.value);
  return x.through(value, 0.693147180559945309f * value);
}
__device__ __forceinline__ Dual exp2(Dual x) { return exp2f(x); }
__device__ __forceinline__ Dual expm1f(Dual x) { return x.through(::expm1f(x.value), ::expf(x.value)); }
__device__ __forceinline__ Dual expm1(Dual x) { return expm1f(x); }
__device__ __forceinline__ Dual logf(Dual x) { return x.through(::logf(x.value), 1.0f / x.value); }
__device__ __forceinline__ Dual log(Dual x) { return logf(x); }
__device__ __forceinline__ Dual __logf(Dual x) { return x.through(::__logf(x.value), ::__fdividef(1.0f, x.value)); }
__device__ __forceinline__ Dual log2f(Dual x) { return x.through(::log2f(x.value), 1.44269504088896341f / x.value); }
__device__ __forceinline__ Dual log2(Dual x) { return log2f(x); }
__device__ __forceinline__ Dual log10f(Dual x) { return x.through(::log10f(x.value), 0.434294481903251828f / x.value); }
__device__ __forceinline__ Dual log10(Dual x) { return log10f(x); }
__device__ __forceinline__ Dual log1pf(Dual x) { return x.through(::log1pf(x.value), 1.0f / (1.0f + x.value)); }
__device__ __forceinline__ Dual log1p(Dual x) { return log1pf(x); }

__device__ __forceinline__ Dual powf(Dual x, Dual y) {
  const float value = ::powf(x.value, y.value);
  float derivative = -0.0f;
  if (x.derivative != 0.0f) derivative += y.value * ::powf(x.value, y.value - 1.0f) * x.derivative;
  if (y.derivative != 0.0f) derivative += value * ::logf(x.value) * y.derivative;
  return {value, derivative};
}
__device__ __forceinline__ Dual pow(Dual x, Dual y) { return powf(x, y); }
__device__ __forceinline__ Dual sqrtf(Dual x) {
  const float value = ::sqrtf(x.value);
  return x.through(value, 0.5f / value);
}
__device__ __forceinline__ Dual sqrt(Dual x) { return sqrtf(x); }
__device__ __forceinline__ Dual rsqrtf(Dual x) {
  const float value = ::rsqrtf(x.value);
  return x.through(value, -0.5f * value / x.value);
}
__device__ __forceinline__ Dual rsqrt(Dual x) { return rsqrtf(x); }
__device__ __forceinline__ Dual cbrtf(Dual x) {
  const float value = ::cbrtf(x.value);
  return x.through(value, 1.0f / (3.0f * value * value));
}
__device__ __forceinline__ Dual cbrt(Dual x) { return cbrtf(x); }
__device__ __forceinline__ Dual hypotf(Dual x, Dual y) {
  const float value = ::hypotf(x.value, y.value);
  return {value, Dual::chain(x.value / value, x.derivative) + Dual::chain(y.value / value, y.derivative)};
}
__device__ __forceinline__ Dual hypot(Dual x, Dual y) { return hypotf(x, y); }

__device__ __forceinline__ Dual sinf(Dual x) {
  return x.through(user_text::sinf(x.value), x.derivative == 0.0f ? 0.0f : user_text::cosf(x.value));
}
__device__ __forceinline__ Dual sin(Dual x) { return sinf(x); }
__device__ __forceinline__ Dual cosf(Dual x) {
  return x.through(user_text::cosf(x.value), x.derivative == 0.0f ? 0.0f : -user_text::sinf(x.value));
}
__device__ __forceinline__ Dual cos(Dual x) { return cosf(x); }
__device__ __forceinline__ void sincosf(Dual x, Dual* sine, Dual* cosine) {
  *sine = sinf(x);
  *cosine = cosf(x);
}
__device__ __forceinline__ Dual tanf(Dual x) {
  const float value = user_text::tanf(x.value);
  return x.through(value, 1.0f + value * value);
}
__device__ __forceinline__ Dual tan(Dual x) { return tanf(x); }
__device__ __forceinline__ Dual asinf(Dual x) {
  return x.through(::asinf(x.value), ::rsqrtf((1.0f - x.value) * (1.0f + x.value)));
}
__device__ __forceinline__ Dual asin(Dual x) { return asinf(x); }
__device__ __forceinline__ Dual acosf(Dual x) {
  return x.through(::acosf(x.value), -::rsqrtf((1.0f - x.value) * (1.0f + x.value)));
}
__device__ __forceinline__ Dual acos(Dual x) { return acosf(x); }
__device__ __forceinline__ Dual atanf(Dual x) { return x.through(::atanf(x.value), 1.0f / (1.0f + x.value * x.value)); }
__device__ __forceinline__ Dual atan(Dual x) { return atanf(x); }
__device__ __forceinline__ Dual atan2f(Dual y, Dual x) {
  const float square = x.value * x.value + y.value * y.value;
  return {::atan2f(y.value, x.value),
          Dual::chain(x.value / square, y.derivative) + Dual::chain(-y.value / square, x.derivative)};
}
__device__ __forceinline__ Dual atan2(Dual y, Dual x) { return atan2f(y, x); }
__device__ __forceinline__ Dual sinhf(Dual x) { return x.through(::sinhf(x.value), ::coshf(x.value)); }
__device__ __forceinline__ Dual sinh(Dual x) { return sinhf(x); }
__device__ __forceinline__ Dual coshf(Dual x) { return x.through(::coshf(x.value), ::sinhf(x.value)); }
__device__ __forceinline__ Dual cosh(Dual x) { return coshf(x); }
__device__ __forceinline__ Dual tanhf(Dual x) { return x.through_tanh(::tanhf(x.value)); }
__device__ __forceinline__ Dual tanh(Dual x) { return tanhf(x); }
__device__ __forceinline__ Dual fast_tanhf(Dual x) { return x.through_tanh(user_text::fast_tanhf(x.value)); }
__device__ __forceinline__ Dual __tanhf(Dual x) { return x.through_tanh(user_text::__tanhf(x.value)); }
__device__ __forceinline__ Dual erff(Dual x) {
  return x.through(::erff(x.value), 1.12837916709551257f * ::expf(-x.value * x.value));
}
__device__ __forceinline__ Dual erf(Dual x) { return erff(x); }
__device__ __forceinline__ Dual erfcf(Dual x) {
  return x.through(::erfcf(x.value), -1.12837916709551257f * ::expf(-x.value * x.value));
}
__device__ __forceinline__ Dual erfc(Dual x) { return erfcf(x); }

/// Conversions of elements of any type, for user functions.
__device__ __forceinline__ Dual to_float(Dual x) { return x; }

}  // namespace dual_numbers
