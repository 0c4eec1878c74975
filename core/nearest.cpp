#include "core/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace tunesmith {
namespace {

/// Optimal string alignment: insertions, deletions, replacements and swaps of neighbours cost one each.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view given, std::span<const std::string_view> known) {
  std::string_view nearest;
  std::size_t least = std::max<std::size_t>((given.size() + 1) / 3, 1) + 1;
  for (const std::string_view name : known)
    if (const std::size_t d = distance(given, name); d < least) {
      least = d;
      nearest = name;
    }
  return nearest;
}

}  // namespace tunesmith
