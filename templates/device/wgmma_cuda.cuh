// Hopper's tensor cores for CUDA: wgmma. jit/host/tunesmith_wgmma_host.h has the same names for the host executor; change
// both together.
#pragma once

#include "device/hopper.cuh"

namespace tunesmith {

// ---- Order --------------------------------------------------------------------------------------------------------------

// The compiler does not know that wgmma reads and writes registers asynchronously, and it moves float arithmetic across
// volatile instructions. Inputs must be pinned before the tensor cores read them, and accumulators until they are done. So
// both functions take all accumulators (and A in registers) that are in flight.

template <int count>
__device__ __forceinline__ void pin(float (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(values[i]));
}
template <int count>
__device__ __forceinline__ void pin(uint32 (&values)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(values[i]));
}

/// Hides the value from the optimizer: dependent values are computed here instead of being kept in registers.
__device__ __forceinline__ int here(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// Call it before the first wgmma and after other instructions wrote its registers. All four warps, as for everything below.
template <typename... Registers>
__device__ __forceinline__ void wgmma_fence(Registers&... registers) {
  (pin(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Commits the products issued so far as a group.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// Waits until at most `pending` groups are incomplete. Takes the registers of the completed groups.
template <int pending, typename... Registers>
__device__ __forceinline__ void wgmma_wait(Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
  (pin(registers), ...);
}

// ---- Products -----------------------------------------------------------------------------------------------------------

/// The instructions for n columns, n = 8, 16, ..., 256. A source defines the ones it uses in this namespace:
/// TUNESMITH_WGMMA_64 defines Wgmma<64>.
template <int n>
struct Wgmma;

// Inline PTX names every register of d by number, so each n needs its own lists: d in the instruction string, and d as
// operands. Each list is the previous one and four more.
// clang-format off
#define TUNESMITH_D8_TEXT "%0, %1, %2, %3"
#define TUNESMITH_D16_TEXT TUNESMITH_D8_TEXT ", %4, %5, %6, %7"
#define TUNESMITH_D24_TEXT TUNESMITH_D16_TEXT ", %8, %9, %10, %11"
#define TUNESMITH_D32_TEXT TUNESMITH_D24_TEXT ", %12, %13, %14, %15"
#define TUNESMITH_D40_TEXT TUNESMITH_D32_TEXT ", %16, %17, %18, %19"
#define TUNESMITH_D48_TEXT TUNESMITH_D40_TEXT ", %20, %21, %22, %23"
#define TUNESMITH_D56_TEXT TUNESMITH_D48_TEXT ", %24, %25, %26, %27"
#define TUNESMITH_D64_TEXT TUNESMITH_D56_TEXT ", %28, %29, %30, %31"
#define TUNESMITH_D72_TEXT TUNESMITH_D64_TEXT ", %32, %33, %34, %35"
#define TUNESMITH_D80_TEXT TUNESMITH_D72_TEXT ", %36, %37, %38, %39"
#define TUNESMITH_D88_TEXT TUNESMITH_D80_TEXT ", %40, %41, %42, %43"
#define TUNESMITH_D96_TEXT TUNESMITH_D88_TEXT ", %44, %45, %46, %47"
#define TUNESMITH_D104_TEXT TUNESMITH_D96_TEXT ", %48, %49, %50, %51"
#define TUNESMITH_D112_TEXT TUNESMITH_D104_TEXT ", %52, %53, %54, %55"
#define TUNESMITH_D120_TEXT TUNESMITH_D112_TEXT ", %56, %57, %58, %59"
#define TUNESMITH_D128_TEXT TUNESMITH_D120_TEXT ", %60, %61, %62, %63"
#define TUNESMITH_D136_TEXT TUNESMITH_D128_TEXT ", %64, %65, %66, %67"
#define TUNESMITH_D144_TEXT TUNESMITH_D136_TEXT ", %68, %69, %70, %71"
#define TUNESMITH_D152_TEXT TUNESMITH_D144_TEXT ", %72, %73, %74, %75"
#define TUNESMITH_D160_TEXT TUNESMITH_D152_TEXT ", %76, %77, %78, %79"
#define TUNESMITH_D168_TEXT TUNESMITH_D160_TEXT ", %80, %81, %82, %83"
#define TUNESMITH_D176_TEXT TUNESMITH_D168_TEXT ", %84, %85, %86, %87"
#define TUNESMITH_D184_TEXT TUNESMITH_D176_TEXT ", %88, %89, %90, %91"
#define TUNESMITH_D192_TEXT TUNESMITH_D184_TEXT ", %92, %93, %94, %95"
#define TUNESMITH_D200_TEXT TUNESMITH_D192_TEXT ", %96, %97, %98, %99"
#define TUNESMITH_D208_TEXT TUNESMITH_D200_TEXT ", %100, %101, %102, %103"
#define TUNESMITH_D216_TEXT TUNESMITH_D208_TEXT ", %104, %105, %106, %107"
#define TUNESMITH_D224_TEXT TUNESMITH_D216_TEXT ", %108, %109, %110, %111"
#define TUNESMITH_D232_TEXT TUNESMITH_D224_TEXT ", %112, %113, %114, %115"
#define TUNESMITH_D240_TEXT TUNESMITH_D232_TEXT ", %116, %117, %118, %119"
#define TUNESMITH_D248_TEXT TUNESMITH_D240_TEXT ", %120, %121, %122, %123"
#define TUNESMITH_D256_TEXT TUNESMITH_D248_TEXT ", %124, %125, %126, %127"
#define TUNESMITH_D(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define TUNESMITH_D8() TUNESMITH_D(0)
#define TUNESMITH_D16() TUNESMITH_D8(), TUNESMITH_D(4)
#define TUNESMITH_D24() TUNESMITH_D16(), TUNESMITH_D(8)
#define TUNESMITH_D32() TUNESMITH_D24(), TUNESMITH_D(12)
#define TUNESMITH_D40() TUNESMITH_D32(), TUNESMITH_D(16)
#define TUNESMITH_D48() TUNESMITH_D40(), TUNESMITH_D(20)
#define TUNESMITH_D56() TUNESMITH_D48(), TUNESMITH_D(24)
#define TUNESMITH_D64() TUNESMITH_D56(), TUNESMITH_D(28)
#define TUNESMITH_D72() TUNESMITH_D64(), TUNESMITH_D(32)
#define TUNESMITH_D80() TUNESMITH_D72(), TUNESMITH_D(36)
#define TUNESMITH_D88() TUNESMITH_D80(), TUNESMITH_D(40)
#define TUNESMITH_D96() TUNESMITH_D88(), TUNESMITH_D(44)
#define TUNESMITH_D104() TUNESMITH_D96(), TUNESMITH_D(48)
#define TUNESMITH_D112() TUNESMITH_D104(), TUNESMITH_D(52)
#define TUNESMITH_D120() TUNESMITH_D112(), TUNESMITH_D(56)
#define TUNESMITH_D128() TUNESMITH_D120(), TUNESMITH_D(60)
#define TUNESMITH_D136() TUNESMITH_D128(), TUNESMITH_D(64)
#define TUNESMITH_D144() TUNESMITH_D136(), TUNESMITH_D(68)
#define TUNESMITH_D152() TUNESMITH_D144(), TUNESMITH_D(72)
#define TUNESMITH_D160() TUNESMITH_D152(), TUNESMITH_D(76)
#define TUNESMITH_D168() TUNESMITH_D160(), TUNESMITH_D(80)
#define TUNESMITH_D176() TUNESMITH_D168(), TUNESMITH_D(84)
#define TUNESMITH_D184() TUNESMITH_D176(), TUNESMITH_D(88)
#define TUNESMITH_D192() TUNESMITH_D184(), TUNESMITH_D(92)
#define TUNESMITH_D200() TUNESMITH_D192(), TUNESMITH_D(96)
#define TUNESMITH_D208() TUNESMITH_D200(), TUNESMITH_D(100)
#define TUNESMITH_D216() TUNESMITH_D208(), TUNESMITH_D(104)
#define TUNESMITH_D224() TUNESMITH_D216(), TUNESMITH_D(108)
#define TUNESMITH_D232() TUNESMITH_D224(), TUNESMITH_D(112)
#define TUNESMITH_D240() TUNESMITH_D232(), TUNESMITH_D(116)
#define TUNESMITH_D248() TUNESMITH_D240(), TUNESMITH_D(120)
#define TUNESMITH_D256() TUNESMITH_D248(), TUNESMITH_D(124)
// clang-format on

#define TUNESMITH_WGMMA_ADD(operand) "{\n.reg .pred add;\nsetp.ne.s32 add, %" #operand ", 0;\n"
#define TUNESMITH_WGMMA_NAME(n, type) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type
#define TUNESMITH_WGMMA_SHARED(type, n, d_text, d_operands, i0, i1, i2, i3)                           \
  asm volatile(TUNESMITH_WGMMA_ADD(i2) TUNESMITH_WGMMA_NAME(n, type) " {" d_text "}, %" #i0 ", %" #i1 \
                                                                     ", add, 1, 1, 0, %" #i3 ";\n}"   \
               : d_operands()                                                                         \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(b_order))    \
               : "memory")
#define TUNESMITH_WGMMA_REGISTERS(type, n, d_text, d_operands, i0, i1, i2, i3, i4, i5, i6)                                 \
  asm volatile(TUNESMITH_WGMMA_ADD(i5) TUNESMITH_WGMMA_NAME(n, type) " {" d_text "}, {%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 \
                                                                     "}, %" #i4 ", add, 1, 1, %" #i6 ";\n}"                \
               : d_operands()                                                                                              \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate)),                    \
                 "n"(static_cast<int>(b_order))                                                                            \
               : "memory")
/// Wgmma<n>: string of d and its operands, then the numbers of the operands after d.
#define TUNESMITH_WGMMA(n, d_text, d_operands, i0, i1, i2, i3, i4, i5, i6)                                                \
  template <>                                                                                                             \
  struct Wgmma<n> {                                                                                                       \
    template <typename T, Innermost b_order>                                                                              \
    __device__ __forceinline__ static void multiply(float (&d)[n / 2], uint64 a, uint64 b, bool accumulate) {             \
      static_assert(is_same<T, bf16> || is_same<T, f16>, "the element types of these instructions");                      \
      if constexpr (is_same<T, bf16>)                                                                                     \
        TUNESMITH_WGMMA_SHARED("bf16", n, d_text, d_operands, i0, i1, i2, i3);                                            \
      else                                                                                                                \
        TUNESMITH_WGMMA_SHARED("f16", n, d_text, d_operands, i0, i1, i2, i3);                                             \
    }                                                                                                                     \
    template <typename T, Innermost b_order>                                                                              \
    __device__ __forceinline__ static void multiply(float (&d)[n / 2], const uint32 (&a)[4], uint64 b, bool accumulate) { \
      static_assert(is_same<T, bf16> || is_same<T, f16>, "the element types of these instructions");                      \
      if constexpr (is_same<T, bf16>)                                                                                     \
        TUNESMITH_WGMMA_REGISTERS("bf16", n, d_text, d_operands, i0, i1, i2, i3, i4, i5, i6);                             \
      else                                                                                                                \
        TUNESMITH_WGMMA_REGISTERS("f16", n, d_text, d_operands, i0, i1, i2, i3, i4, i5, i6);                              \
    }                                                                                                                     \
  };

// clang-format off
#define TUNESMITH_WGMMA_8 TUNESMITH_WGMMA(8, TUNESMITH_D8_TEXT, TUNESMITH_D8, 4, 5, 6, 7, 8, 9, 10)
#define TUNESMITH_WGMMA_16 TUNESMITH_WGMMA(16, TUNESMITH_D16_TEXT, TUNESMITH_D16, 8, 9, 10, 11, 12, 13, 14)
#define TUNESMITH_WGMMA_24 TUNESMITH_WGMMA(24, TUNESMITH_D24_TEXT, TUNESMITH_D24, 12, 13, 14, 15, 16, 17, 18)
#define TUNESMITH_WGMMA_32 TUNESMITH_WGMMA(32, TUNESMITH_D32_TEXT, TUNESMITH_D32, 16, 17, 18, 19, 20, 21, 22)
#define TUNESMITH_WGMMA_40 TUNESMITH_WGMMA(40, TUNESMITH_D40_TEXT, TUNESMITH_D40, 20, 21, 22, 23, 24, 25, 26)
#define TUNESMITH_WGMMA_48 TUNESMITH_WGMMA(48, TUNESMITH_D48_TEXT, TUNESMITH_D48, 24, 25, 26, 27, 28, 29, 30)
#define TUNESMITH_WGMMA_56 TUNESMITH_WGMMA(56, TUNESMITH_D56_TEXT, TUNESMITH_D56, 28, 29, 30, 31, 32, 33, 34)
#define TUNESMITH_WGMMA_64 TUNESMITH_WGMMA(64, TUNESMITH_D64_TEXT, TUNESMITH_D64, 32, 33, 34, 35, 36, 37, 38)
#define TUNESMITH_WGMMA_72 TUNESMITH_WGMMA(72, TUNESMITH_D72_TEXT, TUNESMITH_D72, 36, 37, 38, 39, 40, 41, 42)
#define TUNESMITH_WGMMA_80 TUNESMITH_WGMMA(80, TUNESMITH_D80_TEXT, TUNESMITH_D80, 40, 41, 42, 43, 44, 45, 46)
#define TUNESMITH_WGMMA_88 TUNESMITH_WGMMA(88, TUNESMITH_D88_TEXT, TUNESMITH_D88, 44, 45, 46, 47, 48, 49, 50)
#define TUNESMITH_WGMMA_96 TUNESMITH_WGMMA(96, TUNESMITH_D96_TEXT, TUNESMITH_D96, 48, 49, 50, 51, 52, 53, 54)
#define TUNESMITH_WGMMA_104 TUNESMITH_WGMMA(104, TUNESMITH_D104_TEXT, TUNESMITH_D104, 52, 53, 54, 55, 56, 57, 58)
#define TUNESMITH_WGMMA_112 TUNESMITH_WGMMA(112, TUNESMITH_D112_TEXT, TUNESMITH_D112, 56, 57, 58, 59, 60, 61, 62)
#define TUNESMITH_WGMMA_120 TUNESMITH_WGMMA(120, TUNESMITH_D120_TEXT, TUNESMITH_D120, 60, 61, 62, 63, 64, 65, 66)
#define TUNESMITH_WGMMA_128 TUNESMITH_WGMMA(128, TUNESMITH_D128_TEXT, TUNESMITH_D128, 64, 65, 66, 67, 68, 69, 70)
#define TUNESMITH_WGMMA_136 TUNESMITH_WGMMA(136, TUNESMITH_D136_TEXT, TUNESMITH_D136, 68, 69, 70, 71, 72, 73, 74)
#define TUNESMITH_WGMMA_144 TUNESMITH_WGMMA(144, TUNESMITH_D144_TEXT, TUNESMITH_D144, 72, 73, 74, 75, 76, 77, 78)
#define TUNESMITH_WGMMA_152 TUNESMITH_WGMMA(152, TUNESMITH_D152_TEXT, TUNESMITH_D152, 76, 77, 78, 79, 80, 81, 82)
#define TUNESMITH_WGMMA_160 TUNESMITH_WGMMA(160, TUNESMITH_D160_TEXT, TUNESMITH_D160, 80, 81, 82, 83, 84, 85, 86)
#define TUNESMITH_WGMMA_168 TUNESMITH_WGMMA(168, TUNESMITH_D168_TEXT, TUNESMITH_D168, 84, 85, 86, 87, 88, 89, 90)
#define TUNESMITH_WGMMA_176 TUNESMITH_WGMMA(176, TUNESMITH_D176_TEXT, TUNESMITH_D176, 88, 89, 90, 91, 92, 93, 94)
#define TUNESMITH_WGMMA_184 TUNESMITH_WGMMA(184, TUNESMITH_D184_TEXT, TUNESMITH_D184, 92, 93, 94, 95, 96, 97, 98)
#define TUNESMITH_WGMMA_192 TUNESMITH_WGMMA(192, TUNESMITH_D192_TEXT, TUNESMITH_D192, 96, 97, 98, 99, 100, 101, 102)
#define TUNESMITH_WGMMA_200 TUNESMITH_WGMMA(200, TUNESMITH_D200_TEXT, TUNESMITH_D200, 100, 101, 102, 103, 104, 105, 106)
#define TUNESMITH_WGMMA_208 TUNESMITH_WGMMA(208, TUNESMITH_D208_TEXT, TUNESMITH_D208, 104, 105, 106, 107, 108, 109, 110)
#define TUNESMITH_WGMMA_216 TUNESMITH_WGMMA(216, TUNESMITH_D216_TEXT, TUNESMITH_D216, 108, 109, 110, 111, 112, 113, 114)
#define TUNESMITH_WGMMA_224 TUNESMITH_WGMMA(224, TUNESMITH_D224_TEXT, TUNESMITH_D224, 112, 113, 114, 115, 116, 117, 118)
#define TUNESMITH_WGMMA_232 TUNESMITH_WGMMA(232, TUNESMITH_D232_TEXT, TUNESMITH_D232, 116, 117, 118, 119, 120, 121, 122)
#define TUNESMITH_WGMMA_240 TUNESMITH_WGMMA(240, TUNESMITH_D240_TEXT, TUNESMITH_D240, 120, 121, 122, 123, 124, 125, 126)
#define TUNESMITH_WGMMA_248 TUNESMITH_WGMMA(248, TUNESMITH_D248_TEXT, TUNESMITH_D248, 124, 125, 126, 127, 128, 129, 130)
#define TUNESMITH_WGMMA_256 TUNESMITH_WGMMA(256, TUNESMITH_D256_TEXT, TUNESMITH_D256, 128, 129, 130, 131, 132, 133, 134)
// clang-format on

}  // namespace tunesmith
