// Elements of one byte: the 8-bit floats e4m3 and e5m2 (OCP 8-bit floating point specification), and 8-bit integers. Results
// beyond the largest number become that number, as cvt.rn.satfinite gives; a file of its own, because few kernels need it.
#pragma once

#include "device/edges.cuh"

// Conversions in hardware.
#if !defined(TUNESMITH_HOST_EXECUTOR) && TUNESMITH_SM >= 890
#define TUNESMITH_FLOAT8 1
#else
#define TUNESMITH_FLOAT8 0
#endif

namespace tunesmith {

struct e4m3 {
  unsigned char bits;
};
struct e5m2 {
  unsigned char bits;
};
struct i8 {
  unsigned char bits;
};

/// A float32 without its sign as the bits of a narrower float, rounded to nearest even. `bias`: of the exponent; `largest`:
/// bits of the largest number. NaN gives 0x7f.
template <int fraction_bits, int bias, uint32 largest>
__device__ __forceinline__ uint32 narrow_magnitude(uint32 magnitude) {
  constexpr int dropped = 23 - fraction_bits;
  constexpr uint32 rebias = static_cast<uint32>(127 - bias) << 23;
  // Adding this number leaves multiples of the smallest number in the low bits.
  constexpr uint32 aligner = static_cast<uint32>(127 + 1 - bias - fraction_bits + 23) << 23;
  if (magnitude > 0x7f800000u) return 0x7fu;
  if (magnitude >= (largest << dropped) + rebias) return largest;
  if (magnitude < rebias + (1u << 23)) return bits_of(add(float_of(magnitude), float_of(aligner))) - aligner;
  const uint32 odd = magnitude >> dropped & 1u;
  return (magnitude - rebias + ((1u << (dropped - 1)) - 1u) + odd) >> dropped;
}

__device__ __forceinline__ float to_float(e4m3 value) {
#if TUNESMITH_FLOAT8
  uint32 pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16>(value.bits)));
  return to_float(f16{static_cast<uint16>(pair)});
#else
  const uint32 sign = static_cast<uint32>(value.bits & 0x80u) << 24, magnitude = value.bits & 0x7fu;
  if (magnitude == 0x7fu) return float_of(0x7fffffffu);
  return float_of(sign | bits_of(multiply(float_of(magnitude << 20), 0x1.0p120f)));
#endif
}
/// The upper byte of a float16.
__device__ __forceinline__ float to_float(e5m2 value) { return to_float(f16{static_cast<uint16>(value.bits << 8)}); }
__device__ __forceinline__ float to_float(i8 value) { return static_cast<float>(static_cast<signed char>(value.bits)); }

/// Converts two values to two bytes, the first in the low one.
template <typename T>
__device__ __forceinline__ uint32 pack_bytes(float low, float high);
template <>
__device__ __forceinline__ uint32 pack_bytes<e4m3>(float low, float high) {
#if TUNESMITH_FLOAT8
  uint16 pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  const uint32 a = bits_of(low), b = bits_of(high);
  return (a >> 24 & 0x80u) | narrow_magnitude<3, 7, 0x7eu>(a & 0x7fffffffu) |
         ((b >> 24 & 0x80u) | narrow_magnitude<3, 7, 0x7eu>(b & 0x7fffffffu)) << 8;
#endif
}
template <>
__device__ __forceinline__ uint32 pack_bytes<e5m2>(float low, float high) {
#if TUNESMITH_FLOAT8
  uint16 pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  const uint32 a = bits_of(low), b = bits_of(high);
  return (a >> 24 & 0x80u) | narrow_magnitude<2, 15, 0x7bu>(a & 0x7fffffffu) |
         ((b >> 24 & 0x80u) | narrow_magnitude<2, 15, 0x7bu>(b & 0x7fffffffu)) << 8;
#endif
}
/// Rounds to the nearest integer, ties to even; beyond the ends gives the ends, NaN 0. The result is the low byte.
__device__ __forceinline__ uint32 byte_of_integer(float value) {
#ifdef TUNESMITH_HOST_EXECUTOR
  if (value != value) return 0;
  const float limited = value < -128.0f ? -128.0f : (value > 127.0f ? 127.0f : value);
  return static_cast<uint32>(static_cast<int>(__builtin_rintf(limited)));
#else
  uint32 rounded;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(rounded) : "f"(value));
  return rounded;
#endif
}
template <>
__device__ __forceinline__ uint32 pack_bytes<i8>(float low, float high) {
#ifdef TUNESMITH_HOST_EXECUTOR
  return (byte_of_integer(low) & 0xffu) | (byte_of_integer(high) & 0xffu) << 8;
#else
  return __byte_perm(byte_of_integer(low), byte_of_integer(high), 0x4440) & 0xffffu;
#endif
}

/// Converts four e4m3 numbers to two pairs of 16-bit floats, which is exact: bytes 0 and 1 become words[0], bytes 2 and 3
/// words[1].
template <typename Half>
__device__ __forceinline__ void widen_e4m3(uint32 bytes, uint32 (&words)[2]) {
#if TUNESMITH_FLOAT8
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high;}"
      : "=r"(words[0]), "=r"(words[1])
      : "r"(bytes));
  if constexpr (!is_same<Half, f16>)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      words[i] =
          pack<Half>(to_float(f16{static_cast<uint16>(words[i])}), to_float(f16{static_cast<uint16>(words[i] >> 16)}));
#else
#pragma unroll
  for (int i = 0; i < 2; ++i)
    words[i] = pack<Half>(to_float(e4m3{static_cast<unsigned char>(bytes >> (16 * i))}),
                          to_float(e4m3{static_cast<unsigned char>(bytes >> (16 * i + 8))}));
#endif
}
/// Swaps bytes 1 and 2.
__device__ __forceinline__ uint32 with_inner_bytes_swapped(uint32 bytes) {
#ifdef TUNESMITH_HOST_EXECUTOR
  return (bytes & 0xff0000ffu) | (bytes >> 8 & 0xff00u) | (bytes & 0xff00u) << 8;
#else
  return __byte_perm(bytes, 0, 0x3120);
#endif
}

template <>
__device__ __forceinline__ e4m3 from_float<e4m3>(float value) {
  return {static_cast<unsigned char>(pack_bytes<e4m3>(value, 0.0f))};
}
template <>
__device__ __forceinline__ e5m2 from_float<e5m2>(float value) {
  return {static_cast<unsigned char>(pack_bytes<e5m2>(value, 0.0f))};
}
template <>
__device__ __forceinline__ i8 from_float<i8>(float value) {
  return {static_cast<unsigned char>(byte_of_integer(value))};
}

/// Has the interface of Packed, for elements of one byte.
template <typename T, int count>
struct PackedBytes {
  static constexpr int bytes = count;
  static constexpr int access_bytes = bytes < 16 ? bytes : 16;
  static constexpr int accesses = bytes / access_bytes;
  static_assert(bytes == access_bytes * accesses && (access_bytes & (access_bytes - 1)) == 0,
                "a vector is 1, 2, 4, 8 or a multiple of 16 bytes");

  Bits<access_bytes> access[accesses];

  __device__ __forceinline__ void unpack(float (&values)[count]) const {
    if constexpr (bytes <= 2) {
#pragma unroll
      for (int k = 0; k < bytes; ++k) values[k] = to_float(T{static_cast<unsigned char>(access[0].word >> (8 * k))});
    } else {
#pragma unroll
      for (int k = 0; k < count; ++k)
        values[k] =
            to_float(T{static_cast<unsigned char>(access[k / access_bytes].word[k % access_bytes / 4] >> (k % 4 * 8))});
    }
  }
  __device__ __forceinline__ void forget_uses() {
    if constexpr (bytes == 2) {
      forget(access[0].word);
    } else if constexpr (bytes > 2) {
#pragma unroll
      for (int i = 0; i < accesses; ++i)
#pragma unroll
        for (int j = 0; j < access_bytes / 4; ++j) forget(access[i].word[j]);
    }
  }
  __device__ __forceinline__ void pack_from(const float (&values)[count]) {
    if constexpr (bytes == 1) {
      access[0].word = from_float<T>(values[0]).bits;
    } else if constexpr (bytes == 2) {
      access[0].word = static_cast<uint16>(pack_bytes<T>(values[0], values[1]));
    } else {
#pragma unroll
      for (int k = 0; k < count; k += 4)
        access[k / access_bytes].word[k % access_bytes / 4] =
            pack_bytes<T>(values[k], values[k + 1]) | pack_bytes<T>(values[k + 2], values[k + 3]) << 16;
    }
  }
};
template <int count>
struct Packed<e4m3, count> : PackedBytes<e4m3, count> {};
template <int count>
struct Packed<e5m2, count> : PackedBytes<e5m2, count> {};
template <int count>
struct Packed<i8, count> : PackedBytes<i8, count> {};

/// Applies `Edges`, or BranchedEdges to elements of one byte.
template <typename Edges>
struct ByteEdges : Edges {
  template <typename T, int count, LoadHint hint>
  static __device__ __forceinline__ Packed<T, count> load(const T* row, int64 column, Range range, bool inside,
                                                          Compute<T> outside) {
    if constexpr (sizeof(T) == 1)
      return BranchedEdges::load<T, count, hint>(row, column, range, inside, outside);
    else
      return Edges::template load<T, count, hint>(row, column, range, inside, outside);
  }
  template <typename T, int count, StoreHint hint>
  static __device__ __forceinline__ void store(T* row, int64 column, Range range, bool inside,
                                               const Compute<T> (&values)[count]) {
    Edges::template store<T, count, hint>(row, column, range, inside, values);
  }
};

}  // namespace tunesmith

#undef TUNESMITH_FLOAT8
