#include "templates/row_program/evaluate/sum_of_terms.h"

#include <algorithm>
#include <cmath>

namespace tunesmith::row_program {

template <typename Real>
void SumOfTerms<Real>::add(const BoundedOf<Real>& term) {
  sum_ += term.value;
  bound_ += term.bound;
  count_ += 1;
  if (std::isfinite(term.value)) (term.value < 0 ? negative_ : positive_) += std::fabs(term.value);
  integers_ = integers_ && term.bound == 0 && term.value == std::nearbyint(term.value);
}

template <typename Real>
void SumOfTerms<Real>::add(const SumOfTerms& other) {
  sum_ += other.sum_;
  bound_ += other.bound_;
  count_ += other.count_;
  positive_ += other.positive_;
  negative_ += other.negative_;
  integers_ = integers_ && other.integers_;
}

template <typename Real>
Outcomes<Real> SumOfTerms<Real>::outcomes(Real roundings) const {
  constexpr Real most = Arithmetic<Real>::most;
  Outcomes<Real> all;
  const Real magnitude = positive_ + negative_;
  if (integers_ && magnitude <= Arithmetic<Real>::whole) {
    all.add({sum_, 0});
    return all;
  }
  if (std::isnan(sum_) && bound_ != anything) {
    all.add({sum_, 0});
    return all;
  }
  const Real bound =
      bound_ + allowed_rounding(magnitude, roundings) + allowed_rounding(sum_, 2) + evaluation_rounding(count_, magnitude);
  const auto exceeds = [&](Real partial) { return partial + bound_ + allowed_rounding(partial, roundings) >= most; };
  const bool plus = exceeds(positive_), minus = exceeds(negative_);
  if (bound_ == anything) {
    all.add({sum_, anything});
  } else if (std::isinf(sum_)) {
    all.add({sum_, 0});
    if (sum_ > 0 ? minus : plus) all.add({std::nan(""), 0});
  } else {
    // The finite part of the interval; the infinite part is a case of its own.
    const BoundedOf<Real> sum = in_range(sum_, bound);
    all.add(sum.bound == anything ? BoundedOf<Real>{std::clamp(sum_, -most, most), bound} : sum);
    if (plus) all.add({anything, 0});
    if (minus) all.add({-anything, 0});
    if (plus && minus) all.add({std::nan(""), 0});
  }
  return all;
}

template class SumOfTerms<double>;
template class SumOfTerms<long double>;

}  // namespace tunesmith::row_program
