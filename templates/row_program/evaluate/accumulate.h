#pragma once
// Reductions with bounds on the error of a kernel (bounded.h). Internal to templates/.

#include <cstdint>
#include <vector>

#include "templates/row_program/evaluate/bounded.h"
#include "templates/row_program/evaluate/sum_of_terms.h"
#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// Roundings that a term of a sum goes through: a vector has up to 16 elements, and sums of vectors are compensated.
inline constexpr double sum_roundings = 16;

/// One result of a reduction: over a row, or over a group of columns.
template <typename Real>
class Accumulator {
 public:
  /// `roundings`: of a term of a sum.
  Accumulator(const Reduction& reduction, const Monoid* monoid, double roundings);

  /// Adds the next column. `terms`: one for each operand.
  void add(std::int64_t column, const BoundedOf<Real>* terms);
  /// Returns the possible values of a part of the result; outcome k of all parts belongs together. At least one column was
  /// added.
  Outcomes<Real> outcomes(int part);
  /// Returns the columns that may be the result of an argmax or argmin, in ascending order.
  std::vector<std::int64_t> candidates();

 private:
  void add_extreme(BoundedOf<Real> term, std::int64_t column);
  void add_lse(const BoundedOf<Real>& term);
  void add_moments(const BoundedOf<Real>& term);
  void add_custom(const BoundedOf<Real>* terms);
  BoundedOf<Real> lse(int part) const;
  Outcomes<Real> moments(int part) const;
  BoundedOf<Real> custom(int part);
  BoundedOf<Real> argument();
  void combine(BoundedOf<Real>* left, const BoundedOf<Real>* right);

  struct Candidate {
    std::int64_t column;
    Real high;
    bool may_be_nan = false;
  };

  Reducer reducer_;
  const Monoid* monoid_;
  Real sum_roundings_;
  Real count_ = 0;
  bool uncertain_ = false;
  SumOfTerms<Real> terms_;
  Real sum_ = 0, bound_ = 0, largest_bound_ = 0, magnitude_ = 0;
  // Extremes; minima are the maxima of negated values.
  Real low_, high_, largest_;
  std::int64_t first_nan_ = -1;
  std::vector<Candidate> candidates_;
  Real weighted_distance_ = 0;                       // of lse: sum of exp(x - m) |x - m|
  Real mean_ = 0, squares_ = 0, bound_squares_ = 0;  // moments
  std::vector<BoundedOf<Real>> chain_, partials_, scratch_;
};

}  // namespace tunesmith::row_program
