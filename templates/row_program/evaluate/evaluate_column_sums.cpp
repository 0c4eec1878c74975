// Sums over rows, ColumnSumsOf of evaluate.h: their values, and the bounds of their errors.

#include <algorithm>

#include "templates/row_program/evaluate/accumulate.h"
#include "templates/row_program/evaluate/evaluate.h"

namespace tunesmith::row_program {

template <typename Real>
void ColumnSumsOf<Real>::add(const OutputRowOf<Real>& terms) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const bool certain = std::ranges::all_of(terms.if_overflowed, [&](const auto& others) {
      return others[i].bound == 0 && terms.elements[i].bound == 0 && others[i].value == terms.elements[i].value;
    });
    sums_[i].add(certain ? terms.elements[i] : BoundedOf<Real>{terms.elements[i].value, anything});
  }
}

template <typename Real>
void ColumnSumsOf<Real>::add(const ColumnSumsOf& other) {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].add(other.sums_[i]);
}

template <typename Real>
OutputRowOf<Real> ColumnSumsOf<Real>::sums() const {
  return outcomes_of(sums_, column_sum_roundings);
}

template <typename Real>
OutputRowOf<Real> ColumnSumsOf<Real>::total() const {
  SumOfTerms<Real> total;
  for (const SumOfTerms<Real>& sum : sums_) total.add(sum);
  return outcomes_of({total}, sum_roundings);
}

template <typename Real>
OutputRowOf<Real> ColumnSumsOf<Real>::outcomes_of(const std::vector<SumOfTerms<Real>>& sums, Real roundings) {
  OutputRowOf<Real> row;
  std::vector<Outcomes<Real>> all;
  std::size_t most = 1;
  for (const SumOfTerms<Real>& sum : sums) {
    all.push_back(sum.outcomes(std::min<Real>(sum.count(), roundings)));
    most = std::max(most, all.back().count);
    row.elements.push_back(all.back().values[0]);
  }
  for (std::size_t k = 1; k < most; ++k) {
    std::vector<BoundedOf<Real>>& others = row.if_overflowed.emplace_back();
    for (const Outcomes<Real>& of : all) others.push_back(of.values[k < of.count ? k : 0]);
  }
  return row;
}

template class ColumnSumsOf<double>;
template class ColumnSumsOf<long double>;

}  // namespace tunesmith::row_program
