// Philox4x32-10, a counter-based random number generator: four independent 32-bit numbers from a counter and a key, without
// state (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

struct Philox {
  uint32 numbers[4];

  __device__ __forceinline__ Philox(uint64 key, uint32 c0, uint32 c1, uint32 c2, uint32 c3) : numbers{c0, c1, c2, c3} {
    auto low = static_cast<uint32>(key), high = static_cast<uint32>(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const uint64 first = uint64{numbers[0]} * 0xd2511f53u, second = uint64{numbers[2]} * 0xcd9e8d57u;
      numbers[0] = static_cast<uint32>(second >> 32) ^ numbers[1] ^ low;
      numbers[1] = static_cast<uint32>(second);
      numbers[2] = static_cast<uint32>(first >> 32) ^ numbers[3] ^ high;
      numbers[3] = static_cast<uint32>(first);
      low += 0x9e3779b9u;
      high += 0xbb67ae85u;
    }
  }
};

}  // namespace tunesmith
