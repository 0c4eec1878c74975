#include "api/cli/arguments/nearest.h"

#include <algorithm>
#include <numeric>

namespace tunesmith::cli {
namespace {

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
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

std::string nearest(std::string_view typed, const std::vector<std::string>& allowed) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, typed.size() / 3) + 1;
  for (const std::string& candidate : allowed) {
    const std::size_t distance = edit_distance(typed, candidate);
    if (distance >= best_distance || distance >= candidate.size()) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& allowed) {
  const std::string best = nearest(typed, allowed);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::string suggestion(std::string_view typed, const std::vector<std::string>& allowed) {
  const std::string hint = did_you_mean(typed, allowed);
  return (hint.empty() ? "; allowed: " : hint + " Allowed: ") + listed(allowed);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace tunesmith::cli
