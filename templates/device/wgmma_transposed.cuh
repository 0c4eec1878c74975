// Hopper's tensor cores with A^T in shared memory: k rows with m innermost, as a row-major array that is used transposed
// lies in memory. device/wgmma.cuh has the products with k innermost.
#pragma once

#include "device/wgmma.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

#ifndef TUNESMITH_HOST_EXECUTOR

/// The instructions for n columns. A source defines the ones it uses: TUNESMITH_WGMMA_TRANSPOSED_256.
template <int n>
struct WgmmaTransposed;

#define TUNESMITH_WGMMA_TRANSPOSED_OF(type, n, d_text, d_operands, i0, i1, i2, i3)                    \
  asm volatile(TUNESMITH_WGMMA_ADD(i2) TUNESMITH_WGMMA_NAME(n, type) " {" d_text "}, %" #i0 ", %" #i1 \
                                                                     ", add, 1, 1, 1, %" #i3 ";\n}"   \
               : d_operands()                                                                         \
               : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(b_order))    \
               : "memory")
#define TUNESMITH_WGMMA_TRANSPOSED(n, d_text, d_operands, i0, i1, i2, i3)                                     \
  template <>                                                                                                 \
  struct WgmmaTransposed<n> {                                                                                 \
    template <typename T, Innermost b_order>                                                                  \
    __device__ __forceinline__ static void multiply(float (&d)[n / 2], uint64 a, uint64 b, bool accumulate) { \
      if constexpr (is_same<T, bf16>)                                                                         \
        TUNESMITH_WGMMA_TRANSPOSED_OF("bf16", n, d_text, d_operands, i0, i1, i2, i3);                         \
      else                                                                                                    \
        TUNESMITH_WGMMA_TRANSPOSED_OF("f16", n, d_text, d_operands, i0, i1, i2, i3);                          \
    }                                                                                                         \
  };

// clang-format off
#define TUNESMITH_WGMMA_TRANSPOSED_64 TUNESMITH_WGMMA_TRANSPOSED(64, TUNESMITH_D64_TEXT, TUNESMITH_D64, 32, 33, 34, 35)
#define TUNESMITH_WGMMA_TRANSPOSED_128 TUNESMITH_WGMMA_TRANSPOSED(128, TUNESMITH_D128_TEXT, TUNESMITH_D128, 64, 65, 66, 67)
#define TUNESMITH_WGMMA_TRANSPOSED_192 TUNESMITH_WGMMA_TRANSPOSED(192, TUNESMITH_D192_TEXT, TUNESMITH_D192, 96, 97, 98, 99)
#define TUNESMITH_WGMMA_TRANSPOSED_256 TUNESMITH_WGMMA_TRANSPOSED(256, TUNESMITH_D256_TEXT, TUNESMITH_D256, 128, 129, 130, 131)
// clang-format on

#endif

/// wgmma() with the descriptor of A^T: 16 rows of k with the 64 rows of A innermost, swizzled over 128 bytes. A step of 16
/// along k advances 2048 bytes.
template <typename T, Innermost b_order, int count>
__device__ __forceinline__ void wgmma_transposed(float (&d)[count], MatrixDescriptor a, MatrixDescriptor b,
                                                 bool accumulate) {
  WgmmaTransposed<2 * count>::template multiply<T, b_order>(d, a.bits(), b.bits(), accumulate);
}

}  // namespace tunesmith

#endif
