// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
// 2011). A number depends on the seed, the row, the column and the index of the call alone, not on the configuration.
// row_program/random.h has the same function for the host.
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

/// Returns a random number in (0, 1): odd multiples of 2^-24. Four neighbouring columns share the computation, which the
/// compiler finds for vectors that start at a multiple of four columns.
__device__ __forceinline__ float uniform_number(int seed, int64 row, int64 column, int index) {
  const auto position = static_cast<uint32>(column);
  uint32 counter[4] = {position >> 2, static_cast<uint32>(row), static_cast<uint32>(index), 0};
  uint32 key[2] = {static_cast<uint32>(seed), 0};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64 first = uint64{0xD2511F53u} * counter[0], second = uint64{0xCD9E8D57u} * counter[2];
    counter[0] = static_cast<uint32>(second >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint32>(second);
    counter[2] = static_cast<uint32>(first >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint32>(first);
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  const uint32 lower = (position & 1u) == 0 ? counter[0] : counter[1],
               upper = (position & 1u) == 0 ? counter[2] : counter[3];
  const uint32 number = (position & 2u) == 0 ? lower : upper;
  return static_cast<float>((number >> 9) * 2 + 1) * 0x1.0p-24f;
}

}  // namespace tunesmith
