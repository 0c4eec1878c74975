// Tensor cores on sm_75 and later, one warp at a time: mma.sync fed by ldmatrix, asynchronous copies, and a swizzle of
// shared memory that avoids bank conflicts. The same names on the GPU and in the host executor.
//
// A fragment is one lane's share of a matrix of 16-bit elements, two in a word, the one of the lower index in the low half.
// With g = lane / 4 and t = lane % 4, multiply_accumulate_16x8x16 has
//   a[0] row g,     k 2t, 2t+1        b[0] k 2t, 2t+1,   column g        d[0], d[1] row g,     columns 2t, 2t+1
//   a[1] row g + 8, k 2t, 2t+1        b[1] k 2t+8, 2t+9, column g        d[2], d[3] row g + 8, columns 2t, 2t+1
//   a[2] row g,     k 2t+8, 2t+9
//   a[3] row g + 8, k 2t+8, 2t+9
// so that two accumulators of neighbouring columns, packed, are the A of a following product without any shuffle.
//
// load_matrix_x4 loads four matrices of 8 rows of 16 bytes: lane i names row i % 8 of matrix i / 8, and r[j] is this lane's
// share of matrix j: elements 2t and 2t+1 of its row g or, transposed, of its column g. Which lane names which row:
//   A                             row lane % 16,                    k from lane / 16 * 8;      r is a
//   B of 16 columns, [column][k]  column lane / 16 * 8 + lane % 8,  k from lane / 8 % 2 * 8;   r is b of the first eight
//                                 columns, then b of the others (K)
//   B of 16 columns, [k][column]  k lane % 16,                      columns from lane / 16 * 8, transposed (V)
// All 32 lanes take part in everything here but the copies.
#pragma once

#include "device/platform.cuh"

#ifdef TUNESMITH_HOST_EXECUTOR
#include <tunesmith_matrix_host.h>
#else
#include "device/matrix_cuda.cuh"
#endif

namespace tunesmith {

/// Returns where chunk `chunk` (16 bytes) of row `row` lies in shared memory: bytes from the start of a tile whose rows have
/// `row_bytes`, a multiple of 16, without gaps.
///
/// ldmatrix loads the same chunk of eight consecutive rows together, without conflicts if their positions differ modulo 8.
/// So within groups of `period` chunks, the largest power of two up to 8 that divides a row, a chunk's position is XORed
/// with how often the rows before it have come back to the same position modulo 8. Eight consecutive chunks from a multiple
/// of eight, as copies write them, do not conflict either.
template <int row_bytes>
__device__ __forceinline__ constexpr int swizzled(int row, int chunk) {
  static_assert(row_bytes > 0 && row_bytes % 16 == 0, "rows are chunks of 16 bytes");
  constexpr uint32 chunks = row_bytes / 16;
  constexpr uint32 period = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : chunks % 2 == 0 ? 2 : 1;
  const uint32 turn = static_cast<uint32>(row) / (8 / period) % period;
  return row * row_bytes + static_cast<int>(static_cast<uint32>(chunk) ^ turn) * 16;
}

}  // namespace tunesmith
