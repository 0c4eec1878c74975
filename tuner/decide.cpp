#include "tuner/decide.h"

#include <algorithm>
#include <cmath>

namespace tunesmith {
namespace {

constexpr double min_gain = 0.01;
constexpr double near_equal = 0.005;

bool beats(const Timing& candidate, const Timing& standard) {
  const double noise = std::hypot(noise_us(candidate), noise_us(standard));
  return standard.median_us - candidate.median_us > std::max(min_gain * standard.median_us, noise);
}

}  // namespace

std::size_t choose_winner(std::span<const Timing> finalists) {
  const auto fastest = std::ranges::min_element(finalists, {}, &Timing::median_us);
  if (fastest == finalists.end() || !beats(*fastest, finalists.front())) return 0;
  for (std::size_t i = 1; i < finalists.size(); ++i)
    if (finalists[i].median_us <= fastest->median_us * (1 + near_equal) && beats(finalists[i], finalists.front())) return i;
  return 0;
}

}  // namespace tunesmith
