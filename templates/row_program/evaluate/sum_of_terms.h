#pragma once
// A sum in float64, with bounds of the sum in f32 in any order of additions (or in long double, with bounds for f64).
// Internal to templates/.

#include <array>
#include <cstddef>

#include "templates/row_program/evaluate/bounded.h"

namespace tunesmith::row_program {

/// The values that a reduction may have. The first one is that without an overflow of a partial sum.
template <typename Real>
struct Outcomes {
  std::array<BoundedOf<Real>, 6> values{};
  std::size_t count = 0;

  void add(const BoundedOf<Real>& value) { values[count++] = value; }
};

/// A growing sum.
///
/// A partial sum lies between the sum of the negative terms and the sum of the positive terms, whatever the order. Where
/// both are in the range of the kernel's arithmetic, no addition overflows and the sum is finite. Where the sum of the
/// positive terms is not, a partial sum may be +inf, and it stays +inf unless another one is -inf, which gives NaN; likewise
/// for the negative terms.
template <typename Real>
class SumOfTerms {
 public:
  void add(const BoundedOf<Real>& term);
  void add(const SumOfTerms& other);
  /// Returns the possible sums if a term goes through at most `roundings` roundings.
  Outcomes<Real> outcomes(Real roundings) const;

  Real value() const { return sum_; }
  /// The sum of the terms' bounds.
  Real bound() const { return bound_; }
  Real count() const { return count_; }

 private:
  Real sum_ = 0, bound_ = 0, count_ = 0;
  Real positive_ = 0, negative_ = 0;  ///< magnitudes of the finite terms of each sign
  bool integers_ = true;              ///< all terms are exact integers
};

}  // namespace tunesmith::row_program
