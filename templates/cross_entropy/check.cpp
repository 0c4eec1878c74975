// Compares the results of cross-entropy kernels with the reference.

#include "templates/row/check.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "core/half.h"
#include "templates/cross_entropy/reference.h"
#include "templates/sampling.h"

namespace tunesmith::cross_entropy {

const HostArray* find(std::span<const HostArray> arrays, std::string_view name) noexcept {
  for (const HostArray& array : arrays)
    if (array.info.name == name) return &array;
  return nullptr;
}

namespace {

/// Returns the error of rounding a result to its dtype. Relative allowances count it for 32 and 64 bits, except that of
/// denormal numbers.
double rounding(DType dtype, double value) {
  return size_of(dtype) >= 4 ? spacing(dtype, 0) : 0.5 * spacing(dtype, value) * (1 + 0x1.0p-10);
}

class Comparison {
 public:
  /// `number`: the dtype of results unless stated otherwise.
  Comparison(double allowed, DType number) : allowed_(allowed), number_(number) {}

  /// `allowance`: allowed absolute error, in addition to half a unit in the last place of a 16-bit result.
  void compare(const std::string& what, double found, long double reference, double allowance) {
    compare(what, found, reference, allowance, number_);
  }
  void compare(const std::string& what, double found, long double reference, double allowance, DType dtype) {
    const long double exact = reference;
    reference = in_range(dtype, reference);
    double error = 0;
    if (std::isnan(reference) || std::isnan(found)) {
      error = std::isnan(reference) == std::isnan(found) ? 0 : INFINITY;
    } else if (std::isinf(reference) || std::isinf(found)) {
      // Infinity instead of a finite number, or the reverse, is an error as large as that of the largest number.
      const double largest = std::isinf(found) ? std::copysign(largest_number(dtype), found) : found;
      const bool near = std::isfinite(exact) && std::fabs(largest - exact) <= allowance;
      error = reference == found || near ? 0 : INFINITY;
    } else if (const long double excess = std::fabs(found - reference) - rounding(dtype, static_cast<double>(reference));
               excess > 0) {  // otherwise the allowance may be 0
      error = static_cast<double>(excess / allowance);
    }
    worst_ = std::max(worst_, error);
    if (error <= 1 || !failure_.empty()) return;
    std::ostringstream text;
    text.precision(dtype == DType::f64 ? 17 : 9);
    text << what << " is " << found << ", the reference is " << reference << " (" << error << " times the allowed error)";
    failure_ = text.str();
  }
  void require(bool holds, const std::string& what) {
    if (!holds && failure_.empty()) failure_ = what;
    if (!holds) worst_ = INFINITY;
  }
  void include(const Comparison& other) {
    worst_ = std::max(worst_, other.worst_);
    if (failure_.empty()) failure_ = other.failure_;
  }
  double worst() const { return worst_ * allowed_; }
  const std::string& failure() const { return failure_; }

 private:
  double allowed_;
  DType number_;
  double worst_ = 0;
  std::string failure_;
};

std::string at(const char* array, std::int64_t row) { return std::string(array) + "[" + std::to_string(row) + "]"; }
std::string at(const char* array, std::int64_t row, std::int64_t column) {
  return std::string(array) + "[" + std::to_string(row) + "," + std::to_string(column) + "]";
}

double upstream_of(std::span<const HostArray> arrays, const Settings& settings, std::int64_t row) {
  if (settings.upstream == Upstream::none) return 1;
  return read_element(settings.number(), find(arrays, "dloss")->data, settings.upstream == Upstream::row ? row : 0);
}

/// Divisors of a mean: the sum of the target weights, and for the z term, which is not weighted, the number of rows that are
/// not ignored.
struct Divisors {
  long double weight = 1, rows = 1;
};

Divisors divisors_of(const Settings& settings, std::span<const HostArray> arrays) {
  if (settings.reduction != Reduction::mean) return {};
  Divisors total{0, 0};
  for (std::int64_t r = 0; r < settings.shape.rows; ++r) {
    const Row row = row_of(settings, arrays, r);
    double weight = row.target_weight;
    if (settings.kind == Kind::combine && settings.weight && row.counts())
      for (std::int64_t s = 0; s < settings.shards; ++s) {
        const std::int64_t part = (s * settings.shape.rows + r) * 8;
        const std::byte* const parts = find(arrays, "partials")->data;
        if (read_element(settings.number(), parts, part + 6) != 0) weight = read_element(settings.number(), parts, part + 5);
      }
    if (!row.counts()) continue;
    total.weight += weight;
    total.rows += 1;
  }
  return total;
}

/// Checks the gradient of a row, given p_c = exp(x_c - lse) from reference_of or the caller's lse.
template <typename Real>
void check_gradient(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row,
                    const RowReference<Real>& reference, const Divisors& divisors, Comparison& comparison) {
  const row::Shape& shape = settings.shape;
  const HostArray& logits = *find(arrays, "logits");
  const HostArray& dlogits = *find(arrays, "dlogits");
  const row::Elements elements{dlogits.info};
  const HostArray* const weight = find(arrays, "weight");
  const Errors errors = errors_of(settings);
  const Real hard = (1 - static_cast<Real>(settings.label_smoothing)) * row.target_weight;
  const Real smooth = settings.label_smoothing / static_cast<Real>(settings.vocab_size);
  // A row without a loss has the gradient of its lse alone, and the divisors may be 0.
  const auto upstream =
      row.counts() ? static_cast<Real>(upstream_of(arrays, settings, index) / divisors.weight) : static_cast<Real>(0);
  const auto z_slope =
      row.counts() ? static_cast<Real>(2 * settings.z_loss * divisors.weight / divisors.rows) : static_cast<Real>(0);
  const Real factor = hard + smooth * reference.weights + z_slope * reference.lse;
  const bool finite = std::isfinite(reference.lse);
  // The product of an infinite factor with p = 0 is NaN.
  const Real most = std::fabs(hard) + smooth * reference.weights + std::fabs(z_slope * reference.lse);
  if (finite && std::isinf(in_range(settings.number(), most * std::max(std::fabs(upstream), static_cast<Real>(1))))) return;
  const double dlse = settings.lse_gradient ? read_element(settings.number(), find(arrays, "dlse")->data, index) : 0;
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    const double found = read_element(shape.output, dlogits.data, elements.at(index, c));
    if (!row.counts() && dlse == 0) {
      comparison.require(found == 0, at("dlogits", index, c) + " is not 0, and its row has no loss");
      continue;
    }
    // Rounding decides between 0 and more than the largest number: nothing is known of exp(x - lse) with the caller's lse.
    if (settings.kind == Kind::backward && reference.logit_error > 0.125) continue;
    if (!std::isfinite(upstream) || !std::isfinite(dlse)) {  // infinite or NaN, as roundings of the other factors decide
      comparison.require(!std::isfinite(found), at("dlogits", index, c) + " is finite, and its upstream gradient is not");
      continue;
    }
    const Real x = transformed<Real>(settings, logit_at(logits, index, c));
    const Real p = x == -INFINITY ? 0 : std::exp(x - reference.largest - reference.log_sum);
    const double w = weight == nullptr ? 1.0 : read_element(settings.number(), weight->data, c);
    Real value = p * factor - smooth * w;
    Real terms = p * (hard + smooth * reference.weights + std::fabs(z_slope * reference.lse)) + smooth * w;
    if (c == row.column) {
      value = hard * reference.target_rest + smooth * (reference.weights * p - w) + z_slope * reference.lse * p;
      terms = hard * std::fabs(reference.target_rest) + smooth * (reference.weights * p + w) +
              std::fabs(z_slope * reference.lse * p);
    }
    if (!row.counts()) value = terms = 0;
    const Real slope_here = slope(settings, x);
    value = finite ? (value * upstream + dlse * p) * slope_here : static_cast<Real>(NAN);
    const double cancelled = 16 * errors.rounding;  // in 1 - tanh^2
    Real allowance = errors.relative * terms * slope_here + z_slope * p * reference.lse_error * slope_here;
    allowance += 4 * reference.logit_error * terms * slope_here;
    // Without nll, p - 1 of the target follows from the difference of lse and logit.
    const bool by_difference = c == row.column && settings.kind == Kind::backward && find(arrays, "nll") == nullptr;
    const Real difference_error = by_difference ? 2 * reference.logit_error * hard * p : 0;
    allowance += difference_error * slope_here;
    if (settings.softcap != 0) allowance += cancelled * (terms + difference_error) * settings.scale;
    // Values far below the sum are flushed to zero.
    allowance = std::fabs(upstream) * (allowance + errors.negligible * std::fabs(factor) * settings.scale);
    allowance += std::fabs(dlse) * ((errors.relative + 4 * reference.logit_error) * p * slope_here +
                                    (settings.softcap != 0 ? cancelled * p : errors.negligible) * settings.scale);
    // The slope multiplies products that may be denormal numbers: of the upstream gradient with p, and with a class weight.
    // The upstream gradient is a quotient that may be one, too.
    allowance += errors.denormal * (2 + std::fabs(w) + most) * settings.scale;
    comparison.compare(at("dlogits", index, c), found, value, static_cast<double>(allowance), shape.output);
  }
}

template <typename Real>
void check_partials(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row,
                    const RowReference<Real>& reference, Comparison& comparison) {
  const Errors errors = errors_of(settings);
  const double relative_error = errors.relative;
  const double least = settings.wide() ? errors.negligible : 0x1.0p-100;
  const std::byte* const parts = find(arrays, "partials")->data;
  const auto found = [&](int field) { return read_element(settings.number(), parts, index * 8 + field); };
  const auto allowed_logit = [&](Real logit) {
    return reference.logit_error + errors.rounding * static_cast<double>(std::fabs(logit));
  };
  const auto allowed = [&](Real terms) { return relative_error * static_cast<double>(std::fabs(terms)); };
  comparison.compare(at("partials.largest", index), found(0), reference.largest, allowed_logit(reference.largest));
  // Do not compare sums of rows that are NaN or infinite.
  if (!std::isfinite(reference.largest)) return;
  comparison.compare(
      at("partials.sum_excluding_max", index), found(1), reference.sum_excluding_max,
      (relative_error + 4 * reference.logit_error) * static_cast<double>(reference.sum_excluding_max) + least);
  const bool has_target = row.column >= 0;
  comparison.compare(at("partials.has_target", index), found(6), has_target ? 1 : 0, 0x1.0p-30);
  if (has_target) {
    comparison.compare(at("partials.target_logit", index), found(4), reference.target_logit,
                       allowed_logit(reference.target_logit));
    comparison.compare(at("partials.target_weight", index), found(5), row.target_weight, 0x1.0p-30);
  }
  if (settings.label_smoothing != 0) {
    const Real own = has_target ? row.target_weight * (reference.largest - reference.target_logit) : 0;
    const Real below = reference.below - own;
    // Nothing is known of a sum with terms beyond the largest number.
    const bool overflows = std::isinf(in_range(settings.number(), std::fabs(reference.below) + std::fabs(own)));
    comparison.compare(at("partials.below", index), found(2), std::isnan(own) || overflows ? found(2) : below,
                       allowed(std::fabs(reference.below) + own) +
                           2 * static_cast<double>(reference.weights) * reference.logit_error + least);
    comparison.compare(at("partials.weights", index), found(3), reference.weights - (has_target ? row.target_weight : 0),
                       allowed(reference.weights));
  }
  if (settings.argmax) {
    const std::int64_t first = class_of_partial(settings, parts, index);
    comparison.require(may_be_argmax(settings, *find(arrays, "logits"), index, first - settings.vocab_start, reference),
                       at("partials.index", index) + " is " + std::to_string(first) + ", the reference is " +
                           std::to_string(reference.argmax + settings.vocab_start));
  }
}

/// Checks all results of one row.
template <typename Real>
void check_row(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Divisors& divisors,
               RowReference<Real>& reference, Row& row, Comparison& comparison) {
  if (settings.kind == Kind::backward)
    reference = from_lse<Real>(settings, arrays, index, row);
  else if (settings.kind == Kind::combine)
    reference = combined<Real>(settings, arrays, index, row);
  else
    reference = reference_of<Real>(settings, arrays, index, row);
  if (settings.kind == Kind::shard) return check_partials(settings, arrays, index, row, reference, comparison);
  if (settings.writes_loss()) {
    const auto found = [&](const char* array) { return read_element(settings.number(), find(arrays, array)->data, index); };
    comparison.compare(at("lse", index), found("lse"), reference.lse, reference.lse_error);
    if (settings.lse_low)
      comparison.compare(at("lse_low", index), found("lse_low"),
                         std::isfinite(reference.lse) ? reference.largest - found("lse") + reference.log_sum : 0,
                         errors_of(settings).relative * (1 + static_cast<double>(std::fabs(reference.log_sum))) +
                             2 * reference.logit_error);
    if (!settings.reduced()) {
      if (!reference.smoothing_overflows || std::isfinite(found("loss")))
        comparison.compare(at("loss", index), found("loss"), reference.loss, reference.loss_error);
      if (settings.z_loss != 0)
        comparison.compare(at("z_loss", index), found("z_loss"), reference.z_loss, reference.z_error);
    }
    if (settings.nll) comparison.compare(at("nll", index), found("nll"), reference.nll, reference.nll_error);
    if (settings.argmax) {
      const std::int64_t argmax = read_integer(settings.target, find(arrays, "argmax")->data, index);
      const HostArray* const logits = find(arrays, "logits");
      const bool marked = settings.mark_ignored && row.ignored;
      const std::int64_t expected = marked ? -1 : reference.argmax;
      comparison.require(
          argmax == expected || (!marked && logits != nullptr && may_be_argmax(settings, *logits, index, argmax, reference)),
          at("argmax", index) + " is " + std::to_string(argmax) + ", the reference is " + std::to_string(expected));
    }
  }
  if (settings.has_gradient()) check_gradient(settings, arrays, index, row, reference, divisors, comparison);
}

/// Compares with a reference in `Real`.
template <typename Real>
CheckResult check_as(const Settings& settings, std::span<const HostArray> arrays, std::int64_t max_rows) {
  const row::Shape& shape = settings.shape;
  CheckResult result;
  result.error_unit = "relative";
  result.allowed_error = errors_of(settings).relative;
  result.total_rows = shape.rows;
  result.checked_rows = std::min(shape.rows, std::max<std::int64_t>(max_rows, 1));
  const Divisors divisors = divisors_of(settings, arrays);

  struct Outcome {
    Comparison comparison{0, DType::f32};
    RowReference<Real> reference;
    Row row;
  };
  std::vector<Outcome> outcomes(static_cast<std::size_t>(result.checked_rows));
  over_rows(result.checked_rows, shape.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // Evenly spread, the first and the last row included.
      const std::int64_t index = result.checked_rows > 1 ? (shape.rows - 1) * i / (result.checked_rows - 1) : 0;
      Outcome& outcome = outcomes[static_cast<std::size_t>(i)];
      outcome.comparison = Comparison(result.allowed_error, settings.number());
      outcome.row = row_of(settings, arrays, index);
      check_row(settings, arrays, index, divisors, outcome.reference, outcome.row, outcome.comparison);
    }
  });
  Comparison all(result.allowed_error, settings.number());
  for (const Outcome& outcome : outcomes) all.include(outcome.comparison);

  if (settings.check_targets) {
    std::int64_t count = 0, first = -1;
    for (std::int64_t r = 0; r < shape.rows; ++r)
      if (row_of(settings, arrays, r).bad && count++ == 0) first = r;
    const std::byte* const found = find(arrays, "bad_targets")->data;
    all.require(read_integer(DType::i64, found, 0) == count && read_integer(DType::i64, found, 1) == first,
                "bad_targets is (" + std::to_string(read_integer(DType::i64, found, 0)) + ", " +
                    std::to_string(read_integer(DType::i64, found, 1)) + "), the reference is (" + std::to_string(count) +
                    ", " + std::to_string(first) + ")");
  }
  // Sums need every row.
  if (result.checked_rows == result.total_rows) {
    long double loss = 0, z_loss = 0;
    long double loss_error = 0, z_error = 0;
    std::int64_t num_correct = 0, undecided = 0;
    bool overflows = false;
    for (const Outcome& outcome : outcomes) {
      if (outcome.row.ignored) continue;
      const RowReference<Real>& row = outcome.reference;
      overflows = overflows || row.smoothing_overflows;
      const Real z_term = settings.z_loss != 0 ? row.z_loss : 0;
      z_loss += z_term;
      z_error += row.z_error;
      loss += row.loss - z_term;
      loss_error += row.loss_error - row.z_error;
      if (!outcome.row.counts()) continue;
      const bool is_maximum = row.target_logit >= row.largest - 2 * row.logit_error;
      if (row.maxima > 1 && is_maximum)
        ++undecided;
      else if (row.argmax == outcome.row.target)
        ++num_correct;
    }
    z_loss /= divisors.rows, z_error /= divisors.rows;
    loss = loss / divisors.weight + (settings.z_loss != 0 ? z_loss : 0);
    loss_error = loss_error / divisors.weight + z_error;
    const auto compare = [&](const char* name, double number, long double reference, long double error) {
      all.compare(std::string(name) + "[0]", number, reference,
                  static_cast<double>(error + 4 * errors_of(settings).rounding * std::fabs(reference)));
    };
    if (settings.writes_loss() && settings.reduced()) {
      const auto found = [&](const char* name) { return read_element(settings.number(), find(arrays, name)->data, 0); };
      if (!overflows || std::isfinite(found("loss"))) compare("loss", found("loss"), loss, loss_error);
      if (settings.z_loss != 0) compare("z_loss", found("z_loss"), z_loss, z_error);
    }
    if (settings.num_correct) {
      const std::int64_t found = read_integer(DType::i64, find(arrays, "num_correct")->data, 0);
      all.require(num_correct <= found && found <= num_correct + undecided,
                  "num_correct is " + std::to_string(found) + ", the reference is " + std::to_string(num_correct) +
                      (undecided == 0 ? "" : " to " + std::to_string(num_correct + undecided)));
    }
  }
  result.max_error = all.worst();
  result.first_failure = all.failure();
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace

CheckResult check(const Settings& settings, std::span<const HostArray> arrays, std::int64_t max_rows) {
  return settings.wide() ? check_as<long double>(settings, arrays, max_rows) : check_as<double>(settings, arrays, max_rows);
}

}  // namespace tunesmith::cross_entropy
