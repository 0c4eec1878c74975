#pragma once
// Seeded choices: equal seeds give equal choices on every machine.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace tunesmith::test {

/// Mixes two numbers into a seed.
constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t bits = a + (b + 1) * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31);
}
/// Does the same for a text.
constexpr std::uint64_t mixed(std::uint64_t a, std::string_view text) noexcept {
  for (const char each : text) a = mixed(a, static_cast<unsigned char>(each));
  return a;
}

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() noexcept { return mixed(state_++, 0x7a11); }
  /// Returns a number from 0 to count - 1; 0 if count is not positive.
  std::int64_t below(std::int64_t count) noexcept {
    return count <= 0 ? 0 : static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(count));
  }
  double real() noexcept { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool with(double probability) noexcept { return real() < probability; }
  /// Returns a number from least to most, with an equal share for each octave of the distance from least.
  std::int64_t octave(std::int64_t least, std::int64_t most) noexcept {
    if (most <= least) return least;
    const double octaves = std::log2(static_cast<double>(most) - static_cast<double>(least) + 1);
    const auto distance = static_cast<std::int64_t>(std::exp2(octaves * real()) - 1);
    return distance > most - least ? most : least + distance;
  }
  template <typename Items>
  const auto& one_of(const Items& items) noexcept {
    return *std::next(std::begin(items), below(static_cast<std::int64_t>(std::size(items))));
  }
  template <typename Item>
  void shuffle(std::vector<Item>& items) noexcept {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace tunesmith::test
