#pragma once
// The k largest of many values with bounds: the results that a kernel's topk may have. Internal to templates/.

#include <cstdint>
#include <vector>

#include "templates/row_program/evaluate/bounded.h"

namespace tunesmith::row_program {

/// Collects the terms of a topk and ranks them.
///
/// A kernel's value of each column lies in an interval. A column may have rank t if at most t columns are surely before it
/// and at least t others may be: each rank has one candidate where the values are exact, and several where intervals
/// overlap.
template <typename Real>
class TopOfTerms {
 public:
  /// `k`: ranks. `carried`: values in addition to the one that decides.
  TopOfTerms(int k, std::size_t carried) : k_(static_cast<std::size_t>(k)), carried_(carried) {}

  /// Adds the next column. `terms`: the value that decides, and the carried ones.
  void add(std::int64_t column, const BoundedOf<Real>* terms);
  /// Ranks the terms, after the last of them. At least k columns were added.
  void finish();
  /// Returns part `part` of Reducer::topk at a rank.
  BoundedOf<Real> result(int part, std::size_t rank) const;
  /// Returns the columns that may have the rank, in ascending order.
  const std::vector<std::int64_t>& candidates(std::size_t rank) const { return ranks_[rank].columns; }

 private:
  /// An end of an interval: NaN is larger than any number.
  struct End {
    bool nan = false;
    Real value = 0;
    auto operator<=>(const End&) const = default;
  };
  struct Term {
    std::int64_t column;
    End low, high;
    std::vector<BoundedOf<Real>> carried;
  };
  /// An end of a column. A smaller one is earlier: the end is larger, or the column lower.
  struct Position {
    End end;
    std::int64_t column;
    bool operator<(const Position& other) const { return other.end < end || (end == other.end && column < other.column); }
  };
  struct Rank {
    BoundedOf<Real> value;
    std::vector<std::int64_t> columns;
    std::vector<BoundedOf<Real>> carried;
  };
  static BoundedOf<Real> hull(const BoundedOf<Real>& a, const BoundedOf<Real>& b);
  static BoundedOf<Real> between(const End& low, const End& high);
  void drop_others();

  std::size_t k_, carried_;
  std::size_t next_drop_ = 4096;
  std::vector<Term> terms_;
  std::vector<Rank> ranks_;
};

}  // namespace tunesmith::row_program
