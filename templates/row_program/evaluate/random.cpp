#include "templates/row_program/evaluate/random.h"

namespace tunesmith::row_program {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 2> key, std::array<std::uint32_t, 4> counter) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{counter[0]} * 0xd2511f53u, second = std::uint64_t{counter[2]} * 0xcd9e8d57u;
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

double uniform(std::int32_t seed, std::int64_t row, std::int64_t column, int index) noexcept {
  const auto numbers = philox(
      {static_cast<std::uint32_t>(seed), 0},
      {static_cast<std::uint32_t>(column / 4), static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(index), 0});
  return (static_cast<double>(numbers[static_cast<std::size_t>(column % 4)] >> 9) + 0.5) * 0x1p-23;
}

}  // namespace tunesmith::row_program
