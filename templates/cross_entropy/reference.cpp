// Inputs that try cross-entropy, and the reference in double or better that checks it.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "templates/cross_entropy/problem.h"
#include "templates/half.h"
#include "templates/sampling.h"

namespace tunesmith::cross_entropy {

const HostArray* find(std::span<const HostArray> arrays, std::string_view name) noexcept {
  for (const HostArray& array : arrays)
    if (array.info.name == name) return &array;
  return nullptr;
}

namespace {

// ---- Inputs -------------------------------------------------------------------------------------------------------------

/// Rows with edge cases in their logits, their target, or both. Where losses are summed, rows without a finite loss are
/// ignored, so that they cannot poison the sum.
constexpr std::int64_t edge_case_rows = 22;

bool has_no_finite_loss(std::int64_t row) {
  return (row >= 1 && row <= 3) || row == 15 || row == 16 || row == 17 || row == 18;
}

double edge_case_logit(std::int64_t row, std::int64_t column, std::int64_t cols, std::int64_t target, DType dtype,
                       bool sums_logits, std::uint64_t bits) {
  const double normal = bell(bits);
  const double huge = dtype == DType::f16 ? 3e4 : (sums_logits ? 1e32 : 1e38);
  switch (row) {
    case 0: return 3.0;                                     // equal values
    case 1: return -INFINITY;                               // NaN by definition
    case 2: return column == cols / 2 ? INFINITY : normal;  // NaN by definition
    case 3: return column == cols - 1 ? NAN : normal;       // NaN in the last column only
    case 4: return normal + 1e4;                            // large common offset
    case 5: return normal - 1e4;
    case 6: return column % 2 == 0 && column != target ? -INFINITY : normal;  // masked half
    case 7: return normal * 1e-40;                                            // denormals
    case 8: return column == target ? 24 : normal;                            // confident
    case 9: return (uniform(bits) - 0.5) * 200;                               // wide
    case 10: return (uniform(bits) - 0.5) * 2 * huge;                         // as wide as it gets
    case 11: return column == (target + 1) % cols ? 30 : normal;              // confident, and wrong
    case 12: return column < cols / 2 ? -INFINITY : normal;                   // whole threads and tiles see nothing but -inf
    case 14: return column % 3 == 0 ? NAN : normal;                           // ignored
    case 18: return column == target ? -INFINITY : normal;                    // the target is impossible
    case 19: return column == target ? 1e4 + 21 : 1e4 + normal;
    case 20: return column == target ? 0 : normal - 60;     // p = 1 but for 1e-26
    case 21: return column == target ? normal : -INFINITY;  // nothing but the target
    default: return normal;
  }
}

std::int64_t target_of(const Settings& settings, std::int64_t row, std::uint64_t bits, bool edge_cases) {
  const std::int64_t classes = settings.vocab_size;
  const auto random = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(classes));
  if (!edge_cases || row >= edge_case_rows) return bits % 13 == 5 ? settings.ignore_index : random;
  if (settings.reduced() && settings.kind != Kind::shard && has_no_finite_loss(row)) return settings.ignore_index;
  const bool narrow = settings.target == DType::i32;
  switch (row) {
    case 13:
    case 14: return settings.ignore_index;
    case 15: return classes;
    case 16: return -1 == settings.ignore_index ? -2 : -1;
    case 17: return narrow ? std::numeric_limits<std::int32_t>::min() : std::numeric_limits<std::int64_t>::min() + 7;
    case 19: return classes - 1;
    case 20: return 0;
    default: return random;
  }
}

std::uint64_t bits_at(std::uint64_t seed, std::uint64_t stream, std::int64_t index) {
  return scramble(scramble(seed + stream) + static_cast<std::uint64_t>(index));
}

// ---- One row ------------------------------------------------------------------------------------------------------------

struct Row {
  std::int64_t target = 0;  // as it stands
  bool ignored = false, bad = false;
  std::int64_t column = -1;  // of the target, among those at hand
  double target_weight = 1;

  bool counts() const { return !ignored && !bad; }
};

Row row_of(const Settings& settings, std::span<const HostArray> arrays, std::int64_t row) {
  Row result;
  result.target = read_integer(settings.target, find(arrays, "targets")->data, row);
  result.ignored = result.target == settings.ignore_index;
  result.bad = !result.ignored && (result.target < 0 || result.target >= settings.vocab_size);
  const std::int64_t local = result.counts() ? result.target - settings.vocab_start : -1;
  const std::int64_t at_hand = settings.kind == Kind::combine ? settings.vocab_size : settings.shape.cols;
  if (local >= 0 && local < at_hand) result.column = local;
  const HostArray* const weight = find(arrays, "weight");
  if (weight != nullptr && result.column >= 0) result.target_weight = read_element(DType::f32, weight->data, result.column);
  return result;
}

/// Logits as the loss sees them.
double transformed(const Settings& settings, double logit) {
  logit *= static_cast<double>(static_cast<float>(settings.scale));
  if (settings.softcap != 0 && logit != -INFINITY) logit = settings.softcap * std::tanh(logit / settings.softcap);
  return logit;
}
double slope(const Settings& settings, double logit) {
  if (settings.softcap == 0) return settings.scale;
  if (logit == -INFINITY) return 0;
  const double share = logit / settings.softcap;
  return settings.scale * (1 - share) * (1 + share);
}
/// What float32 makes of a transformed logit: an error this large.
double logit_error(const Settings& settings, double logit) {
  if (!std::isfinite(logit)) return 0;
  double error = 0;
  if (settings.scale != 1) error += 0x1.0p-24 * std::fabs(logit);
  // The quotient's rounding, tanh's two units and the product's rounding.
  if (settings.softcap != 0) error += 0x1.0p-21 * std::fabs(logit);
  return error;
}

/// Relative: the exponential is off by 2^-22 and by what rounding its argument moves, at most 2^-17 where it is smallest and
/// less than 2^-20 where it counts; half a dozen roundings, the sum and the logarithm come on top.
constexpr double relative_error = 0x1.0p-18;

struct RowReference {
  double largest = -INFINITY, log_sum = 0, lse = 0, nll = 0, loss = 0, z_loss = 0;
  double target_logit = -INFINITY, target_rest = 0;                  // p - 1
  double below = 0, weights = 0;                                     // over all classes at hand, relative to `largest`
  double sum_excluding_max = 0;                                      // exponentials under `largest`, the target's left out
  double lse_error = 0, loss_error = 0, nll_error = 0, z_error = 0;  // absolute, allowed
  double terms = 0;                                                  // of the loss, added up without their signs
  double logit_error = 0;
  std::int64_t argmax = -1;
};

/// Losses, from largest, sum_excluding_max, below, weights and the target's logit.
void complete(const Settings& settings, const Row& row, double target_weight, RowReference& out) {
  const double share = out.target_logit == -INFINITY ? 0 : std::exp(out.target_logit - out.largest);
  const bool finite = std::isfinite(out.largest);
  if (out.target_logit == out.largest)
    out.log_sum = std::log1p(out.sum_excluding_max);
  else
    out.log_sum = std::log(out.sum_excluding_max + share);
  if (!finite) out.log_sum = NAN;
  out.lse = finite ? out.largest + out.log_sum : out.largest;
  out.nll = out.largest - out.target_logit + out.log_sum;
  out.target_rest = finite ? -out.sum_excluding_max / (out.sum_excluding_max + share) : NAN;
  const double hard = 1 - settings.label_smoothing;
  const double smooth = settings.label_smoothing / static_cast<double>(settings.vocab_size);
  out.loss = hard * target_weight * out.nll;
  double smoothed = 0;
  if (settings.label_smoothing != 0) smoothed = smooth * (out.below + out.weights * out.log_sum);
  out.loss += smoothed;
  out.z_loss = settings.z_loss * out.lse * out.lse;
  if (settings.z_loss != 0) out.loss += out.z_loss;

  out.lse_error = 0x1.0p-22 * std::fabs(out.largest) + relative_error * std::fabs(out.log_sum) + 2 * out.logit_error;
  out.z_error =
      0x1.0p-126 + relative_error * out.z_loss + settings.z_loss * (2 * std::fabs(out.lse) + out.lse_error) * out.lse_error;
  out.nll_error = relative_error * out.nll + 2 * out.logit_error * std::min(1.0, 2 * out.nll) + 0x1.0p-126;
  out.terms = std::fabs(hard * target_weight) * out.nll + smoothed + out.z_loss;
  out.loss_error = relative_error * out.terms + std::fabs(hard * target_weight) * out.nll_error + out.z_error +
                   2 * smooth * out.weights * out.logit_error;
  if (row.ignored) out.loss = out.z_loss = out.nll = 0;
  if (row.bad) out.loss = out.z_loss = out.nll = NAN;
}

RowReference reference_of(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row) {
  const row::Shape& shape = settings.shape;
  const std::byte* const logits = find(arrays, "logits")->data;
  const HostArray* const weight = find(arrays, "weight");
  RowReference out;
  std::vector<double> values(static_cast<std::size_t>(shape.cols));
  bool has_nan = false;
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    const double value = transformed(settings, read_element(shape.input, logits, index * shape.in[0].stride + c));
    values[static_cast<std::size_t>(c)] = value;
    if (std::isnan(value) && !has_nan) out.argmax = c;
    has_nan = has_nan || std::isnan(value);
    if (!has_nan && (value > out.largest || out.argmax < 0)) out.argmax = c;
    out.largest = std::max(out.largest, value);
    out.logit_error = std::max(out.logit_error, logit_error(settings, value));
  }
  if (has_nan) out.largest = NAN;
  if (row.column >= 0) out.target_logit = values[static_cast<std::size_t>(row.column)];
  long double sum_excluding_max = 0, below = 0, weights = 0;
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    const double value = values[static_cast<std::size_t>(c)];
    if (c != row.column && value != -INFINITY) sum_excluding_max += std::exp(value - out.largest);
    const double w = weight == nullptr ? 1.0 : read_element(DType::f32, weight->data, c);
    if (settings.label_smoothing != 0) below += w * (out.largest - value);
    weights += w;
  }
  out.sum_excluding_max = static_cast<double>(sum_excluding_max);
  out.below = static_cast<double>(below);
  out.weights = static_cast<double>(weights);
  complete(settings, row, row.target_weight, out);
  return out;
}

// ---- Comparing ----------------------------------------------------------------------------------------------------------

/// Beyond the largest number of an output stands infinity.
double in_range(DType dtype, double value) {
  double most = 0x1.ffffffp127;
  if (dtype == DType::f16) most = 65520;
  if (dtype == DType::bf16) most = 0x1.ffp127;
  return std::fabs(value) >= most ? std::copysign(INFINITY, value) : value;
}

double rounding(DType dtype, double value) {
  return dtype == DType::f32 ? 0 : 0.5 * spacing(dtype, value) * (1 + 0x1.0p-10);
}

class Comparison {
 public:
  explicit Comparison(double allowed) : allowed_(allowed) {}

  /// `allowance`: absolute, the error that is allowed next to half a unit in the last place of a 16-bit result.
  void compare(const std::string& what, double found, double reference, double allowance, DType dtype = DType::f32) {
    reference = in_range(dtype, reference);
    double error = 0;
    if (std::isnan(reference) || std::isnan(found))
      error = std::isnan(reference) == std::isnan(found) ? 0 : INFINITY;
    else if (std::isinf(reference) || std::isinf(found))
      error = reference == found ? 0 : INFINITY;
    else if (found != reference)
      error = std::max(0.0, std::fabs(found - reference) - rounding(dtype, reference)) / allowance;
    worst_ = std::max(worst_, error);
    if (error <= 1 || !failure_.empty()) return;
    std::ostringstream text;
    text.precision(9);
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
  double worst_ = 0;
  std::string failure_;
};

std::string at(const char* array, std::int64_t row) { return std::string(array) + "[" + std::to_string(row) + "]"; }
std::string at(const char* array, std::int64_t row, std::int64_t column) {
  return std::string(array) + "[" + std::to_string(row) + "," + std::to_string(column) + "]";
}

double upstream_of(std::span<const HostArray> arrays, const Settings& settings, std::int64_t row) {
  if (settings.upstream == Upstream::none) return 1;
  return read_element(DType::f32, find(arrays, "dloss")->data, settings.upstream == Upstream::row ? row : 0);
}

/// What a mean divides by: the weights of the targets, and for the z term, which has no weight, the number of rows that are
/// not ignored.
struct Divisors {
  double weight = 1, rows = 1;
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
        if (read_element(DType::f32, parts, part + 6) != 0) weight = read_element(DType::f32, parts, part + 5);
      }
    if (!row.counts()) continue;
    total.weight += weight;
    total.rows += 1;
  }
  return total;
}

/// The gradient of a row, given p_c = exp(x_c - lse) as reference_of or the caller's lse has it.
void check_gradient(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row,
                    const RowReference& reference, const Divisors& divisors, Comparison& comparison) {
  const row::Shape& shape = settings.shape;
  const std::byte* const logits = find(arrays, "logits")->data;
  const std::byte* const dlogits = find(arrays, "dlogits")->data;
  const HostArray* const weight = find(arrays, "weight");
  const double hard = (1 - settings.label_smoothing) * row.target_weight;
  const double smooth = settings.label_smoothing / static_cast<double>(settings.vocab_size);
  const double upstream = upstream_of(arrays, settings, index) / divisors.weight;
  const double z_slope = 2 * settings.z_loss * divisors.weight / divisors.rows;
  const double factor = hard + smooth * reference.weights + z_slope * reference.lse;
  const bool finite = std::isfinite(reference.lse);
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    const double found = read_element(shape.output, dlogits, index * shape.out.stride + c);
    if (!row.counts()) {
      comparison.require(found == 0, at("dlogits", index, c) + " is not 0, and its row has no loss");
      continue;
    }
    const double x = transformed(settings, read_element(shape.input, logits, index * shape.in[0].stride + c));
    const double p = x == -INFINITY ? 0 : std::exp(x - reference.largest - reference.log_sum);
    const double w = weight == nullptr ? 1.0 : read_element(DType::f32, weight->data, c);
    double value = p * factor - smooth * w;
    double terms = p * (hard + smooth * reference.weights + std::fabs(z_slope * reference.lse)) + smooth * w;
    if (c == row.column) {
      value = hard * reference.target_rest + smooth * (reference.weights * p - w) + z_slope * reference.lse * p;
      terms = hard * std::fabs(reference.target_rest) + smooth * (reference.weights * p + w) +
              std::fabs(z_slope * reference.lse * p);
    }
    const double slope_here = slope(settings, x);
    value = finite ? value * slope_here * upstream : NAN;
    double allowance = relative_error * terms * slope_here + z_slope * p * reference.lse_error * slope_here;
    allowance += 4 * reference.logit_error * terms * slope_here;
    if (settings.softcap != 0) allowance += 0x1.0p-20 * terms * settings.scale;
    // What is far below the sum is flushed to zero.
    allowance = std::fabs(upstream) * (allowance + 0x1.0p-120 * std::fabs(factor) * settings.scale);
    comparison.compare(at("dlogits", index, c), found, value, allowance, shape.output);
  }
}

/// A row's reference from the parts of shards.
RowReference combined(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, Row& row) {
  const std::byte* const parts = find(arrays, "partials")->data;
  const auto value = [&](std::int64_t shard, int field) {
    return read_element(DType::f32, parts, (shard * settings.shape.rows + index) * 8 + field);
  };
  RowReference out;
  bool has_target = false;
  for (std::int64_t s = 0; s < settings.shards; ++s) {
    out.largest = std::max(out.largest, value(s, 0));
    if (value(s, 6) == 0) continue;
    has_target = true;
    out.target_logit = value(s, 4);
    row.target_weight = value(s, 5);
  }
  for (std::int64_t s = 0; s < settings.shards; ++s) {
    const double lift = out.largest - (value(s, 0) == -INFINITY ? 0 : value(s, 0));
    if (value(s, 0) != -INFINITY) out.sum_excluding_max += value(s, 1) * std::exp(value(s, 0) - out.largest);
    out.below += value(s, 2) + value(s, 3) * lift;
    out.weights += value(s, 3);
    if (value(s, 0) == out.largest) {
      std::int32_t first = 0;
      std::memcpy(&first, parts + ((s * settings.shape.rows + index) * 8 + 7) * 4, 4);
      out.argmax = out.argmax < 0 ? first : std::min<std::int64_t>(out.argmax, first);
    }
  }
  row.bad = row.bad || (row.counts() && !has_target);
  if (row.counts()) {
    out.below += row.target_weight * (out.largest - out.target_logit);
    out.weights += row.target_weight;
  }
  complete(settings, row, row.target_weight, out);
  return out;
}

void check_partials(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row,
                    const RowReference& reference, Comparison& comparison) {
  const std::byte* const parts = find(arrays, "partials")->data;
  const auto found = [&](int field) { return read_element(DType::f32, parts, index * 8 + field); };
  comparison.compare(at("partials.largest", index), found(0), reference.largest,
                     reference.logit_error + 0x1.0p-24 * std::fabs(reference.largest));
  // Sums of rows that are NaN or infinite anyway mean nothing.
  if (!std::isfinite(reference.largest)) return;
  comparison.compare(at("partials.sum_excluding_max", index), found(1), reference.sum_excluding_max,
                     (relative_error + 4 * reference.logit_error) * reference.sum_excluding_max + 0x1.0p-100);
  const bool has_target = row.column >= 0;
  comparison.compare(at("partials.has_target", index), found(6), has_target ? 1 : 0, 0x1.0p-30);
  if (has_target) {
    comparison.compare(at("partials.target_logit", index), found(4), reference.target_logit,
                       reference.logit_error + 0x1.0p-24 * std::fabs(reference.target_logit));
    comparison.compare(at("partials.target_weight", index), found(5), row.target_weight, 0x1.0p-30);
  }
  if (settings.label_smoothing != 0) {
    const double own = has_target ? row.target_weight * (reference.largest - reference.target_logit) : 0;
    const double below = reference.below - own;
    comparison.compare(
        at("partials.below", index), found(2), std::isnan(own) || std::isinf(own) ? found(2) : below,
        relative_error * (std::fabs(reference.below) + own) + 2 * reference.weights * reference.logit_error + 0x1.0p-100);
    comparison.compare(at("partials.weights", index), found(3), reference.weights - (has_target ? row.target_weight : 0),
                       relative_error * reference.weights);
  }
  if (settings.argmax && settings.softcap == 0) {
    std::int32_t index_bits = 0;
    std::memcpy(&index_bits, parts + (index * 8 + 7) * 4, 4);
    comparison.require(index_bits == reference.argmax + settings.vocab_start,
                       at("partials.index", index) + " is " + std::to_string(index_bits) + ", the reference is " +
                           std::to_string(reference.argmax + settings.vocab_start));
  }
}

/// The reference of a gradient from lse.
RowReference from_lse(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Row& row) {
  RowReference out;
  out.lse = out.largest = read_element(DType::f32, find(arrays, "lse")->data, index);
  const HostArray* const weight = find(arrays, "weight");
  if (weight == nullptr)
    out.weights = static_cast<double>(settings.vocab_size);
  else
    for (std::int64_t c = 0; c < settings.shape.cols; ++c) out.weights += read_element(DType::f32, weight->data, c);
  const std::byte* const logits = find(arrays, "logits")->data;
  for (std::int64_t c = 0; c < settings.shape.cols; ++c)
    out.logit_error =
        std::max(out.logit_error,
                 logit_error(settings, transformed(settings, read_element(settings.shape.input, logits,
                                                                          index * settings.shape.in[0].stride + c))));
  if (row.column >= 0) {
    out.target_logit =
        transformed(settings, read_element(settings.shape.input, logits, index * settings.shape.in[0].stride + row.column));
    const HostArray* const nll = find(arrays, "nll");
    out.nll = nll == nullptr ? out.lse - out.target_logit : read_element(DType::f32, nll->data, index);
    out.target_rest = std::expm1(-out.nll);
  }
  return out;
}

/// Everything that one row has.
void check_row(const Settings& settings, std::span<const HostArray> arrays, std::int64_t index, const Divisors& divisors,
               RowReference& reference, Row& row, Comparison& comparison) {
  if (settings.kind == Kind::backward)
    reference = from_lse(settings, arrays, index, row);
  else if (settings.kind == Kind::combine)
    reference = combined(settings, arrays, index, row);
  else
    reference = reference_of(settings, arrays, index, row);
  if (settings.kind == Kind::shard) return check_partials(settings, arrays, index, row, reference, comparison);
  if (settings.writes_loss()) {
    const auto found = [&](const char* array) { return read_element(DType::f32, find(arrays, array)->data, index); };
    comparison.compare(at("lse", index), found("lse"), reference.lse, reference.lse_error);
    if (!settings.reduced()) {
      comparison.compare(at("loss", index), found("loss"), reference.loss, reference.loss_error);
      if (settings.z_loss != 0)
        comparison.compare(at("z_loss", index), found("z_loss"), reference.z_loss, reference.z_error);
    }
    if (settings.nll) comparison.compare(at("nll", index), found("nll"), reference.nll, reference.nll_error);
    // A soft cap makes ties of what it rounds.
    if (settings.argmax && settings.softcap == 0) {
      const std::int64_t argmax = read_integer(settings.target, find(arrays, "argmax")->data, index);
      comparison.require(argmax == reference.argmax, at("argmax", index) + " is " + std::to_string(argmax) +
                                                         ", the reference is " + std::to_string(reference.argmax));
    }
  }
  if (settings.has_gradient()) check_gradient(settings, arrays, index, row, reference, divisors, comparison);
}

}  // namespace

void fill_inputs(const Settings& settings, std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) {
  const row::Shape& shape = settings.shape;
  const bool edge_cases = kind == InputKind::edge_cases;
  const HostArray* const targets = find(arrays, "targets");
  for (std::int64_t r = 0; r < shape.rows; ++r)
    write_integer(settings.target, targets->data, r, target_of(settings, r, bits_at(seed, 1, r), edge_cases));
  if (const HostArray* const weight = find(arrays, "weight"); weight != nullptr)
    for (std::int64_t c = 0; c < weight->info.shape[0]; ++c) {
      const std::uint64_t bits = bits_at(seed, 2, c);
      const bool none = edge_cases && bits % 16 == 3;
      write_element(DType::f32, weight->data, c, none ? 0.0F : static_cast<float>(0.25 + 1.5 * uniform(bits)));
    }
  if (const HostArray* const dloss = find(arrays, "dloss"); dloss != nullptr)
    for (std::int64_t r = 0; r < dloss->info.shape[0]; ++r)
      write_element(DType::f32, dloss->data, r, static_cast<float>(0.5 + bell(bits_at(seed, 3, r))));
  const bool smooths = settings.label_smoothing != 0;
  // With a row stride of 0 there is one row: a random one, because edge cases belong to rows with certain targets.
  const bool broadcast = shape.in[0].stride == 0;
  if (const HostArray* const logits = find(arrays, "logits"); logits != nullptr)
    over_rows(broadcast ? std::min<std::int64_t>(shape.rows, 1) : shape.rows, shape.cols,
              [&](std::int64_t begin, std::int64_t end) {
                for (std::int64_t r = begin; r < end; ++r) {
                  const std::int64_t target =
                      std::max<std::int64_t>(read_integer(settings.target, targets->data, r), -1) - settings.vocab_start;
                  for (std::int64_t c = 0; c < shape.cols; ++c) {
                    const std::uint64_t bits = bits_at(seed, 4, r * shape.cols + c);
                    const double value = edge_cases && !broadcast && r < edge_case_rows
                                             ? edge_case_logit(r, c, shape.cols, target, shape.input, smooths, bits)
                                             : bell(bits) * 2;
                    write_element(shape.input, logits->data, r * shape.in[0].stride + c, static_cast<float>(value));
                  }
                }
              });
  // What the forward operation would have left.
  if (settings.kind == Kind::backward)
    over_rows(shape.rows, shape.cols, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const RowReference reference = reference_of(settings, arrays, r, row_of(settings, arrays, r));
        write_element(DType::f32, find(arrays, "lse")->data, r, static_cast<float>(reference.lse));
        if (const HostArray* const nll = find(arrays, "nll"); nll != nullptr)
          write_element(DType::f32, nll->data, r, static_cast<float>(reference.nll));
      }
    });
  if (settings.kind == Kind::combine) {
    const HostArray& parts = *find(arrays, "partials");
    for (std::int64_t s = 0; s < settings.shards; ++s)
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        const std::int64_t first = (s * shape.rows + r) * 8;
        const auto put = [&](int field, double value) {
          write_element(DType::f32, parts.data, first + field, static_cast<float>(value));
        };
        const std::uint64_t bits = bits_at(seed, 5, s * shape.rows + r);
        const bool empty = edge_cases && bits % 5 == 1 && settings.shards > 1;
        const double offset = edge_cases && r % 4 == 1 ? 1e4 : 0;
        const double largest = empty ? -INFINITY : static_cast<float>(offset + 3 * bell(bits));
        const std::int64_t target = read_integer(settings.target, targets->data, r);
        const bool here = target >= 0 && target < settings.vocab_size && target % settings.shards == s;
        put(0, largest);
        put(1, empty ? 0 : 1 + 40 * uniform(bits));
        put(2, empty ? 0 : 100 * uniform(scramble(bits)));
        put(3, empty ? 0 : 20 + 10 * uniform(scramble(bits + 1)));
        put(4, here ? largest - 4 * uniform(scramble(bits + 2)) : -INFINITY);
        put(5, here ? 0.5 + uniform(scramble(bits + 3)) : 0);
        put(6, here ? 1 : 0);
        const auto index = static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(settings.vocab_size));
        std::memcpy(parts.data + (first + 7) * 4, &index, 4);
      }
  }
}

CheckResult check(const Settings& settings, std::span<const HostArray> arrays, std::int64_t max_rows) {
  const row::Shape& shape = settings.shape;
  CheckResult result;
  result.error_unit = "relative";
  result.allowed_error = relative_error;
  result.total_rows = shape.rows;
  result.checked_rows = std::min(shape.rows, std::max<std::int64_t>(max_rows, 1));
  const Divisors divisors = divisors_of(settings, arrays);

  struct Outcome {
    Comparison comparison{0};
    RowReference reference;
    Row row;
  };
  std::vector<Outcome> outcomes(static_cast<std::size_t>(result.checked_rows));
  over_rows(result.checked_rows, shape.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // Evenly spread, the first and the last row included.
      const std::int64_t index = result.checked_rows > 1 ? (shape.rows - 1) * i / (result.checked_rows - 1) : 0;
      Outcome& outcome = outcomes[static_cast<std::size_t>(i)];
      outcome.comparison = Comparison(result.allowed_error);
      outcome.row = row_of(settings, arrays, index);
      check_row(settings, arrays, index, divisors, outcome.reference, outcome.row, outcome.comparison);
    }
  });
  Comparison all(result.allowed_error);
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
    double loss_error = 0, z_error = 0;
    std::int64_t num_correct = 0;
    for (const Outcome& outcome : outcomes) {
      if (outcome.row.ignored) continue;
      const RowReference& row = outcome.reference;
      const double z_term = settings.z_loss != 0 ? row.z_loss : 0;
      z_loss += z_term / divisors.rows;
      z_error += row.z_error / divisors.rows;
      loss += (row.loss - z_term) / divisors.weight + z_term / divisors.rows;
      loss_error += (row.loss_error - row.z_error) / divisors.weight + row.z_error / divisors.rows;
      if (outcome.row.counts() && outcome.reference.argmax == outcome.row.target) ++num_correct;
    }
    const auto compare = [&](const char* name, long double sum, double error, double divisor) {
      const double reference = divisor == 0 ? NAN : static_cast<double>(sum);
      all.compare(std::string(name) + "[0]", read_element(DType::f32, find(arrays, name)->data, 0), reference,
                  error + 0x1.0p-22 * std::fabs(reference));
    };
    if (settings.writes_loss() && settings.reduced()) {
      compare("loss", loss, loss_error, divisors.weight);
      if (settings.z_loss != 0) compare("z_loss", z_loss, z_error, divisors.rows);
    }
    if (settings.num_correct && settings.softcap == 0)
      all.require(read_integer(DType::i64, find(arrays, "num_correct")->data, 0) == num_correct,
                  "num_correct is " + std::to_string(read_integer(DType::i64, find(arrays, "num_correct")->data, 0)) +
                      ", the reference is " + std::to_string(num_correct));
  }
  result.max_error = all.worst();
  result.first_failure = all.failure();
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith::cross_entropy
