#include "templates/row_program/evaluate/top_of_terms.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tunesmith::row_program {

template <typename Real>
void TopOfTerms<Real>::add(std::int64_t column, const BoundedOf<Real>* terms) {
  const BoundedOf<Real>& term = terms[0];
  Term made{column, {false, term.value - term.bound}, {false, term.value + term.bound}, {}};
  if (term.bound == anything) {
    made.low = {false, -anything};
    made.high = {true, 0};
  } else if (std::isnan(term.value)) {
    made.low = made.high = {true, 0};
  } else if (std::isinf(term.value)) {
    made.low = made.high = {false, term.value};
  }
  made.carried.assign(terms + 1, terms + 1 + carried_);
  terms_.push_back(std::move(made));
  if (terms_.size() >= next_drop_) drop_others();
}

/// Drops the columns that k others are surely before.
template <typename Real>
void TopOfTerms<Real>::drop_others() {
  std::vector<Position> lows;
  for (const Term& term : terms_) lows.push_back({term.low, term.column});
  std::ranges::nth_element(lows, lows.begin() + static_cast<std::ptrdiff_t>(k_ - 1), std::less<>());
  const Position last = lows[k_ - 1];
  std::erase_if(terms_, [&](const Term& term) { return last < Position{term.high, term.column}; });
  next_drop_ = std::max(next_drop_, 2 * terms_.size());
}

template <typename Real>
BoundedOf<Real> TopOfTerms<Real>::between(const End& low, const End& high) {
  if (low.nan) return {std::nan(""), 0};
  if (high.nan) return {low.value, anything};
  if (low == high) return {low.value, 0};
  if (std::isinf(low.value) || std::isinf(high.value)) return {0, anything};
  return {(low.value + high.value) / 2, (high.value - low.value) / 2 * (1 + 4 * std::numeric_limits<Real>::epsilon())};
}

template <typename Real>
BoundedOf<Real> TopOfTerms<Real>::hull(const BoundedOf<Real>& a, const BoundedOf<Real>& b) {
  if (a.bound == anything || b.bound == anything) return {a.value, anything};
  const bool same = a.value == b.value || (std::isnan(a.value) && std::isnan(b.value));
  if (same && a.bound == b.bound) return a;
  if (!std::isfinite(a.value) || !std::isfinite(b.value)) return {a.value, anything};
  return between({false, std::min(a.value - a.bound, b.value - b.bound)},
                 {false, std::max(a.value + a.bound, b.value + b.bound)});
}

template <typename Real>
void TopOfTerms<Real>::finish() {
  drop_others();
  std::vector<Position> lows, highs;
  for (const Term& term : terms_) {
    lows.push_back({term.low, term.column});
    highs.push_back({term.high, term.column});
  }
  std::ranges::sort(lows, std::less<>());
  std::ranges::sort(highs, std::less<>());
  ranks_.assign(k_, {});
  for (std::size_t rank = 0; rank < k_; ++rank) ranks_[rank].value = between(lows[rank].end, highs[rank].end);
  const auto before = [](const std::vector<Position>& sorted, const Position& position) {
    return static_cast<std::size_t>(std::ranges::lower_bound(sorted, position, std::less<>()) - sorted.begin());
  };
  for (const Term& term : terms_) {
    const std::size_t surely = before(lows, {term.high, term.column});
    const std::size_t possibly = before(highs, {term.low, term.column}) - (term.low == term.high ? 0 : 1);
    for (std::size_t rank = surely; rank <= std::min(possibly, k_ - 1); ++rank) {
      Rank& of = ranks_[rank];
      for (std::size_t c = 0; c < carried_; ++c) {
        if (of.columns.empty())
          of.carried.push_back(term.carried[c]);
        else
          of.carried[c] = hull(of.carried[c], term.carried[c]);
      }
      of.columns.push_back(term.column);
    }
  }
}

template <typename Real>
BoundedOf<Real> TopOfTerms<Real>::result(int part, std::size_t rank) const {
  const Rank& of = ranks_[rank];
  if (part == 0) return of.value;
  if (part > 1) return of.carried[static_cast<std::size_t>(part) - 2];
  const auto first = static_cast<Real>(of.columns.front()), last = static_cast<Real>(of.columns.back());
  return {(first + last) / 2, (last - first) / 2};
}

template class TopOfTerms<double>;
template class TopOfTerms<long double>;

}  // namespace tunesmith::row_program
