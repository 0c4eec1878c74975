#include "core/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tunesmith {
namespace {

/// Levenshtein's distance: insertions, deletions and replacements of one letter.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
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
