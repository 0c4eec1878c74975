#pragma once
// Reductions in float64 with bounds on the error of a kernel in f32. Internal to templates/.

#include <cstdint>
#include <vector>

#include "templates/row_program/bounded.h"
#include "templates/row_program/program.h"
#include "templates/row_program/sum_of_terms.h"

namespace tunesmith::row_program {

/// Roundings in f32 that a term of a sum goes through: those of a vector of 16 elements. Sums of vectors are compensated.
inline constexpr double sum_roundings = 16;

/// One result of a reduction: over a row, or over a group of columns.
class Accumulator {
 public:
  Accumulator(const Reduction& reduction, const Monoid* monoid);

  /// Adds the next column. `terms`: one for each operand.
  void add(std::int64_t column, const Bounded* terms);
  /// Returns what a part of the result may be; outcome k of all parts belongs together. At least one column was added.
  Outcomes outcomes(int part);
  /// Returns the columns that may be the result of an argmax or argmin, in ascending order.
  std::vector<std::int64_t> candidates();

 private:
  void add_extreme(Bounded term, std::int64_t column);
  void add_lse(const Bounded& term);
  void add_moments(const Bounded& term);
  void add_custom(const Bounded* terms);
  Bounded lse(int part) const;
  Outcomes moments(int part) const;
  Bounded custom(int part);
  Bounded argument();
  void combine(Bounded* left, const Bounded* right);

  struct Candidate {
    std::int64_t column;
    double high;
    bool may_be_nan = false;
  };

  Reducer reducer_;
  const Monoid* monoid_;
  double count_ = 0;
  bool uncertain_ = false;
  SumOfTerms terms_;
  double sum_ = 0, bound_ = 0, largest_bound_ = 0, magnitude_ = 0;
  // Extremes; minima are the maxima of negated values.
  double low_, high_, largest_;
  std::int64_t first_nan_ = -1;
  std::vector<Candidate> candidates_;
  double weighted_distance_ = 0;                       // of lse: sum of exp(x - m) |x - m|
  double mean_ = 0, squares_ = 0, bound_squares_ = 0;  // moments
  std::vector<Bounded> chain_, partials_, scratch_;
};

}  // namespace tunesmith::row_program
