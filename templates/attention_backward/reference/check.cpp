// Compares gradients with the float64 reference.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <sstream>

#include "core/half.h"
#include "templates/attention_backward/op.h"
#include "templates/attention_backward/reference/reference.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention_backward;

namespace {

/// Multiplications that take some tenths of a second.
constexpr double affordable = 3e8;

/// The values of a gradient's array before the run. Throws Error(invalid_argument) if the caller did not keep them.
const std::byte* values_before(const HostArray& array) {
  if (array.before == nullptr)
    throw Error(ErrorCode::invalid_argument, array.info.name,
                " has no values from before the run; accumulate=1 adds to them");
  return array.before;
}

double sum_rounding(std::int64_t terms) { return 2 * static_cast<double>(terms + 2) * 0x1p-24; }

struct Outcome {
  double max_error = 0, allowed = 0;
  std::int64_t rows = 0;
  std::string failure;

  /// Compares element `at` of an array. The error is relative to `size`. `bound`: of the error before the result is rounded
  /// to the array's dtype. `place`: returns its name, called for the first wrong one only.
  template <typename Place>
  void compare(const Place& place, const HostArray& array, std::int64_t at, bool accumulated, double gradient, double size,
               double bound) {
    const DType dtype = array.info.dtype;
    double expected = gradient;
    if (accumulated) {
      const double before = read_element(dtype, values_before(array), at);
      expected += before;
      size += std::fabs(before);
      // The addition in float32, and before it the gradient in 16 bits.
      bound += std::fabs(expected) * 0x1p-23 + (dtype == DType::f32 ? 0 : spacing(dtype, std::fabs(gradient) + bound) / 2);
    }
    compare(place, dtype, read_element(dtype, array.data, at), expected, size, bound);
  }

 private:
  /// The error is relative to `size`. `bound`: of the error before the result is rounded to `dtype`.
  template <typename Place>
  void compare(const Place& place, DType dtype, double found, double expected, double size, double bound) {
    double error = 0;
    // The number that is rounded may be one of the next binade, where units are twice as large.
    const double largest = std::fabs(expected) + bound, half_unit = std::isfinite(largest) ? spacing(dtype, largest) / 2 : 0;
    if (std::isnan(expected) || std::isnan(found))
      error = std::isnan(expected) && std::isnan(found) ? 0 : INFINITY;
    else if (found == expected)
      error = 0;
    else if (std::isinf(found))
      error = largest > largest_number(dtype) && (found > 0) == (expected > 0) ? 0 : INFINITY;
    else if (const double beyond = std::fabs(found - expected) - half_unit; beyond > 0)
      error = size > 0 ? beyond / size : INFINITY;
    const double limit = size > 0 ? bound / size : 0;
    max_error = std::max(max_error, error);
    allowed = std::max(allowed, limit);
    if (error == 0 || error <= limit || !failure.empty()) return;  // the limit of infinite numbers may be NaN
    std::ostringstream text;
    text.precision(9);
    text << place() << " is " << found << ", the reference is " << expected << " (" << error << " relative, allowed "
         << limit << ")";
    failure = text.str();
  }
};

void add(Bounded& sum, const Bounded& term) {
  sum.value += term.value;
  sum.size += term.size;
  sum.error += term.error;
}

/// A gradient of an element of a user array, and the number of its terms.
struct AuxSum {
  Bounded sum;
  std::int64_t terms = 0;

  /// Adds the gradient of a score times the derivative of the score.
  void include(const Bounded& score_gradient, const attention::Rounded& derivative) {
    Bounded term = score_gradient.times(derivative.value);
    term.error += (std::fabs(score_gradient.value) + score_gradient.error) * derivative.error;
    add(sum, term);
    ++terms;
  }
};
/// Gradients of all elements. Incomplete, and then sums of slopes, too: rounding decides what is masked for some query.
struct AuxSums {
  std::vector<AuxSum> elements;
  std::atomic<bool> complete{true};
};

std::string place_of(const char* array, std::int64_t batch, std::int64_t head, std::int64_t position) {
  return std::string(array) + "[batch " + std::to_string(batch) + ", head " + std::to_string(head) + ", position " +
         std::to_string(position) + "]";
}

/// The checked part of a problem: pairs of a batch entry and a key head, and queries and keys per head.
struct Sample {
  std::int64_t pairs = 0, queries = 0, keys = 0;
  bool all = false;

  Sample(const attention::Settings& settings, std::int64_t max_rows) {
    const std::int64_t all_pairs = settings.batch * settings.kv_heads;
    const auto width = static_cast<double>(settings.head_dim + settings.head_dim_v);
    const auto group = static_cast<double>(settings.group());
    const double query_work = static_cast<double>(settings.seq_kv) * 3 * width * group,
                 key_work = static_cast<double>(settings.seq_q) * 3 * width * group;
    const double whole = static_cast<double>(all_pairs) * (static_cast<double>(settings.seq_q) * query_work +
                                                           static_cast<double>(settings.seq_kv) * key_work);
    const std::int64_t rows = all_pairs * (settings.group() * settings.seq_q + settings.seq_kv);
    all = whole <= affordable && rows <= max_rows;
    pairs = all ? all_pairs : std::min<std::int64_t>(all_pairs, 8);
    const double share = affordable / std::max<double>(static_cast<double>(pairs) * (query_work + key_work), 1);
    const std::int64_t lines = std::max<std::int64_t>(
        2, std::min(static_cast<std::int64_t>(share), max_rows / std::max<std::int64_t>(2 * pairs, 1)));
    queries = all ? settings.seq_q : std::min(lines, settings.seq_q);
    keys = all ? settings.seq_kv : std::min(lines, settings.seq_kv);
  }
};

/// Number i of `count` numbers that are evenly spread over [0, all), the first and the last included.
std::int64_t spread(std::int64_t i, std::int64_t count, std::int64_t all) {
  return count > 1 ? (all - 1) * i / (count - 1) : 0;
}

class Checker {
 public:
  Checker(const Settings& settings, std::span<const HostArray> arrays, const Sample& sample, const Evaluate& evaluate)
      : settings_(settings), arrays_(arrays), sample_(sample), reference_(settings, arrays, evaluate) {}

  /// Checks the rows of one batch entry and key head, and adds to the gradients of its heads' numbers.
  void check(std::int64_t batch, std::int64_t kv_head, std::span<Bounded> sinks, std::span<Bounded> slopes, AuxSums& aux,
             Outcome& outcome) const {
    const attention::Settings& forward = settings_.forward;
    const KeyHead keys = reference_.keys(batch, kv_head);
    const std::int64_t lines = std::min(sample_.keys, keys.bounds.keys);
    std::vector<GradientRow> dk(static_cast<std::size_t>(lines), GradientRow(forward.head_dim)),
        dv(static_cast<std::size_t>(lines), GradientRow(forward.head_dim_v));
    std::vector<bool> undecided(static_cast<std::size_t>(lines), false);
    for (std::int64_t head = kv_head * forward.group(); head < (kv_head + 1) * forward.group(); ++head) {
      const QueryHead queries = reference_.queries(keys, head);
      if (settings_.dsinks) reference_.add_sink_gradient(queries, sinks[static_cast<std::size_t>(head)]);
      check_queries(keys, queries, slopes, aux, outcome);
      over_lines(lines, keys.bounds.keys, keys.bounds.queries,
                 [&](std::int64_t begin, std::span<const std::int64_t> numbers) {
                   auto at = static_cast<std::size_t>(begin);
                   for (const Reference::Line& line : reference_.of_keys(keys, queries, numbers)) {
                     undecided[at] = undecided[at] || is_near_infinite(queries, line);
                     for (std::size_t j = 0; j < line.pairs.size(); ++j) {
                       const PairTerms& pair = line.pairs[j];
                       const std::int64_t query = line.first + static_cast<std::int64_t>(j);
                       undecided[at] = undecided[at] || pair.undecided;
                       dk[at].add(pair.gradient.times(forward.scale), queries.q.row(query));
                       dv[at].add(pair.probability, queries.dout.row(query));
                     }
                     ++at;
                   }
                 });
    }
    for (std::int64_t i = 0; i < lines; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (undecided[at]) continue;
      const std::int64_t position = keys.bounds.kv_start + spread(i, lines, keys.bounds.keys);
      compare_row("dk", Side::k, settings_.dk, dk[at], batch, kv_head, position, outcome);
      compare_row("dv", Side::v, settings_.dv, dv[at], batch, kv_head, position, outcome);
      ++outcome.rows;
    }
  }

 private:
  /// Whether a tile of pairs that has the key of the line may have a query whose lse or delta is not finite: such a number
  /// reaches the keys that are masked for its query, too.
  static bool is_near_infinite(const QueryHead& queries, const Reference::Line& line) {
    constexpr std::int64_t max_tiles = 256 + 128;  // keys and queries
    const auto end = std::min(std::ssize(queries.lse), line.first + std::ssize(line.pairs) + max_tiles);
    for (std::int64_t query = std::max<std::int64_t>(0, line.first - max_tiles); query < end; ++query) {
      const auto at = static_cast<std::size_t>(query);
      if (queries.lse[at] != -INFINITY && !std::isfinite(queries.lse[at] + queries.delta[at].value)) return true;
    }
    return false;
  }

  void check_queries(const KeyHead& keys, const QueryHead& queries, std::span<Bounded> slopes, AuxSums& aux,
                     Outcome& outcome) const {
    const std::int64_t lines = std::min(sample_.queries, keys.bounds.queries);
    over_lines(lines, keys.bounds.queries, keys.bounds.keys, [&](std::int64_t, std::span<const std::int64_t> numbers) {
      const std::vector<Reference::Line> found = reference_.of_queries(keys, queries, numbers);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        check_query(keys, queries, numbers[i], found[i], slopes, aux, outcome);
    });
  }

  void check_query(const KeyHead& keys, const QueryHead& queries, std::int64_t query, const Reference::Line& line,
                   std::span<Bounded> slopes, AuxSums& aux, Outcome& outcome) const {
    if (std::ranges::any_of(line.pairs, &PairTerms::undecided)) {
      aux.complete = false;
      return;
    }
    const attention::Settings& forward = settings_.forward;
    GradientRow dq(forward.head_dim);
    for (std::size_t j = 0; j < line.pairs.size(); ++j) {
      const PairTerms& pair = line.pairs[j];
      dq.add(pair.gradient.times(forward.scale), keys.k.row(line.first + static_cast<std::int64_t>(j)));
      if (settings_.dslopes) add(slopes[static_cast<std::size_t>(queries.head)], pair.score_gradient.times(-pair.distance));
      if (pair.score_gradient.error == 0) continue;  // masked, and its derivative may be infinite
      for (const AuxDerivative& by : pair.aux)
        aux.elements[static_cast<std::size_t>(by.element)].include(pair.score_gradient, by.derivative);
    }
    compare_row("dq", Side::q, settings_.dq, dq, keys.batch, queries.head, keys.bounds.q_start + query, outcome);
    ++outcome.rows;
  }

  /// Calls work(begin, numbers) for evenly spread queries or keys, `lines` of `all`, some at a time. `begin`: index of the
  /// first line; `numbers`: the lines of this call. Each has up to `pairs` pairs.
  template <typename Work>
  void over_lines(std::int64_t lines, std::int64_t all, std::int64_t pairs, const Work& work) const {
    const std::int64_t at_once = reference_.lines_at_once(pairs);
    for (std::int64_t begin = 0; begin < lines; begin += at_once) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = begin; i < std::min(lines, begin + at_once); ++i) numbers.push_back(spread(i, lines, all));
      work(begin, numbers);
    }
  }

  void compare_row(const char* name, Side side, const Tensor& tensor, const GradientRow& row, std::int64_t batch,
                   std::int64_t head, std::int64_t position, Outcome& outcome) const {
    const attention::Settings& forward = settings_.forward;
    const HostArray& array = *attention::find(arrays_, name);
    const std::int64_t at = attention::Settings::element(tensor, batch, position, head), width = forward.width(side);
    for (std::int64_t c = 0; c < width; ++c) {
      const auto column = static_cast<std::size_t>(c);
      outcome.compare([&] { return place_of(name, batch, head, position) + " column " + std::to_string(c); }, array, at + c,
                      settings_.accumulate, row.sums[column], row.sizes[column],
                      row.bounds[column] + row.sizes[column] * (sum_rounding(row.terms) + 0x1p-22) + min_normal);
    }
  }

  const Settings& settings_;
  const std::span<const HostArray> arrays_;
  const Sample& sample_;
  const Reference reference_;
};

}  // namespace

CheckResult ParsedAttentionBackward::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  if (settings_.forward.modified())
    throw Error(ErrorCode::unsupported,
                "score_mod and mask_mod are CUDA functions, which check() cannot evaluate; check_outputs() evaluates them "
                "on a device");
  return check_outputs(arrays, max_rows, {});
}

CheckResult ParsedAttentionBackward::check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                                                   const Evaluate& evaluate) const {
  const attention::Settings& forward = settings_.forward;
  const Sample sample(forward, max_rows);
  const Checker checker(settings_, arrays, sample, evaluate);
  CheckResult result;
  result.error_unit = "relative";
  result.total_rows = forward.batch * (forward.heads * forward.seq_q + forward.kv_heads * forward.seq_kv);
  if (forward.modified()) result.note = "score_mod and mask_mod as the device evaluates them alone";

  std::mutex mutex;
  std::exception_ptr failure;
  Outcome total;
  const auto heads = static_cast<std::size_t>(forward.heads);
  std::vector<Bounded> sinks(heads), slopes(heads);
  const AuxElements elements(settings_);
  AuxSums aux{std::vector<AuxSum>(static_cast<std::size_t>(elements.all))};  // of one thread
  const auto merge = [](std::vector<Bounded>& all, const std::vector<Bounded>& part) {
    for (std::size_t h = 0; h < all.size(); ++h) add(all[h], part[h]);
  };
  const auto check_pairs = [&](std::int64_t begin, std::int64_t end) {
    Outcome outcome;
    std::vector<Bounded> own_sinks(heads), own_slopes(heads);
    std::exception_ptr thrown;
    try {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t pair = spread(i, sample.pairs, forward.batch * forward.kv_heads);
        checker.check(pair / forward.kv_heads, pair % forward.kv_heads, own_sinks, own_slopes, aux, outcome);
      }
    } catch (...) {  // a launch failed; the caller's thread reports it
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    if (thrown != nullptr) failure = thrown;
    merge(sinks, own_sinks);
    merge(slopes, own_slopes);
    total.max_error = std::max(total.max_error, outcome.max_error);
    total.allowed = std::max(total.allowed, outcome.allowed);
    total.rows += outcome.rows;
    if (total.failure.empty()) total.failure = outcome.failure;
  };
  // User functions are evaluated by launches, which must not overlap.
  if (forward.modified())
    check_pairs(0, sample.pairs);
  else
    over_rows(sample.pairs, 1 << 16, check_pairs);
  if (failure != nullptr) std::rethrow_exception(failure);

  const auto compare_heads = [&](const char* name, const std::vector<Bounded>& sums, double rounding) {
    for (std::size_t h = 0; h < heads; ++h)
      total.compare([&] { return std::string(name) + "[" + std::to_string(h) + "]"; }, *attention::find(arrays, name),
                    static_cast<std::int64_t>(h), settings_.accumulate, sums[h].value, sums[h].size,
                    sums[h].error + sums[h].size * rounding + min_normal);
  };
  if (sample.all && settings_.dsinks) compare_heads("dsinks", sinks, 0x1p-20);
  // Each thread sums a bounded number of terms before threads and blocks add up their sums.
  if (sample.all && settings_.dslopes && aux.complete)
    compare_heads("dslopes", slopes, sum_rounding(4 * forward.seq_kv + 64));

  if (sample.all && aux.complete)
    for (std::size_t slot = 0; slot < forward.aux.size(); ++slot) {
      const std::string* const name = settings_.daux.array_of(forward.aux[slot].name);
      for (std::int64_t i = 0; i < elements.lengths[slot]; ++i) {
        const AuxSum& of = aux.elements[static_cast<std::size_t>(elements.first[slot] + i)];
        // Terms in float32, and their sum there or in integers of at least as many bits.
        total.compare([&] { return *name + "[" + std::to_string(i) + "]"; }, *attention::find(arrays, *name), i,
                      settings_.accumulate, of.sum.value, of.sum.size,
                      of.sum.error + of.sum.size * (sum_rounding(of.terms) + 0x1p-22));
      }
    }

  result.checked_rows = std::min(total.rows, result.total_rows);
  result.max_error = total.max_error;
  result.allowed_error = total.allowed;
  result.first_failure = total.failure;
  result.passed = total.failure.empty();
  return result;
}

}  // namespace tunesmith
