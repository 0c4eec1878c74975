#pragma once
// The seed of random tests that is not fixed.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tests/random/chance.h"

namespace tunesmith::test {

/// Returns a seed for a test's `purpose`. It follows from TUNESMITH_RANDOM_SEED, which scripts/random_seed.sh sets from the
/// sources, so that a test run can be repeated and each change draws other problems; without the variable, from the clock.
inline std::uint64_t fresh_seed(std::string_view purpose) {
  const char* const seed = std::getenv("TUNESMITH_RANDOM_SEED");
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return mixed(seed != nullptr ? std::strtoull(seed, nullptr, 0) : static_cast<std::uint64_t>(now), purpose);
}

}  // namespace tunesmith::test
