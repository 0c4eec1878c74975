#include "templates/row/check.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/half.h"
#include "templates/sampling.h"

namespace tunesmith::row {
namespace {

struct RowOutcome {
  double max_error = 0;
  std::string failure;
};

/// Writes an input of the shape (rows, cols, inner); elements that share an address are written once.
void fill_strided(const HostArray& input, const MakeRow& make) {
  const ArrayInfo& info = input.info;
  const Elements elements{info};
  const std::int64_t cols = info.shape[1], written = info.strides[1] == 0 ? std::min<std::int64_t>(cols, 1) : cols;
  over_rows(elements.rows(), cols, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(cols));
    for (std::int64_t row = begin; row < end; ++row) {
      const bool repeats =
          (info.strides[0] == 0 && row >= elements.inner()) || (info.strides[2] == 0 && row % elements.inner() != 0);
      if (repeats) continue;
      make(row, values);
      for (std::int64_t column = 0; column < written; ++column)
        write_element(info.dtype, input.data, elements.at(row, column), values[static_cast<std::size_t>(column)]);
    }
  });
}

}  // namespace

CheckResult check_rows(const HostArray& output, double allowed_ulp, std::int64_t max_rows, const MakeReference& make) {
  const ArrayInfo& info = output.info;
  const bool one_each = info.shape.size() == 1;
  const Elements elements{info};
  const std::int64_t rows = one_each ? info.shape[0] : elements.rows(), cols = one_each ? 1 : info.shape[1];
  CheckResult result;
  result.error_unit = "ULP";
  result.allowed_error = allowed_ulp;
  if (info.elements() == 0) return result;
  result.total_rows = rows;
  result.checked_rows = std::min(rows, std::max<std::int64_t>(max_rows, 1));
  std::vector<RowOutcome> outcomes(static_cast<std::size_t>(result.checked_rows));
  over_rows(result.checked_rows, cols, [&](std::int64_t begin, std::int64_t end) {
    ReferenceRow reference;
    reference.result.resize(static_cast<std::size_t>(cols));
    reference.slack.resize(static_cast<std::size_t>(cols));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = result.checked_rows > 1 ? (rows - 1) * i / (result.checked_rows - 1) : 0;
      make(row, reference);
      RowOutcome& outcome = outcomes[static_cast<std::size_t>(i)];
      for (std::int64_t column = 0; column < cols; ++column) {
        const auto at = static_cast<std::size_t>(column);
        const double found =
            read_element(info.dtype, output.data, one_each ? row * info.strides[0] : elements.at(row, column));
        const double slack = reference.slack[at];
        const double error = slack == anything ? 0 : units_apart(info.dtype, found, reference.result[at], slack);
        if (!(error <= allowed_ulp) && outcome.failure.empty()) {
          std::ostringstream text;
          text.precision(info.dtype == DType::f64 ? 17 : 9);
          text << info.name << "[" << row << (one_each ? "" : "," + std::to_string(column)) << "] is " << found
               << ", the reference is " << reference.result[at] << " (" << error << " ULP, allowed " << allowed_ulp << ")";
          outcome.failure = text.str();
        }
        outcome.max_error = std::max(outcome.max_error, error);
      }
    }
  });
  for (const RowOutcome& outcome : outcomes) {
    result.max_error = std::max(result.max_error, outcome.max_error);
    if (result.first_failure.empty()) result.first_failure = outcome.failure;
  }
  result.passed = result.first_failure.empty();
  return result;
}

void fill_rows(const HostArray& input, const MakeRow& make) {
  const ArrayInfo& info = input.info;
  if (info.elements() == 0) return;
  if (info.shape.size() == 3) return fill_strided(input, make);
  const bool one_row = info.shape.size() == 1;
  const std::int64_t cols = info.shape.back(), stride = one_row ? 0 : info.strides[0], step = info.strides.back();
  const std::int64_t rows = one_row ? 1 : stride == 0 ? std::min<std::int64_t>(info.shape[0], 1) : info.shape[0];
  over_rows(rows, cols, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(cols));
    for (std::int64_t row = begin; row < end; ++row) {
      make(row, values);
      for (std::int64_t column = 0; column < cols; ++column)
        write_element(info.dtype, input.data, row * stride + column * step, values[static_cast<std::size_t>(column)]);
    }
  });
}

}  // namespace tunesmith::row
