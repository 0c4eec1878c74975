// Inputs that try a softmax, and the float64 reference that judges it.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <sstream>
#include <thread>
#include <vector>

#include "templates/half.h"
#include "templates/softmax/softmax_op.h"
#include "templates/softmax/softmax_shape.h"

namespace tunesmith {
namespace {

using softmax::Shape;

/// SplitMix64 (Steele, Lea and Flood, 2014): one multiply-xor chain per number, seekable by construction.
std::uint64_t scramble(std::uint64_t state) noexcept {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

double uniform(std::uint64_t bits) noexcept { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

/// Close to a standard normal: the sum of four uniform numbers, scaled. Cheap, and its tails do not matter here.
double bell(std::uint64_t bits) noexcept {
  const double sum = static_cast<double>(bits & 0xffff) + static_cast<double>((bits >> 16) & 0xffff) +
                     static_cast<double>((bits >> 32) & 0xffff) + static_cast<double>(bits >> 48);
  return (sum / 65536 - 2) * 1.7320508;
}

constexpr std::int64_t awkward_rows = 14;

double awkward(std::int64_t row, std::int64_t column, std::int64_t cols, DType dtype, std::uint64_t bits) noexcept {
  const double normal = bell(bits);
  const double huge = dtype == DType::f16 ? 6e4 : 3e38;
  switch (row) {
    case 0: return 3.0;                                     // ties
    case 1: return -INFINITY;                               // NaN by definition
    case 2: return column == cols / 2 ? INFINITY : normal;  // NaN by definition
    case 3: return column == cols - 1 ? NAN : normal;       // NaN in the last column only
    case 4: return normal + 1e4;                            // large common offset
    case 5: return normal - 1e4;
    case 6: return column % 2 == 0 ? -INFINITY : normal;      // masked half
    case 7: return normal * 1e-40;                            // denormals
    case 8: return column == cols - 1 ? 100 : -100 + normal;  // one dominates, results near the smallest numbers
    case 9: return (uniform(bits) - 0.5) * 200;               // wide
    case 10: return (uniform(bits) - 0.5) * 2 * huge;         // as wide as it gets
    case 11: return column == 0 ? huge : huge * (1 - uniform(bits) * 1e-3);
    case 12: return column < cols / 2 ? -INFINITY : normal;              // whole threads and tiles see nothing but -inf
    default: return column == 0 ? normal : normal - 90 * uniform(bits);  // results down to denormals
  }
}

/// Runs work(begin, end) over [0, count), on several threads when it is worth starting them.
template <typename Work>
void over_rows(std::int64_t count, std::int64_t cols, const Work& work) {
  const std::int64_t threads =
      std::clamp<std::int64_t>(count * cols >> 16, 1, std::max(1u, std::min(16u, std::thread::hardware_concurrency())));
  if (threads == 1) return work(std::int64_t{0}, count);
  std::vector<std::thread> pool;
  for (std::int64_t i = 0; i < threads; ++i)
    pool.emplace_back([&, i] { work(count * i / threads, count * (i + 1) / threads); });
  for (std::thread& thread : pool) thread.join();
}

/// The error that is allowed, in units of the output's last place.
///
/// float32: an exponential is off by at most 0.94 units for its polynomial and 0.3 for the roundings of its argument, which
/// are twice as many units of a result whose leading digits are large; the sum carries as much if all its terms' errors
/// agree, and half a unit for its additions; the quotient adds half a unit. Six in all; below four is what tests on many
/// inputs see and assert. 16-bit: half a unit for the final rounding, and what 2^-16 relative error before it can move the
/// result.
double allowed_ulp(DType output) noexcept {
  switch (output) {
    case DType::f32: return 6.0;
    case DType::f16: return 0.5 + 0x1.0p-16 * 0x1.0p11;
    case DType::bf16: return 0.5 + 0x1.0p-16 * 0x1.0p8;
  }
  return 0;
}

struct RowOutcome {
  double max_error = 0;
  std::string failure;
};

/// `x` is scratch for one row.
RowOutcome check_row(const Shape& shape, const std::byte* x_data, const std::byte* y_data, std::int64_t row,
                     std::vector<double>& x) {
  double largest = -INFINITY;
  bool undefined = false;
  for (std::int64_t column = 0; column < shape.cols; ++column) {
    x[column] = read_element(shape.input, x_data, row * shape.x_row_stride + column);
    largest = std::max(largest, x[column]);
    undefined = undefined || std::isnan(x[column]);
  }
  undefined = undefined || std::isinf(largest);
  double sum = 0;
  if (!undefined)
    for (double& value : x) sum += value = std::exp(value - largest);

  RowOutcome outcome;
  const double allowed = allowed_ulp(shape.output);
  for (std::int64_t column = 0; column < shape.cols; ++column) {
    const double result = read_element(shape.output, y_data, row * shape.y_row_stride + column);
    const double reference = undefined ? NAN : x[column] / sum;
    double error = 0;
    if (undefined != std::isnan(result))
      error = INFINITY;
    else if (!undefined)
      error = std::fabs(result - reference) / spacing(shape.output, reference);
    if (!(error <= allowed) && outcome.failure.empty()) {
      std::ostringstream text;
      text.precision(9);
      text << "y[" << row << "," << column << "] is " << result << ", the float64 reference is " << reference << " ("
           << error << " ULP, allowed " << allowed << ")";
      outcome.failure = text.str();
    }
    outcome.max_error = std::max(outcome.max_error, error);
  }
  return outcome;
}

}  // namespace

void SoftmaxOp::fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                            std::span<const HostArray> arrays) const {
  const Shape shape(problem);
  const HostArray& x = arrays[0];
  over_rows(shape.rows, shape.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t column = 0; column < shape.cols; ++column) {
        const std::uint64_t bits = scramble(scramble(seed) + static_cast<std::uint64_t>(row * shape.cols + column));
        const bool odd = kind == InputKind::awkward && row < awkward_rows;
        const double value = odd ? awkward(row, column, shape.cols, shape.input, bits) : bell(bits) * 2;
        write_element(shape.input, x.data, row * shape.x_row_stride + column, static_cast<float>(value));
      }
  });
}

CheckResult SoftmaxOp::check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const Shape shape(problem);
  CheckResult result;
  result.error_unit = "ULP";
  result.allowed_error = allowed_ulp(shape.output);
  result.total_rows = shape.rows;
  result.checked_rows = std::min(shape.rows, std::max<std::int64_t>(max_rows, 1));
  std::vector<RowOutcome> outcomes(static_cast<std::size_t>(result.checked_rows));
  over_rows(result.checked_rows, shape.cols, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> scratch(static_cast<std::size_t>(shape.cols));
    for (std::int64_t i = begin; i < end; ++i) {
      // Evenly spread, the first and the last row included.
      const std::int64_t row = result.checked_rows > 1 ? (shape.rows - 1) * i / (result.checked_rows - 1) : 0;
      outcomes[static_cast<std::size_t>(i)] = check_row(shape, arrays[0].data, arrays[1].data, row, scratch);
    }
  });
  for (const RowOutcome& outcome : outcomes) {
    result.max_error = std::max(result.max_error, outcome.max_error);
    if (result.first_failure.empty()) result.first_failure = outcome.failure;
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
