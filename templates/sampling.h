#pragma once
// Random numbers for inputs, and parallel loops over rows, for the references of operations. Internal to templates/.

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace tunesmith {

/// SplitMix64 (Steele, Lea and Flood, 2014): one multiply-xor chain per number; random access by construction.
inline std::uint64_t scramble(std::uint64_t state) noexcept {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

/// Returns a uniform number in [0, 1).
inline double uniform(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

/// Returns an approximately standard normal number: the scaled sum of four uniform numbers. Its short tails do not matter
/// here.
inline double bell(std::uint64_t bits) noexcept {
  const double sum = static_cast<double>(bits & 0xffff) + static_cast<double>((bits >> 16) & 0xffff) +
                     static_cast<double>((bits >> 32) & 0xffff) + static_cast<double>(bits >> 48);
  return (sum / 65536 - 2) * 1.7320508;
}

/// Runs work(begin, end) over [0, count), on several threads if that pays off.
template <typename Work>
void over_rows(std::int64_t count, std::int64_t cols, const Work& work) {
  const std::int64_t threads =
      std::clamp<std::int64_t>(count * cols >> 16, 1, std::max(1u, std::min(16u, std::thread::hardware_concurrency())));
  if (threads == 1) return work(std::int64_t{0}, count);
  std::vector<std::thread> pool;
  for (std::int64_t i = 0; i < threads; ++i)
    pool.emplace_back([&, i] { work(count * i / threads, count * (i + 1) / threads); });
  for (std::thread& thread : pool) thread.join();
}

}  // namespace tunesmith
