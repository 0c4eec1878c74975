// Inputs with edge cases for the softmax family, and its reference in float64 or better.

#include "templates/softmax/reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/half.h"
#include "templates/long_sum.h"
#include "templates/row/check.h"
#include "templates/sampling.h"

namespace tunesmith {
namespace {

using row::Mask;
using row::Shape;

constexpr std::int64_t edge_case_rows = 14;

double edge_case_value(std::int64_t row, std::int64_t column, std::int64_t cols, DType dtype, std::uint64_t bits) noexcept {
  const double normal = bell(bits);
  const bool wide = dtype == DType::f64;
  const double huge = dtype == DType::f16 ? 6e4 : wide ? 1.7e308 : 3e38;
  switch (row) {
    case 0: return 3.0;                                     // equal values
    case 1: return -INFINITY;                               // NaN by definition
    case 2: return column == cols / 2 ? INFINITY : normal;  // NaN by definition
    case 3: return column == cols - 1 ? NAN : normal;       // NaN in the last column only
    case 4: return normal + 1e4;                            // large common offset
    case 5: return normal - 1e4;
    case 6: return column % 2 == 0 ? -INFINITY : normal;  // masked half
    case 7: return normal * (wide ? 1e-310 : 1e-40);      // denormals
    case 8:
      return column == cols - 1
                 ? 100
                 : (wide ? -640 : -100) + normal;  // one element dominates; the other results are near the smallest numbers
    case 9: return (uniform(bits) - 0.5) * (wide ? 1480 : 200);  // wide range
    case 10: return (uniform(bits) - 0.5) * 2 * huge;            // widest range
    case 11: return column == 0 ? huge : huge * (1 - uniform(bits) * 1e-3);
    case 12: return column < cols / 2 ? -INFINITY : normal;                             // threads and tiles with -inf only
    default: return column == 0 ? normal : normal - (wide ? 740 : 90) * uniform(bits);  // results down to denormals
  }
}

/// Returns dy for the rows of y's edge cases: gradients that cancel, are large, or are all equal.
double edge_case_gradient(std::int64_t row, std::int64_t column, std::int64_t cols, std::uint64_t bits) noexcept {
  const double normal = bell(bits);
  switch (row) {
    case 0: return 1.0;                                // dx is 0 up to rounding
    case 4: return normal * 1e-3 + 1e4;                // sum and element nearly cancel
    case 5: return column % 2 == 0 ? 1e4 : -1e4;       // terms of both signs cancel in the sum
    case 7: return normal * 1e-20;                     // products far below 1
    case 8: return column == cols - 1 ? 0.0 : normal;  // the gradient of a confident row
    case 13: return column == 0 ? 1.0 : normal * 1e-4;
    default: return normal;
  }
}

/// Replaces x by the forward operation's result, the y of a gradient.
void to_softmax(std::vector<double>& values, bool logarithm) {
  double largest = -INFINITY;
  for (const double value : values) largest = std::isnan(value) ? value : std::max(largest, value);
  double sum = 0;
  for (const double value : values) sum += std::exp(value - largest);
  for (double& value : values)
    value = logarithm ? std::min(0.0, value - largest - std::log(sum)) : std::exp(value - largest) / sum;
  if (std::isnan(largest) || std::isinf(largest)) std::ranges::fill(values, NAN);
}

/// Fills masks and lengths: most elements are kept, some rows have no column and some have all.
void fill_mask(const Shape& shape, std::uint64_t seed, InputKind kind, const HostArray& array) {
  const bool with_edge_cases = kind == InputKind::edge_cases;
  if (array.info.name == "valid_cols") {
    for (std::int64_t i = 0; i < array.info.shape[0]; ++i) {
      const std::uint64_t bits = scramble(scramble(seed + 7) + static_cast<std::uint64_t>(i));
      std::int64_t length = 1 + static_cast<std::int64_t>(uniform(bits) * static_cast<double>(shape.cols));
      if (with_edge_cases) {
        if (i % 11 == 3) length = 0;
        if (i % 11 == 5) length = -4;
        if (i % 11 == 7) length = shape.cols + 9;
        if (i % 11 == 9) length = 1;
      }
      write_integer(DType::i32, array.data, i, length);
    }
    return;
  }
  const std::int64_t last = array.info.extent_bytes() / size_of(array.info.dtype);
  for (std::int64_t i = 0; i < last; ++i) {
    const std::uint64_t bits = scramble(scramble(seed + 9) + static_cast<std::uint64_t>(i));
    // Edge-case masks mask long stretches, some longer than a row.
    const bool hidden = bits % 4 == 0 || (with_edge_cases && i / (2 * shape.cols) % 5 == 4);
    if (shape.options.mask == Mask::keep)
      write_integer(DType::u8, array.data, i, hidden ? 0 : static_cast<std::int64_t>(1 + bits % 200));
    else
      write_element(array.info.dtype, array.data, i, hidden ? -INFINITY : static_cast<float>(bell(bits)));
  }
}

/// Returns the allowed error in units in the last place (ULP) of the output.
///
/// float32 softmax, 6: an exponential has an error of at most 0.94 for its polynomial and 0.3 for the rounding of its
/// argument, which count twice in results with a large leading digit. The sum has the same error if the errors of all terms
/// agree, and half a unit for its additions; the quotient adds half a unit. Tests on many inputs see and assert less than 4.
/// log_softmax, 6: a quotient of such exponentials and a logarithm, one unit each, and half a unit for the last addition;
/// where the quotient is small, its error is the result's. Backward, 3: a difference and one or two multiplications, half a
/// unit each, twice that for large leading digits. The subtrahend is the sum, as accurate as in twice the precision, or the
/// sum times exp(y), which has the exponential's two units; where the difference cancels, these errors exceed units of the
/// result: that is the slack. 16-bit: half a unit for the final rounding, and the effect of a relative error of 2^-16 before
/// it.
///
/// f64, 8: an exponential has one unit for exp() and half a unit for its correction, which count twice in results with a
/// large leading digit; the sum has the same error; additions, quotient and the rounding of the reference, which is computed
/// in long double, have half a unit each.
double allowed_ulp(DType output) noexcept {
  switch (output) {
    case DType::f64: return 8.0;
    case DType::f16: return 0.5 + 0x1.0p-16 * 0x1.0p11;
    case DType::bf16: return 0.5 + 0x1.0p-16 * 0x1.0p8;
    default: return 6.0;
  }
}

/// Determines which elements of a row contribute, and what a mask adds to them.
class Masking {
 public:
  Masking(const Shape& shape, std::span<const HostArray> arrays) : shape_(shape) {
    for (const HostArray& array : arrays) {
      if (array.info.name == "mask") mask_ = array.data;
      if (array.info.name == "valid_cols") valid_cols_ = array.data;
    }
  }

  std::int64_t length(std::int64_t row) const {
    std::int64_t length = shape_.cols;
    if (shape_.options.causal) length = row % shape_.cols + 1;
    if (shape_.options.valid_cols)
      length = std::min(length, read_integer(DType::i32, valid_cols_, row / shape_.options.valid_cols_group));
    return std::max<std::int64_t>(length, 0);
  }
  bool keeps(std::int64_t row, std::int64_t column) const {
    return shape_.options.mask != Mask::keep || read_integer(DType::u8, mask_, mask_index(row, column)) != 0;
  }
  double added(std::int64_t row, std::int64_t column) const {
    return read_element(shape_.options.mask_dtype, mask_, mask_index(row, column));
  }

 private:
  std::int64_t mask_index(std::int64_t row, std::int64_t column) const {
    const row::Options& options = shape_.options;
    const std::int64_t inner = options.mask_inner == 0 ? shape_.rows : options.mask_inner;
    const std::int64_t group = row / inner;
    return group / options.mask_middle * options.mask_outer_stride +
           group % options.mask_middle * options.mask_middle_stride + row % inner * options.mask_row_stride + column;
  }

  const Shape& shape_;
  const std::byte* mask_ = nullptr;
  const std::byte* valid_cols_ = nullptr;
};

/// scale * (x - origin) as a sum of two numbers: the error of one, multiplied by an exponent of 745, would be large.
struct Exponent {
  long double high, low;

  Exponent(long double x, long double origin, long double scale) : high(x - origin) {
    const long double included = high - x;
    low = (x - (high - included)) - (origin + included);
    if (scale == 1) return;
    const long double scaled = high * scale;
    low = std::fma(high, scale, -scaled) + low * scale;
    high = scaled;
  }
  /// Below the exponent limit 0, where `low` may be NaN.
  long double power() const { return high > -1000 ? std::exp(high) * (1 + low) : 0; }
};

/// The results of a row of f64 with a finite maximum, in long double, rounded once. An additive mask has scaled the
/// elements.
void wide_results(const Shape& shape, double largest, std::vector<double>& values) {
  const long double scale = shape.options.mask == Mask::add ? 1 : shape.options.scale;
  long double sum = 0, others = 0;
  std::int64_t ties = 0;
  for (const double value : values) {
    const long double power = Exponent(value, largest, scale).power();
    sum += power;
    if (value == largest)
      ++ties;
    else
      others += power;
  }
  const long double log_sum = std::log1p(others + static_cast<long double>(ties - 1));
  for (double& value : values) {
    const Exponent exponent(value, largest, scale);
    if (!shape.cost.logarithm)
      value = static_cast<double>(exponent.power() / sum);
    else if (!std::isinf(value))
      value = static_cast<double>(exponent.high + (exponent.low - log_sum));
  }
}

void forward_reference(const Shape& shape, const Masking& masking, const HostArray& x, std::int64_t row,
                       row::ReferenceRow& out) {
  const row::Elements elements{x.info};
  const std::int64_t length = masking.length(row);
  std::vector<double>& values = out.result;
  // 16-bit arithmetic flushes terms below 2^-142 to zero.
  std::ranges::fill(out.slack, shape.cost.logarithm && shape.output == DType::bf16 ? 0x1.0p-126 : 0.0);
  // Each denormal term of a sum has lost digits, at most three times: as an exponential, and when it is rescaled.
  if (shape.cost.logarithm && shape.wide()) std::ranges::fill(out.slack, 0x1.8p-1073 * static_cast<double>(shape.cols));
  double largest = -INFINITY;
  bool has_nan = false;
  for (std::int64_t column = 0; column < shape.cols; ++column) {
    double value = -INFINITY;
    if (column < length && masking.keeps(row, column)) {
      value = read_element(shape.input, x.data, elements.at(row, column));
      if (shape.options.mask == Mask::add && shape.wide())
        value = std::fma(value, shape.options.scale, masking.added(row, column));
      else if (shape.options.mask == Mask::add)  // rounded to float32 by definition
        value = std::fmaf(static_cast<float>(value), static_cast<float>(shape.options.scale),
                          static_cast<float>(masking.added(row, column)));
      else if (!shape.wide())
        value *= shape.options.scale;
    }
    values[static_cast<std::size_t>(column)] = value;
    largest = std::max(largest, value);
    has_nan = has_nan || std::isnan(value);
  }
  if (has_nan || std::isinf(largest)) {
    const bool empty = !has_nan && largest < 0 && shape.options.safe;
    std::ranges::fill(values, empty ? 0.0 : NAN);
    return;
  }
  if (shape.wide()) return wide_results(shape, largest, values);
  long double sum = 0, others = 0;
  std::int64_t ties = 0;
  for (double& value : values) {
    const bool tie = value == largest;
    value -= largest;
    const double power = std::exp(value);
    sum += power;
    if (tie)
      ++ties;
    else
      others += power;
    if (!shape.cost.logarithm) value = power;
  }
  const auto log_sum = static_cast<double>(std::log1p(others + static_cast<long double>(ties - 1)));
  for (double& value : values) value = shape.cost.logarithm ? value - log_sum : static_cast<double>(value / sum);
}

/// Error of a sum relative to the magnitudes of its terms: as in twice the precision, for some thousand additions.
double twice_the_precision(const Shape& shape) noexcept { return shape.wide() ? 0x1.0p-100 : 0x1.0p-42; }

void backward_reference(const Shape& shape, const Masking& masking, const HostArray& dy, const HostArray& y,
                        std::int64_t row, row::ReferenceRow& out) {
  const row::Elements dy_elements{dy.info}, y_elements{y.info};
  const std::int64_t length = masking.length(row);
  LongSum terms;
  long double size = 0;  // sum of the terms' magnitudes
  bool any_not_zero = false;
  const auto takes_part = [&](std::int64_t column) { return column < length && masking.keeps(row, column); };
  const auto gradient = [&](std::int64_t c) { return read_element(shape.input, dy.data, dy_elements.at(row, c)); };
  const auto result = [&](std::int64_t c) { return read_element(shape.input, y.data, y_elements.at(row, c)); };
  for (std::int64_t column = 0; column < shape.cols; ++column) {
    if (!takes_part(column)) continue;
    any_not_zero = any_not_zero || result(column) != 0;
    if (shape.cost.logarithm)
      terms.include(gradient(column));
    else
      terms.include_product(gradient(column), result(column));
    size += std::fabs(shape.cost.logarithm ? gradient(column) : gradient(column) * static_cast<long double>(result(column)));
  }
  const long double sum = terms.value();
  // Digits that are lost in denormal numbers: by each product of the sum, and by products with the scale.
  const double smallest = shape.wide() ? 0x1.0p-1074 : 0x1.0p-149;
  const double of_sum = 4 * smallest * static_cast<double>(shape.cols), of_scale = smallest * shape.options.scale;
  const bool empty = shape.options.safe && shape.cost.logarithm && !any_not_zero;
  // Where terms exceed the largest number together, a sum of some of them may be infinite, as their order decides.
  const bool may_overflow = std::isfinite(size) && size >= (shape.wide() ? 0x1.fffffffffffffp1023L : 0x1.fffffep127L);
  for (std::int64_t column = 0; column < shape.cols; ++column) {
    const auto at = static_cast<std::size_t>(column);
    out.slack[at] = 0;
    out.result[at] = 0;
    if (may_overflow) {
      out.slack[at] = row::anything;
      continue;
    }
    if (!takes_part(column)) {
      // Without a finite sum the kernel computes 0 * inf here, so any value passes.
      out.slack[at] = std::isfinite(static_cast<double>(sum)) ? 0.0 : row::anything;
      continue;
    }
    if (empty) continue;
    if (shape.cost.logarithm) {
      const long double probability =
          shape.wide() ? std::exp(static_cast<long double>(result(column))) : std::exp(result(column));
      out.result[at] = static_cast<double>(shape.options.scale * (gradient(column) - probability * sum));
      const double term = shape.options.scale * std::fabs(static_cast<double>(probability * sum));
      const double of_exponential = shape.wide() ? 0x1.8p-51 : shape.output == DType::f32 ? 0x1.8p-22 : 0x1.0p-16;
      out.slack[at] = of_exponential * term +
                      twice_the_precision(shape) * shape.options.scale * static_cast<double>(probability * size) +
                      of_scale * (1 + 2 * std::fabs(static_cast<double>(sum)));  // the probability may be denormal, too
    } else {
      const long double difference = (gradient(column) - terms.sum) - terms.lost;
      out.result[at] = static_cast<double>(shape.options.scale * result(column) * difference);
      out.slack[at] =
          of_sum * shape.options.scale * std::fabs(result(column)) + of_scale +
          smallest * std::fabs(static_cast<double>(difference)) +
          twice_the_precision(shape) * shape.options.scale * std::fabs(result(column)) * static_cast<double>(size);
    }
  }
}

}  // namespace

void fill_softmax_inputs(const Shape& shape, std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) {
  const auto bits_at = [&](std::uint64_t stream, std::int64_t row, std::int64_t column) {
    return scramble(scramble(seed + stream) + static_cast<std::uint64_t>(row * shape.cols + column));
  };
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    const HostArray& array = arrays[a];
    if (!array.info.input || array.info.elements() == 0) continue;
    if (array.info.name == "mask" || array.info.name == "valid_cols") {
      fill_mask(shape, seed, kind, array);
      continue;
    }
    const bool is_result = shape.reads_two() && a == 1;
    row::fill_rows(array, [&](std::int64_t row, std::vector<double>& values) {
      const bool odd = kind == InputKind::edge_cases && row < edge_case_rows;
      for (std::int64_t column = 0; column < shape.cols; ++column) {
        const std::uint64_t bits = bits_at(a, row, column);
        values[static_cast<std::size_t>(column)] =
            !odd ? bell(bits) * 2
                 : (shape.reads_two() && !is_result ? edge_case_gradient(row, column, shape.cols, bits)
                                                    : edge_case_value(row, column, shape.cols, shape.input, bits));
      }
      if (is_result) to_softmax(values, shape.cost.logarithm);
    });
  }
}

CheckResult check_softmax(const Shape& shape, std::span<const HostArray> arrays, std::int64_t max_rows) {
  if (arrays[0].info.elements() == 0) {
    CheckResult nothing;
    nothing.error_unit = "ULP";
    nothing.allowed_error = allowed_ulp(shape.output);
    return nothing;
  }
  const Masking masking(shape, arrays);
  const auto reference = [&](std::int64_t row, row::ReferenceRow& out) {
    if (shape.reads_two())
      backward_reference(shape, masking, arrays[0], arrays[1], row, out);
    else
      forward_reference(shape, masking, arrays[0], row, out);
  };
  return row::check_rows(arrays[shape.reads_two() ? 2 : 1], allowed_ulp(shape.output), max_rows, reference);
}

}  // namespace tunesmith
