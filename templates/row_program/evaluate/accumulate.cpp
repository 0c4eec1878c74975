#include "templates/row_program/evaluate/accumulate.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tunesmith::row_program {
namespace {

constexpr std::size_t chain = 64;        // columns that a monoid combines one after the other
constexpr double lse_roundings = 24;     // of rescaled partial sums, in addition to the exponentials'
constexpr double moment_roundings = 16;  // merges of partial results

}  // namespace

template <typename Real>
Accumulator<Real>::Accumulator(const Reduction& reduction, const Monoid* monoid, double roundings)
    : reducer_(reduction.reducer),
      monoid_(monoid),
      sum_roundings_(roundings),
      low_(-anything),
      high_(-anything),
      largest_(-anything) {
  if (reducer_ == Reducer::all) sum_ = 1;
}

template <typename Real>
void Accumulator<Real>::add(std::int64_t column, const BoundedOf<Real>* terms) {
  const BoundedOf<Real>& term = terms[0];
  count_ += 1;
  switch (reducer_) {
    case Reducer::sum:
    case Reducer::mean: return terms_.add(term);
    case Reducer::max:
    case Reducer::argmax: return add_extreme(term, column);
    case Reducer::min:
    case Reducer::argmin: return add_extreme({-term.value, term.bound}, column);
    case Reducer::lse: return add_lse(term);
    case Reducer::moments: return add_moments(term);
    case Reducer::any:
      if (term.bound == 0 && term.value != 0) sum_ = 1;
      uncertain_ = uncertain_ || term.bound > 0;
      return;
    case Reducer::all:
      if (term.bound == 0 && term.value == 0) sum_ = 0;
      uncertain_ = uncertain_ || term.bound > 0;
      return;
    case Reducer::count:
      sum_ += term.value;
      bound_ += term.bound;
      return;
    case Reducer::custom: return add_custom(terms);
    case Reducer::topk: return;  // TopOfTerms
  }
}

template <typename Real>
Outcomes<Real> Accumulator<Real>::outcomes(int part) {
  const auto one = [](const BoundedOf<Real>& value) {
    Outcomes<Real> all;
    all.add(value);
    return all;
  };
  switch (reducer_) {
    case Reducer::sum: return terms_.outcomes(sum_roundings_);
    case Reducer::mean: {
      Outcomes all = terms_.outcomes(sum_roundings_);
      for (std::size_t k = 0; k < all.count; ++k)
        all.values[k] = apply<Real>(Operation::divide, all.values[k], {count_, 0}, {}, false);
      return all;
    }
    case Reducer::max:
    case Reducer::min: {
      const Real sign = reducer_ == Reducer::min ? -1 : 1;
      if (uncertain_) return one({sign * largest_, anything});
      if (first_nan_ >= 0) return one({std::nan(""), 0});
      return one({sign * largest_, low_ == high_ ? 0 : std::max(high_ - largest_, largest_ - low_)});
    }
    case Reducer::argmax:
    case Reducer::argmin: return one(argument());
    case Reducer::lse: return one(lse(part));
    case Reducer::moments: return moments(part);
    case Reducer::any: return one({sum_, uncertain_ && sum_ == 0 ? 1.0 : 0.0});
    case Reducer::all: return one({sum_, uncertain_ && sum_ != 0 ? 1.0 : 0.0});
    case Reducer::count: return one({sum_, bound_});
    case Reducer::custom: return one(custom(part));
    case Reducer::topk: break;
  }
  return {};
}

template <typename Real>
BoundedOf<Real> Accumulator<Real>::custom(int part) {
  if (!chain_.empty()) partials_.insert(partials_.end(), chain_.begin(), chain_.end());
  chain_.clear();
  const std::size_t width = monoid_->identity.size();
  for (std::size_t all = partials_.size() / width; all > 1; all = (all + 1) / 2) {
    for (std::size_t i = 0; i + 1 < all; i += 2) {
      combine(&partials_[i * width], &partials_[(i + 1) * width]);
      std::copy_n(&partials_[i * width], width, &partials_[i / 2 * width]);
    }
    if (all % 2 == 1) std::copy_n(&partials_[(all - 1) * width], width, &partials_[all / 2 * width]);
    partials_.resize((all + 1) / 2 * width);
  }
  return partials_[static_cast<std::size_t>(part)];
}

template <typename Real>
void Accumulator<Real>::add_extreme(BoundedOf<Real> term, std::int64_t column) {
  const bool argument = reducer_ == Reducer::argmax || reducer_ == Reducer::argmin;
  if (term.bound == anything) {
    uncertain_ = true;
    if (argument) candidates_.push_back({column, anything, true});
    return;
  }
  if (std::isnan(term.value)) {
    if (first_nan_ < 0) first_nan_ = column;
    return;
  }
  low_ = std::max(low_, term.value - term.bound);
  high_ = std::max(high_, term.value + term.bound);
  if (argument && term.value + term.bound >= low_) {
    // Of equal exact values the first one counts.
    const bool tie = term.bound == 0 && !candidates_.empty() && candidates_.back().high == term.value &&
                     largest_ == term.value && low_ == high_;
    if (!tie) candidates_.push_back({column, term.value + term.bound});
    if (candidates_.size() > 1000 && std::has_single_bit(candidates_.size()))
      std::erase_if(candidates_, [&](const Candidate& c) { return c.high < low_; });
  }
  largest_ = std::max(largest_, term.value);
}

template <typename Real>
std::vector<std::int64_t> Accumulator<Real>::candidates() {
  std::erase_if(candidates_, [&](const Candidate& c) { return c.high < low_; });
  std::vector<std::int64_t> columns;
  for (const Candidate& c : candidates_) columns.push_back(c.column);
  if (first_nan_ >= 0) {  // the first NaN, or an earlier element that may be one
    std::erase_if(candidates_, [](const Candidate& c) { return !c.may_be_nan; });
    columns.clear();
    for (const Candidate& c : candidates_)
      if (c.column < first_nan_) columns.push_back(c.column);
    columns.push_back(first_nan_);
  }
  return columns;
}

template <typename Real>
BoundedOf<Real> Accumulator<Real>::argument() {
  const std::vector<std::int64_t> columns = candidates();
  const auto first = static_cast<Real>(columns.front()), last = static_cast<Real>(columns.back());
  return {first, last - first};
}

template <typename Real>
void Accumulator<Real>::add_lse(const BoundedOf<Real>& term) {
  if (term.bound == anything) {
    uncertain_ = true;
    return;
  }
  if (std::isnan(term.value)) first_nan_ = 0;
  low_ = std::max(low_, term.value - term.bound);
  high_ = std::max(high_, term.value + term.bound);
  if (std::isnan(term.value) || std::isinf(term.value)) {
    largest_ = std::max(largest_, term.value);  // -inf adds nothing; +inf makes the result infinite
    return;
  }
  if (term.value > largest_) {
    const Real factor = std::isinf(largest_) ? 0 : std::exp(largest_ - term.value), distance = term.value - largest_;
    weighted_distance_ = factor == 0 ? 0 : factor * (weighted_distance_ + distance * sum_);
    sum_ *= factor;
    bound_ *= factor;
    largest_ = term.value;
  }
  const Real weight = std::exp(term.value - largest_);
  sum_ += weight;
  bound_ += weight * std::expm1(term.bound);
  largest_bound_ = std::max(largest_bound_, term.bound);
  weighted_distance_ += weight * (largest_ - term.value);
}

template <typename Real>
BoundedOf<Real> Accumulator<Real>::lse(int part) const {
  const Real maximum = first_nan_ >= 0 ? std::nan("") : largest_;
  if (uncertain_) return {maximum, anything};
  const Real spread = low_ == high_ ? 0 : std::max(high_ - largest_, largest_ - low_);
  if (part == 1 || !std::isfinite(maximum)) {
    if (part == 2) return {std::nan(""), 0};
    return {maximum, std::isfinite(maximum) ? spread : 0};
  }
  const FunctionError<Real> error = function_error<Real>(Operation::exp);
  const Real of_difference = std::max<Real>(error.of_argument, 1);  // the exponent itself is rounded
  const Real rounding = allowed_rounding(weighted_distance_, 2 * of_difference) +
                        allowed_rounding(sum_, error.constant + lse_roundings + sum_roundings_) +
                        evaluation_rounding(count_, sum_ + weighted_distance_);
  const Real sum_bound = bound_ + rounding;
  // The sum is relative to the maximum, which is itself uncertain.
  if (part == 2) return in_range(sum_, sum_bound + (sum_ + sum_bound) * std::expm1(spread));
  // Where the errors of the terms exceed half of the sum, its logarithm has no useful bound; but lse changes by no more than
  // the term with the largest error does.
  const bool uncertain_terms = sum_bound > sum_ / 2;
  BoundedOf<Real> logarithm =
      apply<Real>(Operation::log, {sum_, uncertain_terms ? std::min(rounding, sum_ / 2) : sum_bound}, {}, {}, false);
  if (uncertain_terms) logarithm.bound += largest_bound_;
  return in_range(maximum + logarithm.value, logarithm.bound + allowed_rounding(maximum + logarithm.value));
}

template <typename Real>
void Accumulator<Real>::add_moments(const BoundedOf<Real>& term) {
  const Real before = term.value - mean_;
  mean_ += before / count_;
  squares_ += before * (term.value - mean_);
  terms_.add(term);
  bound_squares_ += term.bound == anything ? anything : term.bound * term.bound;
  if (std::isfinite(term.value)) magnitude_ = std::max(magnitude_, std::fabs(term.value));
}

/// With d the standard deviation, an error e_i of each term changes the mean by mean(e) and the variance by at most
/// 2 d sqrt(mean(e^2)) + mean(e^2). Each merge of two partial results rounds the mean, relative to the largest value, and
/// the sum of squares.
///
/// A kernel merges partial means, which are in range if the terms are, or it adds the terms, and a sum of them may overflow:
/// then the mean is infinite or NaN, and so are the deviations. In both cases the sum of squared deviations grows, and it is
/// infinite once it exceeds f32, even if the variance does not.
template <typename Real>
Outcomes<Real> Accumulator<Real>::moments(int part) const {
  const Outcomes<Real> sums = terms_.outcomes(sum_roundings_);
  Outcomes<Real> all;
  if (terms_.bound() == anything) {
    all.add({mean_, anything});
    return all;
  }
  const auto add_infinite = [&](const BoundedOf<Real>& sum, bool deviates) {
    const bool is_nan = part != 0 && (std::isnan(sum.value) || !deviates);
    all.add({part == 0 ? sum.value : is_nan ? std::nan("") : anything, 0});
  };
  if (!std::isfinite(terms_.value())) {
    // An infinite term: the mean is infinite or NaN, the variance NaN.
    for (std::size_t k = 0; k < sums.count; ++k) add_infinite(sums.values[k], false);
    return all;
  }
  const Real variance = squares_ / count_, deviation = std::sqrt(variance), spread = bound_squares_ / count_;
  // The deviations are 0 exactly where all terms are equal and exact; a quotient may still be rounded.
  // Of denormal numbers, each element may also move the mean by half of their spacing too little.
  const Real mean_error = allowed_rounding(magnitude_, std::max<Real>(moment_roundings, sum_roundings_)) +
                          count_ * Arithmetic<Real>::half_denormal + evaluation_rounding(count_, magnitude_);
  const Real bound = 2 * deviation * (std::sqrt(spread) + mean_error) + spread + mean_error * mean_error +
                     allowed_rounding(variance, moment_roundings + sum_roundings_) + evaluation_rounding(count_, variance);
  const BoundedOf<Real> mean = in_range(mean_, terms_.bound() / count_ + mean_error);
  const bool surely = (variance - bound) * count_ >= Arithmetic<Real>::most,
             perhaps = (variance + bound) * count_ >= Arithmetic<Real>::most;
  if (!surely) all.add(part == 0 ? mean : BoundedOf<Real>{std::min(variance, Arithmetic<Real>::most), bound});
  if (perhaps) all.add(part == 0 ? mean : BoundedOf<Real>{anything, 0});
  for (std::size_t k = 0; k < sums.count; ++k)
    if (!std::isfinite(sums.values[k].value)) add_infinite(sums.values[k], true);
  return all;
}

template <typename Real>
void Accumulator<Real>::combine(BoundedOf<Real>* left, const BoundedOf<Real>* right) {
  const std::size_t width = monoid_->identity.size();
  scratch_.resize(monoid_->nodes.size());
  const auto at = [&](int node) { return node < 0 ? BoundedOf<Real>{} : scratch_[static_cast<std::size_t>(node)]; };
  for (std::size_t n = 0; n < scratch_.size(); ++n) {
    const Node& node = monoid_->nodes[n];
    if (node.operation == Operation::parameter) {
      const auto p = static_cast<std::size_t>(node.index);
      scratch_[n] = p < width ? left[p] : right[p - width];
    } else if (node.operation == Operation::constant) {
      scratch_[n] = {node.value, 0};
    } else if (node.operation == Operation::round_to) {
      scratch_[n] = round_to_type(node.type, at(node.operands[0]));
    } else {
      scratch_[n] = apply(node.operation, at(node.operands[0]), at(node.operands[1]), at(node.operands[2]), false);
    }
  }
  for (std::size_t i = 0; i < width; ++i) left[i] = at(monoid_->results[i]);
}

template <typename Real>
void Accumulator<Real>::add_custom(const BoundedOf<Real>* terms) {
  const std::size_t width = monoid_->identity.size();
  if (chain_.empty()) {
    for (const Real value : monoid_->identity) chain_.push_back({value, 0});
  }
  combine(chain_.data(), terms);
  if (std::fmod(count_, static_cast<Real>(chain)) == 0) {
    partials_.insert(partials_.end(), chain_.begin(), chain_.begin() + static_cast<std::ptrdiff_t>(width));
    chain_.clear();
  }
}

template class Accumulator<double>;
template class Accumulator<long double>;

}  // namespace tunesmith::row_program
