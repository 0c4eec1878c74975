#pragma once
// The random numbers of row programs, on the host. Device code computes the same. Internal to templates/.

#include <array>
#include <cstdint>

namespace tunesmith::row_program {

/// Philox4x32-10: four independent numbers of 32 bits from a counter and a key (Salmon, Moraes, Dror and Shaw, "Parallel
/// Random Numbers: As Easy as 1, 2, 3", SC 2011).
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 4> counter) noexcept;

/// Returns uniform(seed, index) at an element: a number of f32 in (0, 1).
///
/// The key is (seed, 0) and the counter (column / 4, row, index, 0): four neighbouring columns share a call, and column % 4
/// is the number that is taken. Its upper 23 bits n give (n + 1/2) 2^-23, which f32 represents exactly: the smallest number
/// is 2^-24, the largest 1 - 2^-24, and both log(u) and log(1 - u) are finite.
double uniform(std::int32_t seed, std::int64_t row, std::int64_t column, int index) noexcept;

}  // namespace tunesmith::row_program
