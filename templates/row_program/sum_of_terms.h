#pragma once
// A sum in float64 with what a sum in f32 may be, in any order of additions. Internal to templates/.

#include <array>
#include <cstddef>

#include "templates/row_program/bounded.h"

namespace tunesmith::row_program {

/// The values that a reduction may have. The first one is that without an overflow of a partial sum.
struct Outcomes {
  std::array<Bounded, 6> values{};
  std::size_t count = 0;

  void add(const Bounded& value) { values[count++] = value; }
};

/// A growing sum.
///
/// A partial sum lies between the sum of the negative terms and that of the positive ones, whatever the order. Where both
/// are in the range of f32, no addition overflows and the sum is finite. Where the sum of the positive terms is not, a
/// partial sum may be +inf, and it stays +inf unless another one is -inf, which gives NaN; likewise for the negative terms.
class SumOfTerms {
 public:
  void add(const Bounded& term);
  void add(const SumOfTerms& other);
  /// Returns what the sum may be if a term goes through at most `roundings` roundings.
  Outcomes outcomes(double roundings) const;

  double value() const { return sum_; }
  /// The sum of the terms' bounds.
  double bound() const { return bound_; }
  double count() const { return count_; }

 private:
  double sum_ = 0, bound_ = 0, count_ = 0;
  double positive_ = 0, negative_ = 0;  ///< magnitudes of the finite terms of each sign
  bool integers_ = true;                ///< all terms are exact integers
};

}  // namespace tunesmith::row_program
