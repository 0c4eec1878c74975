#include "templates/row_program/sum_of_terms.h"

#include <algorithm>
#include <cmath>

namespace tunesmith::row_program {

void SumOfTerms::add(const Bounded& term) {
  sum_ += term.value;
  bound_ += term.bound;
  count_ += 1;
  if (std::isfinite(term.value)) (term.value < 0 ? negative_ : positive_) += std::fabs(term.value);
  integers_ = integers_ && term.bound == 0 && term.value == std::nearbyint(term.value);
}

void SumOfTerms::add(const SumOfTerms& other) {
  sum_ += other.sum_;
  bound_ += other.bound_;
  count_ += other.count_;
  positive_ += other.positive_;
  negative_ += other.negative_;
  integers_ = integers_ && other.integers_;
}

Outcomes SumOfTerms::outcomes(double roundings) const {
  Outcomes all;
  const double magnitude = positive_ + negative_;
  if (integers_ && magnitude <= 0x1p24) {
    all.add({sum_, 0});
    return all;
  }
  if (std::isnan(sum_) && bound_ != anything) {
    all.add({sum_, 0});
    return all;
  }
  const double bound = bound_ + allowed_rounding(magnitude, roundings) + allowed_rounding(sum_, 2);
  const auto exceeds = [&](double partial) { return partial + bound_ + allowed_rounding(partial, roundings) >= most_f32; };
  const bool plus = exceeds(positive_), minus = exceeds(negative_);
  if (bound_ == anything) {
    all.add({sum_, anything});
  } else if (std::isinf(sum_)) {
    all.add({sum_, 0});
    if (sum_ > 0 ? minus : plus) all.add({std::nan(""), 0});
  } else {
    // The finite part of the interval; the infinite part is a case of its own.
    const Bounded sum = in_range(sum_, bound);
    all.add(sum.bound == anything ? Bounded{std::clamp(sum_, -most_f32, most_f32), bound} : sum);
    if (plus) all.add({anything, 0});
    if (minus) all.add({-anything, 0});
    if (plus && minus) all.add({std::nan(""), 0});
  }
  return all;
}

}  // namespace tunesmith::row_program
