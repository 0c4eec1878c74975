#pragma once
// Lists that multiply: every combination of their values.

#include <cstddef>
#include <vector>

namespace tunesmith::cli {

/// More problems than this are a typo in a list, which must not run for days.
inline constexpr std::size_t max_problems = 10000;

/// Calls `visit(choice)` for each combination; `choice[i]` is less than `sizes[i]`, and the last one varies fastest. No size
/// may be 0.
template <typename Visit>
void for_each_combination(const std::vector<std::size_t>& sizes, const Visit& visit) {
  std::vector<std::size_t> choice(sizes.size(), 0);
  for (;;) {
    visit(choice);
    std::size_t i = sizes.size();
    while (i > 0 && ++choice[i - 1] == sizes[i - 1]) choice[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace tunesmith::cli
