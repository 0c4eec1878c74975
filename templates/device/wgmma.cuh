// Hopper's tensor cores (wgmma, sm_90a): D += A B for a warpgroup, D of 64 rows in registers, B in shared memory,
// A in shared memory or in registers. f16 and bf16 with float32 accumulators.
// Layouts follow the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include "device/hopper.cuh"
#include "device/vector.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

// ---- Matrices in shared memory ------------------------------------------------------------------------------------------

/// Descriptor of a matrix in shared memory, as TMA writes it with the same swizzle. The address is in the low word, so that
/// advancing within a matrix is one addition.
struct MatrixDescriptor {
  uint32 low, high;
  __device__ __forceinline__ constexpr uint64 bits() const { return static_cast<uint64>(high) << 32 | low; }
};
/// With a 128-byte swizzle: rows of 128 bytes, 8 rows per atom of 1024 bytes, tiles 1024-byte aligned. Shared memory ends
/// below 2^18.
///   k innermost (Q, K)  stride = 1024, from 8 rows to the next 8; leading is ignored. A step of 16 along k advances 32
///                       bytes within the 128; the next 64 elements of k are another tile.
///   n innermost (V)     stride = 1024, from 8 k to the next 8; leading = bytes of a tile, from 64 columns to the next 64.
///                       A step of 16 along k advances 2048 bytes.
template <int swizzle_bytes = 128>
__device__ __forceinline__ constexpr MatrixDescriptor matrix_descriptor(uint32 address, int stride_bytes,
                                                                        int leading_bytes = 16) {
  static_assert(swizzle_bytes == 0 || swizzle_bytes == 32 || swizzle_bytes == 64 || swizzle_bytes == 128, "see TensorMap");
  constexpr uint32 layout = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : swizzle_bytes == 32 ? 3 : 0;
  return {(static_cast<uint32>(leading_bytes) >> 4 << 16) + (address >> 4),
          layout << 30 | static_cast<uint32>(stride_bytes) >> 4};
}
/// Returns the descriptor advanced by `bytes`, with `leading_bytes` added to its leading dimension.
__device__ __forceinline__ constexpr MatrixDescriptor advance(MatrixDescriptor matrix, int bytes, int leading_bytes = 0) {
  return {matrix.low + static_cast<uint32>(bytes >> 4) + (static_cast<uint32>(leading_bytes >> 4) << 16), matrix.high};
}

/// Layout of B in shared memory: n rows with k innermost (K of attention), or k rows with n innermost (V).
enum class Innermost : int { k = 0, n = 1 };

}  // namespace tunesmith

#ifdef TUNESMITH_HOST_EXECUTOR
#include <tunesmith_wgmma_host.h>
#else
#include "device/wgmma_cuda.cuh"
#endif

namespace tunesmith {

// ---- Products -----------------------------------------------------------------------------------------------------------

/// d (64 x n) = A (64 x 16) B (16 x n), plus d if `accumulate`. T is f16 or bf16. Thread t of the warpgroup holds rows
/// 16*(t/32) + t%32/4 and 8 more, and of every 8 columns 2*(t%4) and the next: d[4*j] and d[4*j + 1] are columns 8*j +
/// 2*(t%4) and the next of the first row, d[4*j + 2] and d[4*j + 3] of the second. Asynchronous: see Order.
template <typename T, Innermost b_order, int count>
__device__ __forceinline__ void wgmma(float (&d)[count], MatrixDescriptor a, MatrixDescriptor b, bool accumulate) {
  Wgmma<2 * count>::template multiply<T, b_order>(d, a.bits(), b.bits(), accumulate);
}
/// A in registers, packed pairs: a[0] and a[2] are columns 2*(t%4) and 8 + 2*(t%4), each with the next, of the first row,
/// a[1] and a[3] of the second. So accumulators 8*k to 8*k + 7 of an earlier product, packed in order, are columns 16*k to
/// 16*k + 15 of A.
template <typename T, Innermost b_order, int count>
__device__ __forceinline__ void wgmma(float (&d)[count], const uint32 (&a)[4], MatrixDescriptor b, bool accumulate) {
  Wgmma<2 * count>::template multiply<T, b_order>(d, a, b.bits(), accumulate);
}

}  // namespace tunesmith

#endif
