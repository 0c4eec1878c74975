// Math functions that CUDA provides without a header, for user functions: C's on float32 and some with CUDA's names. They
// are declared here because including the system's headers would slow down every compilation.
#pragma once

#define TUNESMITH_OF_ONE(name)              \
  extern "C" float name##f(float) noexcept; \
  extern "C" double name(double) noexcept;  \
  inline float name(float x) { return name##f(x); }
#define TUNESMITH_OF_TWO(name)                     \
  extern "C" float name##f(float, float) noexcept; \
  extern "C" double name(double, double) noexcept; \
  inline float name(float x, float y) { return name##f(x, y); }

TUNESMITH_OF_ONE(fabs)
TUNESMITH_OF_ONE(exp)
TUNESMITH_OF_ONE(exp2)
TUNESMITH_OF_ONE(expm1)
TUNESMITH_OF_ONE(log)
TUNESMITH_OF_ONE(log2)
TUNESMITH_OF_ONE(log10)
TUNESMITH_OF_ONE(log1p)
TUNESMITH_OF_ONE(sin)
TUNESMITH_OF_ONE(cos)
TUNESMITH_OF_ONE(tan)
TUNESMITH_OF_ONE(atan)
TUNESMITH_OF_ONE(sinh)
TUNESMITH_OF_ONE(cosh)
TUNESMITH_OF_ONE(tanh)
TUNESMITH_OF_ONE(erf)
TUNESMITH_OF_ONE(erfc)
TUNESMITH_OF_ONE(sqrt)
TUNESMITH_OF_ONE(cbrt)
TUNESMITH_OF_ONE(floor)
TUNESMITH_OF_ONE(ceil)
TUNESMITH_OF_ONE(round)
TUNESMITH_OF_ONE(rint)
TUNESMITH_OF_ONE(trunc)
TUNESMITH_OF_TWO(pow)
TUNESMITH_OF_TWO(fmod)
TUNESMITH_OF_TWO(atan2)
TUNESMITH_OF_TWO(fmin)
TUNESMITH_OF_TWO(fmax)
TUNESMITH_OF_TWO(hypot)
TUNESMITH_OF_TWO(copysign)
#undef TUNESMITH_OF_ONE
#undef TUNESMITH_OF_TWO

extern "C" float fmaf(float, float, float) noexcept;
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
template <typename T>
inline T __ldg(const T* address) {
  return *address;
}

#define TUNESMITH_ORDERED(type)                             \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
TUNESMITH_ORDERED(int)
TUNESMITH_ORDERED(unsigned)
TUNESMITH_ORDERED(long)
TUNESMITH_ORDERED(long long)
TUNESMITH_ORDERED(unsigned long long)
TUNESMITH_ORDERED(double)
#undef TUNESMITH_ORDERED
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

extern "C" int abs(int) noexcept;
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline float abs(float x) { return fabsf(x); }
