#pragma once
// Keys of one-shot calls: a fixed number of words, compared and hashed without a branch.

#include <array>
#include <cstddef>
#include <cstdint>

#include "tunesmith/dispatch.h"

namespace tunesmith {

/// What a DispatchTable takes as Key.
template <std::size_t count>
struct DispatchKey {
  std::array<std::uint64_t, count> words{};

  bool operator==(const DispatchKey& other) const noexcept {
    std::uint64_t difference = 0;
    for (std::size_t i = 0; i < count; ++i) difference |= words[i] ^ other.words[i];
    return difference == 0;
  }

  /// The multiplications are independent of each other, so that they overlap; the odd factors are digits of the golden ratio
  /// and of square roots of primes. The last product carries every bit into the upper ones.
  std::uint64_t hash() const noexcept {
    static_assert(count <= factors.size());
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += words[i] * factors[i];
    return (sum ^ (sum >> 32)) * factors[0];
  }

 private:
  static constexpr std::array<std::uint64_t, 26> factors{
      0x9e3779b97f4a7c15U, 0xbb67ae8584caa73bU, 0x3c6ef372fe94f82bU, 0xa54ff53a5f1d36f1U, 0x510e527fade682d1U,
      0x9b05688c2b3e6c1fU, 0x1f83d9abfb41bd6bU, 0x5be0cd19137e2179U, 0xcbbb9d5dc1059ed9U, 0x629a292a367cd507U,
      0x9159015a3070dd17U, 0x152fecd8f70e5939U, 0x67332667ffc00b31U, 0x8eb44a8768581511U, 0xdb0c2e0d64f98fa7U,
      0x47b5481dbefa4fa5U, 0xae5f9156e7b6d99bU, 0xcf6c85d39d1a1e15U, 0x2f73477d6a4563cbU, 0x6d1826cafd82e1edU,
      0x8b43d4570a51b937U, 0xe360b596dc380c3fU, 0x1c456002ce13e9f9U, 0x6f19633143a0af0fU, 0xd94ebeb1ab313933U,
      0x261dc1f2b8a998c9U};
};

}  // namespace tunesmith
