// Inputs of products, and the comparison of c with sums in float64.

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "templates/matmul/op.h"
#include "templates/sampling.h"

namespace tunesmith::matmul {
void ParsedProduct::fill_inputs(std::uint64_t seed, InputKind, std::span<const HostArray> arrays) const {
  for (std::size_t number = 0; number < arrays.size(); ++number) {
    const HostArray& array = arrays[number];
    if (array.info.output && !product().accumulate) continue;
    const bool matrix = array.info.shape.size() == 2;
    const std::int64_t rows = matrix ? array.info.shape[0] : 1, cols = array.info.shape.back();
    const std::int64_t stride = matrix ? array.info.strides[0] : 0;
    const std::uint64_t start = scramble(seed + number);
    over_rows(rows, cols, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t col = 0; col < cols; ++col)
          write_element(array.info.dtype, array.data, row * stride + col,
                        bell(scramble(start + static_cast<std::uint64_t>(row * cols + col))));
    });
  }
}

CheckResult ParsedProduct::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const HostArray &a = *find(arrays, "a"), &b = *find(arrays, "b"), &c = *find(arrays, "c");
  const HostArray *const factor = find(arrays, "factor"), *const row_factors = find(arrays, "row_factors"),
                         *const bias = find(arrays, "bias");
  CheckResult result;
  result.error_unit = "relative";
  // Of the sum of absolute products, beyond rounding of c: tensor cores truncate what they add to float32 sums.
  result.allowed_error = 0x1p-24 * (8 + 2 * std::sqrt(static_cast<double>(product().k)));
  result.total_rows = product().m;
  result.checked_rows = std::min(product().m, std::max<std::int64_t>(max_rows, 1));
  // Rows of a large product are sampled, too.
  const std::int64_t most = std::max<std::int64_t>((std::int64_t{1} << 27) / (product().k * result.checked_rows), 16);
  const std::int64_t cols = std::min(product().n, most);
  for (std::int64_t i = 0; i < result.checked_rows; ++i) {
    const std::int64_t row = result.checked_rows > 1 ? (product().m - 1) * i / (result.checked_rows - 1) : 0;
    double scale = factor != nullptr ? read_element(DType::f32, factor->data, 0) : 1;
    if (row_factors != nullptr) scale *= read_element(DType::f32, row_factors->data, row);
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t col = cols > 1 ? (product().n - 1) * j / (cols - 1) : 0;
      double sum = 0, magnitude = 0;  // of finite terms
      for (std::int64_t k = 0; k < product().k; ++k) {
        const std::int64_t a_at = product().transpose_a ? k * product().a_stride() + row : row * product().a_stride() + k;
        const std::int64_t b_at = product().transpose_b ? col * product().b_stride() + k : k * product().b_stride() + col;
        const double term = read_element(product().dtype, a.data, a_at) * read_element(product().dtype, b.data, b_at);
        sum += term;
        if (std::isfinite(term)) magnitude += std::fabs(term);
      }
      double largest = magnitude;  // of what is computed on the way
      double expected = sum * scale;
      // Tiny products, and a tiny product of factors, are rounded to multiples of the smallest number.
      double rounding = 0;
      if (std::isfinite(scale)) {
        rounding = static_cast<double>(product().k) * 0x1p-149 * std::fabs(scale);
        if (factor != nullptr && row_factors != nullptr && std::isfinite(sum)) rounding += 0x1p-149 * std::fabs(sum);
        magnitude *= std::fabs(scale);
      } else if (std::fabs(sum) <= result.allowed_error * magnitude) {
        continue;  // a sum that is not known to be 0
      }
      if (bias != nullptr) {
        const double added = read_element(DType::f32, bias->data, col);
        expected += added;
        if (std::isfinite(added)) magnitude += std::fabs(added);
      }
      const DType dtype = product().output();
      const std::int64_t at = row * product().c_stride() + col;
      if (product().accumulate) {
        if (std::isfinite(expected)) {
          if (magnitude > largest_number(dtype)) continue;  // may be infinite before it is added
          rounding += spacing(dtype, expected) / 2;
        }
        const double before = read_element(dtype, c.before, at);
        expected += before;
        if (std::isfinite(before)) magnitude += std::fabs(before);
      }
      if (std::max(largest, magnitude) >= 0x1p127) continue;  // parts of the sum may be infinite
      const double found = read_element(dtype, c.data, at);
      double error = std::max(0.0, units_apart(dtype, found, expected, rounding) - 0.51);
      if (std::isinf(error) && std::isfinite(expected))  // next to the largest number
        error = units_apart(dtype, found, expected, rounding + result.allowed_error * magnitude);
      if (std::isfinite(error) && error > 0 && magnitude > 0) error *= spacing(dtype, expected) / magnitude;
      result.max_error = std::max(result.max_error, error);
      if (!(error <= result.allowed_error) && result.first_failure.empty())
        result.first_failure = "c[" + std::to_string(row) + "," + std::to_string(col) + "] is " + std::to_string(found) +
                               ", reference " + std::to_string(expected);
    }
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith::matmul
