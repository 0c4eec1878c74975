#pragma once
// A compensated sum in long double, for references of f64. Internal to templates/.

#include <cmath>

namespace tunesmith {

/// The sum is sum + lost, with more than twice the precision of double. An infinite sum stays infinite.
struct LongSum {
  long double sum = 0, lost = 0;

  void include(long double term) {
    const long double total = sum + term, included = total - sum;
    if (std::isfinite(total)) lost += (sum - (total - included)) + (term - included);
    sum = total;
  }
  void include_product(double a, double b) {
    const double product = a * b;
    include(product);
    if (std::isfinite(product)) include(std::fma(a, b, -product));
  }
  long double value() const { return sum + lost; }
};

}  // namespace tunesmith
