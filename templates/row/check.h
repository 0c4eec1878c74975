#pragma once
// Inputs and references of operations over rows, row by row and on several threads. Internal to templates/.

#include <functional>
#include <vector>

#include "templates/op.h"

namespace tunesmith::row {

/// The elements of an array of rows: (rows, cols), or (rows, cols, inner) with a row for each position of `inner`.
struct Elements {
  const ArrayInfo& info;

  std::int64_t inner() const { return info.shape.size() > 2 ? info.shape[2] : 1; }
  std::int64_t rows() const { return info.shape[0] * inner(); }
  /// Returns the index of an element in memory.
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    if (info.shape.size() == 2) return row * info.strides[0] + column * info.strides[1];
    return row / inner() * info.strides[0] + row % inner() * info.strides[2] + column * info.strides[1];
  }
};

/// A slack with which any result is right.
inline constexpr double anything = -1;

/// One row of an output in float64, and the absolute error of each element beyond the units in the last place that are
/// allowed for all.
struct ReferenceRow {
  std::vector<double> result, slack;
};

/// Computes a row. `reference` has the row's size and undefined contents.
using MakeReference = std::function<void(std::int64_t row, ReferenceRow& reference)>;

/// Compares an output with its reference: at most `max_rows` rows, evenly spread, the first and the last one included. NaN
/// equals NaN, and numbers beyond the dtype equal infinity. An array of one dimension has one element in each row. Without
/// elements, nothing is checked.
CheckResult check_rows(const HostArray& output, double allowed_ulp, std::int64_t max_rows, const MakeReference& make);

/// Makes the elements of a row, which may be NaN or exceed the dtype.
using MakeRow = std::function<void(std::int64_t row, std::vector<double>& values)>;

/// Writes an input, of one to three dimensions. An array of one dimension is one row, and so is one with a row stride of 0.
void fill_rows(const HostArray& input, const MakeRow& make);

}  // namespace tunesmith::row
