// The check of a row program's outputs against its evaluation in float64, or in long double if it computes in f64.

#include <algorithm>
#include <cmath>
#include <mutex>
#include <sstream>

#include "core/half.h"
#include "templates/row_program/evaluate/evaluate.h"
#include "templates/row_program/op.h"
#include "templates/sampling.h"

namespace tunesmith {
namespace {

using row_program::BoundedOf;
using row_program::Kind;
using row_program::OutputRowOf;

struct RowOutcome {
  double max_error = 0;
  std::string failure;
};

/// Elements of an array that one row reads or writes: the first, and the distance to the next.
struct Elements {
  std::int64_t first = 0, step = 1;
};

Elements elements_of(const HostArray& array, Kind kind, std::int64_t row) {
  const ArrayInfo& info = array.info;
  if (kind == Kind::row) return {row};
  if (kind == Kind::full && info.shape.size() == 3)  // (rows, cols, inner)
    return {row / info.shape[2] * info.strides[0] + row % info.shape[2] * info.strides[2], info.strides[1]};
  if (kind == Kind::full) return {row * info.strides[0], info.strides[1]};
  if (kind == Kind::top && info.shape.size() == 3) return {row * info.shape.back()};  // (rows, inner, k)
  if (kind == Kind::group || kind == Kind::top) return {row * info.strides[0]};
  return {};
}

/// Elements of an input that one row reads, as values.
std::vector<double> elements_of_row(const HostArray& array, Kind kind, std::int64_t row) {
  const bool has_columns = kind == Kind::full || kind == Kind::col || kind == Kind::group || kind == Kind::top;
  const bool strided = kind == Kind::full && array.info.shape.size() == 3;
  const std::int64_t count = strided ? array.info.shape[1] : has_columns ? array.info.shape.back() : 1;
  const Elements elements = elements_of(array, kind, row);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = read_element(array.info.dtype, array.data, elements.first + i * elements.step);
  if (array.info.dtype == DType::u8)  // booleans
    for (double& value : values) value = value != 0 ? 1 : 0;
  return values;
}

/// The part of the allowed error that a result has: half a unit of the dtype, and the bound.
template <typename Real>
double share_of_allowed(DType dtype, double result, const BoundedOf<Real>& expected) {
  if (!std::isfinite(expected.bound) || !std::isfinite(expected.value) || !std::isfinite(result)) return 0;
  const double unit = is_float(dtype) || dtype == DType::e4m3 || dtype == DType::e5m2
                          ? spacing(dtype, static_cast<double>(expected.value))
                          : 1;
  return static_cast<double>(std::min<Real>(std::fabs(result - expected.value) / (expected.bound + unit / 2), 1));
}

/// Compares a row of an output, or its only one.
template <typename Real>
void check_row(const HostArray& array, row_program::Type type, const OutputRowOf<Real>& expected, std::int64_t row,
               Elements elements, RowOutcome& outcome) {
  for (std::size_t i = 0; i < expected.elements.size(); ++i) {
    const double found =
        read_element(array.info.dtype, array.data, elements.first + static_cast<std::int64_t>(i) * elements.step);
    const BoundedOf<Real>& wanted = expected.elements[i];
    if (expected.accepts(type, i, found)) {
      if (expected.candidates.empty() && expected.candidates_of_ranks.empty())
        outcome.max_error = std::max(outcome.max_error, share_of_allowed(array.info.dtype, found, wanted));
      continue;
    }
    outcome.max_error = INFINITY;
    if (!outcome.failure.empty()) continue;
    std::ostringstream text;
    text.precision(array.info.dtype == DType::f64 ? 17 : 9);
    text << array.info.name << "[";
    if (row >= 0) text << row;
    if (row >= 0 && array.info.shape.size() >= 2) text << ",";
    if (row < 0 || array.info.shape.size() >= 2) text << i;
    text << "] is " << found << ", the program gives " << wanted.value << " with an error of at most " << wanted.bound
         << " before it is rounded to " << name(array.info.dtype);
    outcome.failure = text.str();
  }
}

/// Evaluations up to which column sums are checked: all rows are needed, which takes seconds.
constexpr std::int64_t max_operations = std::int64_t{1} << 31;

template <typename Real>
CheckResult checked(const RowProgramProblem& problem, const row_program::Program& program, std::span<const HostArray> arrays,
                    std::int64_t max_rows) {
  CheckResult result;
  result.error_unit = "of the allowed error";
  result.allowed_error = 1;
  if (problem.cols == 0) return result;  // no output has elements
  const std::int64_t rows = problem.rows * problem.inner;
  const row_program::EvaluatorOf<Real> evaluator(program, rows, problem.cols, row_program::numbers_of(problem, program));
  const std::size_t inputs = program.inputs.size();
  // Inputs that all rows share are converted once.
  std::vector<std::vector<double>> shared(inputs);
  for (std::size_t i = 0; i < inputs; ++i)
    if (const Kind kind = program.inputs[i].kind; kind == Kind::col || kind == Kind::scalar)
      shared[i] = elements_of_row(arrays[i], kind, 0);

  result.total_rows = rows;
  result.checked_rows = std::min(rows, std::max<std::int64_t>(max_rows, 1));
  const std::int64_t operations_of_row = problem.cols * static_cast<std::int64_t>(program.nodes.size());
  const bool sums = std::ranges::any_of(program.outputs, &row_program::Output::sum_over_rows);
  if (sums && rows <= max_operations / operations_of_row) result.checked_rows = rows;
  const bool all_rows = result.checked_rows == rows;
  if (sums && !all_rows) result.note = "sums over rows are not compared with float64: too many elements";

  std::vector<RowOutcome> outcomes(static_cast<std::size_t>(result.checked_rows));
  std::vector<row_program::ColumnSumsOf<Real>> totals(program.outputs.size(), row_program::ColumnSumsOf<Real>(problem.cols));
  std::mutex mutex;
  over_rows(result.checked_rows, operations_of_row, [&](std::int64_t begin, std::int64_t end) {
    std::vector<row_program::ColumnSumsOf<Real>> own_totals(program.outputs.size(),
                                                            row_program::ColumnSumsOf<Real>(problem.cols));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = result.checked_rows > 1 ? (rows - 1) * i / (result.checked_rows - 1) : 0;
      std::vector<std::vector<double>> own(inputs);
      std::vector<std::span<const double>> values;
      for (std::size_t k = 0; k < inputs; ++k) {
        if (shared[k].empty()) own[k] = elements_of_row(arrays[k], program.inputs[k].kind, row);
        values.emplace_back(shared[k].empty() ? own[k] : shared[k]);
      }
      const std::vector<OutputRowOf<Real>> expected = evaluator.row(row, values);
      RowOutcome& outcome = outcomes[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < program.outputs.size(); ++k) {
        const row_program::Output& output = program.outputs[k];
        if (output.sum_over_rows) {
          own_totals[k].add(expected[k]);
          continue;
        }
        const HostArray& array = arrays[inputs + k];
        check_row(array, *output.type, expected[k], row, elements_of(array, output.kind, row), outcome);
      }
    }
    const std::scoped_lock lock(mutex);
    for (std::size_t k = 0; k < totals.size(); ++k) totals[k].add(own_totals[k]);
  });
  if (all_rows)
    for (std::size_t k = 0; k < program.outputs.size(); ++k)
      if (program.outputs[k].sum_over_rows)
        check_row(arrays[inputs + k], *program.outputs[k].type,
                  program.outputs[k].kind == Kind::scalar ? totals[k].total() : totals[k].sums(), -1, {},
                  outcomes.emplace_back());
  for (const RowOutcome& outcome : outcomes) {
    result.max_error = std::max(result.max_error, outcome.max_error);
    if (result.first_failure.empty()) result.first_failure = outcome.failure;
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace

CheckResult check_row_program(const RowProgramProblem& problem, const row_program::Program& program,
                              std::span<const HostArray> arrays, std::int64_t max_rows) {
  return row_program::computes_in_f64(program) ? checked<long double>(problem, program, arrays, max_rows)
                                               : checked<double>(problem, program, arrays, max_rows);
}

}  // namespace tunesmith
