// Philox4x32-10, a counter-based random number generator: four independent 32-bit numbers from a counter and a key, without
// state (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
#pragma once

#include "device/platform.cuh"

namespace tunesmith {

/// Returns the upper half of a product. With __umulhi, ptxas computes both halves in one instruction. As a product of 64-bit
/// integers, the constants below take one or two more: nvcc 13.0 extends their sign and corrects the result.
__device__ __forceinline__ uint32 upper_product(uint32 a, uint32 b) {
#ifdef TUNESMITH_HOST_EXECUTOR
  return static_cast<uint32>(uint64{a} * b >> 32);
#else
  return __umulhi(a, b);
#endif
}

struct Philox {
  uint32 numbers[4];

  __device__ __forceinline__ Philox(uint64 key, uint32 c0, uint32 c1, uint32 c2, uint32 c3) : numbers{c0, c1, c2, c3} {
    auto low = static_cast<uint32>(key), high = static_cast<uint32>(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      constexpr uint32 first = 0xd2511f53u, second = 0xcd9e8d57u;
      const uint32 upper = upper_product(first, numbers[0]), lower = first * numbers[0];
      numbers[0] = upper_product(second, numbers[2]) ^ numbers[1] ^ low;
      numbers[1] = second * numbers[2];
      numbers[2] = upper ^ numbers[3] ^ high;
      numbers[3] = lower;
      low += 0x9e3779b9u;
      high += 0xbb67ae85u;
    }
  }
};

}  // namespace tunesmith
