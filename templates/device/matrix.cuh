// Tensor cores of sm_75 and later (mma.sync, ldmatrix), asynchronous copies, and a shared-memory swizzle without bank
// conflicts. The GPU and the host executor have the same names.
//
// A fragment is one lane's share of a matrix of 16-bit elements, two per word, the one with the lower index in the low half.
// With g = lane / 4 and t = lane % 4, multiply_accumulate_16x8x16 has
//   a[0] row g,     k 2t, 2t+1        b[0] k 2t, 2t+1,   column g        d[0], d[1] row g,     columns 2t, 2t+1
//   a[1] row g + 8, k 2t, 2t+1        b[1] k 2t+8, 2t+9, column g        d[2], d[3] row g + 8, columns 2t, 2t+1
//   a[2] row g,     k 2t+8, 2t+9
//   a[3] row g + 8, k 2t+8, 2t+9
// so two accumulators of neighbouring columns, packed, are the A operand of the next product without shuffles.
//
// load_matrix_x4 loads four matrices of 8 rows of 16 bytes. Lane i passes the address of row i % 8 of matrix i / 8; r[j] is
// this lane's share of matrix j: elements 2t and 2t+1 of row g or, transposed, of column g. Addresses by lane:
//   A                             row lane % 16,                    k from lane / 16 * 8;      r is a
//   B of 16 columns, [column][k]  column lane / 16 * 8 + lane % 8,  k from lane / 8 % 2 * 8;   r is b of each 8 columns (K)
//   B of 16 columns, [k][column]  k lane % 16,                      columns from lane / 16 * 8, transposed (V)
// All 32 lanes call these functions together, except the copies.
#pragma once

#include "device/platform.cuh"

#ifdef TUNESMITH_HOST_EXECUTOR
#include <tunesmith_matrix_host.h>
#else
#include "device/matrix_cuda.cuh"
#endif

namespace tunesmith {

/// Returns the byte offset of 16-byte chunk `chunk` of row `row` in a tile with rows of `row_bytes`, a multiple of 16.
///
/// ldmatrix reads the same chunk of eight consecutive rows, without conflicts if their positions differ modulo 8. Within
/// groups of `period` chunks (the largest power of two up to 8 that divides a row), a chunk's position is XORed with how
/// often earlier rows have returned to it modulo 8. Eight consecutive chunks, as copies write them, do not conflict either.
template <int row_bytes>
__device__ __forceinline__ constexpr int swizzled(int row, int chunk) {
  static_assert(row_bytes > 0 && row_bytes % 16 == 0, "rows are chunks of 16 bytes");
  constexpr uint32 chunks = row_bytes / 16;
  constexpr uint32 period = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : chunks % 2 == 0 ? 2 : 1;
  const uint32 turn = static_cast<uint32>(row) / (8 / period) % period;
  return row * row_bytes + static_cast<int>(static_cast<uint32>(chunk) ^ turn) * 16;
}

}  // namespace tunesmith
