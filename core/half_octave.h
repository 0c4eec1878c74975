#pragma once
// Rounding of sizes to two steps an octave.

#include <bit>
#include <cstdint>

namespace tunesmith {

/// Returns the least number of the form 2^k or 3 * 2^k that is at least `n`; n itself if it is below 1.
constexpr std::int64_t half_octave(std::int64_t n) noexcept {
  if (n < 1) return n;
  const auto octave = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  const std::int64_t half = octave / 4 * 3;
  return n <= half ? half : octave;
}

}  // namespace tunesmith
