// Inputs that try RMS normalization, and its reference in float64.

#include <cmath>

#include "core/half.h"
#include "templates/long_sum.h"
#include "templates/rms_norm/op.h"
#include "templates/row/check.h"
#include "templates/sampling.h"

namespace tunesmith {
namespace {

/// Element of an edge-case row; random in other rows.
double element(std::int64_t row, std::int64_t column, std::int64_t cols, DType dtype, std::uint64_t bits) noexcept {
  const bool wide = dtype == DType::f64;
  const double normal = bell(bits), huge = dtype == DType::f16 ? 6e4 : wide ? 1.7e308 : 3e38;
  const double limit =
      (wide ? 0x1.0p512 : 0x1.0p64) / std::sqrt(static_cast<double>(cols));  // a row of it has the largest sum of squares
  switch (row) {
    case 0: return 0;  // without eps: NaN by definition
    case 1: return column == cols / 2 ? INFINITY : normal;
    case 2: return column == 0 ? -INFINITY : normal;
    case 3: return column == cols - 1 ? NAN : normal;
    case 4: return huge * (uniform(bits) - 0.5) * 2;                      // squares overflow
    case 5: return limit * (1 + uniform(bits));                           // their sum alone overflows
    case 6: return limit * (0.5 + 0.4 * uniform(bits));                   // and just does not
    case 7: return normal * (wide ? 1e-156 : 1e-21);                      // squares near the smallest normal numbers
    case 8: return normal * (wide ? 1e-310 : 1e-40);                      // squares that vanish
    case 9: return column == cols / 3 ? 1e4 : normal * 1e-3;              // one dominates
    case 10: return -7.25;                                                // all alike
    case 11: return std::exp((wide ? 200 : 20) * (uniform(bits) - 0.5));  // of all sizes
    case 12: return column == cols - 1 ? 0x1.0p-10 : 0;                   // whole threads see nothing but zeros
    default: return normal * 2;
  }
}

double weight(std::int64_t column, double offset, std::uint64_t bits, bool edge_cases) noexcept {
  if (edge_cases && column % 101 == 7) return 0;
  if (edge_cases && column % 101 == 8) return -offset;
  if (edge_cases && column % 101 == 9) return 1e4;
  if (edge_cases && column % 1009 == 10) return INFINITY;
  if (edge_cases && column % 1009 == 11) return NAN;
  return 1 + bell(bits) / 4;
}

/// rstd of a row, and its allowed relative error where squares are denormal numbers.
struct Scale {
  long double rstd;
  double share;
};

/// Beyond `largest` sums of float32, or of f64, are infinite. Within 1e-5 of it, roundings decide whether they are.
Scale scale_of(const row::Shape& shape, const std::byte* x, std::int64_t row, double eps) {
  const long double largest = shape.wide() ? 0x1.0p1024L : 0x1.0p128L;
  LongSum squares;
  for (std::int64_t column = 0; column < shape.cols; ++column) {
    const long double value = read_element(shape.input, x, row * shape.in[0].stride + column);
    squares.include(value * value);
  }
  const long double sum = squares.value();
  if (std::fabs(sum / largest - 1) < 1e-5L) return {0, row::anything};
  if (sum > largest) return {0, 0};
  const long double mean = sum / static_cast<long double>(shape.cols) + eps;
  // Each square, and their mean, is off by at most half the smallest number, 2^-150 or 2^-1075.
  const long double smallest = shape.wide() ? 0x1.0p-1074L : 0x1.0p-149L;
  const auto share = static_cast<double>(sum > 0 ? smallest / mean : 0);
  if (share > 0.125) return {0, row::anything};
  return {1 / std::sqrt(mean), share};
}

/// The error that is allowed, in units of the output's last place. With u = 2^-24, the largest relative error of one
/// rounding:
///
///   sum of squares      v roundings of a chain over a vector of v elements (no term is negative, so each is relative to the
///                       sum at most), one when the two floats of the compensated sum become one
///   mean                two: the quotient, and the number of columns above 2^24
///   eps                 one; the square root halves these: (v + 4) / 2
///   rstd                one more for the reciprocal square root
///   y                   one for x * rstd, one for weight + offset, one for their product
///
/// 16 bytes of float32 are v = 4 elements: 5u for rstd and 8u for y; of 16-bit types alone v = 8: 7u and 10u. A number is
/// less than 2^24 units of its last place (float32), 2^11 (f16), 2^8 (bf16), so u is at most 1, 2^-13 or 2^-16 of them. The
/// rounding to a 16-bit type adds half a unit.
///
/// f64 has u = 2^-53 and v = 2 elements, and the number of columns is exact. The root halves v + 3 roundings, and it and the
/// quotient of 1 and the root are rounded: 4.5u for rstd, 7.5u for y. The reference is computed in long double, with a
/// compensated sum, and rounded to f64: half a unit.
constexpr double allowed_rstd_ulp = 7;
double allowed_ulp(DType output) noexcept {
  switch (output) {
    case DType::f16: return 0.5 + 10 * 0x1.0p-13;
    case DType::bf16: return 0.5 + 10 * 0x1.0p-16;
    default: return 8;
  }
}

}  // namespace

void ParsedRmsNorm::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  const bool edge_cases = kind == InputKind::edge_cases;
  const double offset = shape().wide() ? typed_.weight_offset : static_cast<float>(typed_.weight_offset);
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    if (!arrays[a].info.input) continue;
    const bool is_weight = arrays[a].info.name == "weight";
    row::fill_rows(arrays[a], [&](std::int64_t row, std::vector<double>& values) {
      for (std::int64_t column = 0; column < typed_.cols; ++column) {
        const std::uint64_t bits = scramble(scramble(seed + a) + static_cast<std::uint64_t>(row * typed_.cols + column));
        values[static_cast<std::size_t>(column)] =
            is_weight ? weight(column, offset, bits, edge_cases)
                      : element(edge_cases ? row : -1, column, typed_.cols, typed_.dtype, bits);
      }
    });
  }
}

CheckResult ParsedRmsNorm::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const std::byte* const x = arrays[0].data;
  // As kernels add them.
  const auto added = [&](double value) { return shape().wide() ? value : static_cast<double>(static_cast<float>(value)); };
  const double eps = added(typed_.eps), offset = added(typed_.weight_offset);
  const double denormal = shape().wide() ? 0x1.0p-1074 : 0x1.0p-150;
  const std::byte* const weight = typed_.weight ? arrays[2].data : nullptr;
  CheckResult result;
  for (const HostArray& array : arrays) {
    if (array.info.name == "y")
      result = row::check_rows(array, allowed_ulp(shape().output), max_rows, [&](std::int64_t row, row::ReferenceRow& out) {
        const Scale scale = scale_of(shape(), x, row, eps);
        for (std::int64_t column = 0; column < typed_.cols; ++column) {
          const auto at = static_cast<std::size_t>(column);
          const long double factor =
              weight == nullptr ? 1 : static_cast<long double>(read_element(typed_.weight_type(), weight, column)) + offset;
          out.result[at] =
              static_cast<double>(read_element(typed_.dtype, x, row * shape().in[0].stride + column) * scale.rstd * factor);
          // x * rstd may be a denormal number.
          out.slack[at] = scale.share == row::anything
                              ? row::anything
                              : scale.share * std::fabs(out.result[at]) + denormal * std::fabs(static_cast<double>(factor));
        }
      });
    if (array.info.name == "rstd" && result.passed) {
      const CheckResult rstd =
          row::check_rows(array, allowed_rstd_ulp, max_rows, [&](std::int64_t row, row::ReferenceRow& out) {
            const Scale scale = scale_of(shape(), x, row, eps);
            out.result[0] = static_cast<double>(scale.rstd);
            out.slack[0] = scale.share == row::anything ? scale.share : scale.share * out.result[0];
          });
      result.passed = rstd.passed;
      result.first_failure = rstd.first_failure;
    }
  }
  return result;
}

}  // namespace tunesmith
