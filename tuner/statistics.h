#pragma once
// Robust centre and spread of a handful of timings.

#include <vector>

namespace tunesmith {

/// Of an even number of values the mean of the middle two; 0 of none.
double median(std::vector<double> values);
/// Median absolute deviation from the median; 0 of none.
double median_absolute_deviation(const std::vector<double>& values);

struct Timing {
  double median_us = 0, mad_us = 0;
  int samples = 0;
};
Timing summarize(const std::vector<double>& samples_us);

/// How far a median of that many samples may be off: three standard errors, microseconds; 0 of none.
double noise_us(const Timing& timing);

}  // namespace tunesmith
