#pragma once
// Evaluates a row program in float64, with a bound on the error of a kernel in f32; one that computes in f64 in long double
// (bounded.h). Internal to templates/.

#include <cstdint>
#include <span>
#include <vector>

#include "templates/row_program/evaluate/bounded.h"
#include "templates/row_program/evaluate/sum_of_terms.h"
#include "templates/row_program/language/program.h"

namespace tunesmith::row_program {

/// A row of an output, before it is rounded to the type of the output: one element for each column, group of columns, or
/// row. accepts() compares an element of a kernel's result with it.
template <typename Real>
struct OutputRowOf {
  std::vector<BoundedOf<Real>> elements;
  /// Columns that may be the result of an argmax or argmin, in ascending order. Empty unless the output is such a result
  /// and has more than one candidate.
  std::vector<std::int64_t> candidates;
  /// The same for each element of an output of columns that topk chooses; empty for other outputs.
  std::vector<std::vector<std::int64_t>> candidates_of_ranks{};
  /// Elements in place of `elements` if a sum of the row overflowed: whether one does depends on the order of additions.
  std::vector<std::vector<BoundedOf<Real>>> if_overflowed{};

  /// Reports whether `result` is right for an element of an output of this type.
  bool accepts(Type type, std::size_t element, double result) const;
};
using OutputRow = OutputRowOf<double>;

/// Evaluates a program for one size of arrays and one set of numbers. The program has types for all arrays (with_dtype()).
/// An output `colsum` gets the terms of each row, one for each column; the caller adds them up with ColumnSums. Real is long
/// double for programs that compute in f64, and double for others.
template <typename Real>
class EvaluatorOf {
 public:
  /// `numbers`: in the order of Program::numbers; f32 numbers are rounded to the type of arithmetic.
  EvaluatorOf(Program program, std::int64_t rows, std::int64_t cols, std::vector<double> numbers);

  /// Evaluates one row. `inputs`: in the order of Program::inputs, as values of the arrays' element types: a row of a [row,
  /// col] array, an element of a [row] or [] array, all of a [col] array, the row's elements of a [row, col/N] array. Needs
  /// time in proportion to columns x nodes x stages, and memory for 1024 columns. Safe to call from several threads.
  std::vector<OutputRowOf<Real>> row(std::int64_t row, std::span<const std::span<const double>> inputs) const;

  const Program& program() const { return program_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  const std::vector<double>& numbers() const { return numbers_; }
  /// Reports whether the kernel's value of a node cannot be negative.
  bool is_nonnegative(int node) const { return lower_bounds_[static_cast<std::size_t>(node)] >= 0; }
  /// Reports whether columns of a node are needed in a pass: for reductions of stage pass + 1, or for outputs.
  bool is_needed(int node, int pass) const {
    return needed_[static_cast<std::size_t>(pass)][static_cast<std::size_t>(node)];
  }
  /// Reports whether a value may depend on several groups' results of this reduction.
  bool mixes_groups(int reduction) const;
  /// The node of an output before it is rounded to the output's type.
  int value_of(const Output& output) const;

 private:
  void find_needed();

  Program program_;
  std::int64_t rows_, cols_;
  std::vector<double> numbers_;
  std::vector<double> lower_bounds_;       ///< of each node
  std::vector<std::vector<bool>> needed_;  ///< for each pass, 0 to Program::stages
};
using Evaluator = EvaluatorOf<double>;

/// Roundings of plain float additions that a term of a column sum goes through in any configuration: 64 rows of a partial
/// sum, 5 steps between lanes and 31 between warps (row/schedules/column_sums.cuh). All other additions are compensated.
inline constexpr double column_sum_roundings = 64 + 5 + 31;

/// Sums of the terms of an output `colsum` over rows. Terms of a sum of one element have at most sum_roundings plain
/// additions (accumulate.h).
template <typename Real>
class ColumnSumsOf {
 public:
  explicit ColumnSumsOf(std::int64_t cols) : sums_(static_cast<std::size_t>(cols)) {}

  /// Adds the terms of a row.
  void add(const OutputRowOf<Real>& terms);
  /// Adds the terms of other rows.
  void add(const ColumnSumsOf& other);
  /// Returns the sums and bounds of their errors.
  OutputRowOf<Real> sums() const;
  /// Returns the sum over all columns, too, as the only element.
  OutputRowOf<Real> total() const;

 private:
  static OutputRowOf<Real> outcomes_of(const std::vector<SumOfTerms<Real>>& sums, Real roundings);

  std::vector<SumOfTerms<Real>> sums_;
};
using ColumnSums = ColumnSumsOf<double>;

}  // namespace tunesmith::row_program
