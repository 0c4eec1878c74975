#include "tuner/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tunesmith {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double median_absolute_deviation(const std::vector<double>& values) {
  const double centre = median(values);
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (const double value : values) deviations.push_back(std::fabs(value - centre));
  return median(std::move(deviations));
}

Timing summarize(const std::vector<double>& samples_us) {
  return {median(samples_us), median_absolute_deviation(samples_us), static_cast<int>(samples_us.size())};
}

// Three standard errors of the median: for normal noise that is 1.25 standard deviations / sqrt(n), and one of those 1.48
// MAD.
double noise_us(const Timing& timing) {
  return timing.samples == 0 ? 0 : 3 * 1.2533 * 1.4826 * timing.mad_us / std::sqrt(timing.samples);
}

}  // namespace tunesmith
