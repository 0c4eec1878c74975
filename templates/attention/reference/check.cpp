// Compares results of attention with the float64 reference.

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <sstream>
#include <tuple>
#include <vector>

#include "core/half.h"
#include "templates/attention/op.h"
#include "templates/attention/reference/reference.h"
#include "templates/attention/reference/user_scores.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace attention;

namespace {

/// Returns the allowed error of an output relative to the sum of its terms' magnitudes, without the rounding of scores: half
/// a unit of 16-bit weights; a few units of float32 for each of the power of two, rescalings and the quotient; and half a
/// unit for each addition of two sums over the keys.
double allowed_relative(const Settings& settings) noexcept {
  double weight = 0;
  const DType dtype = weight_dtype(settings);
  if (dtype == DType::f16) weight = 0x1p-11;
  if (dtype == DType::bf16) weight = 0x1p-8;
  return weight + 0x1p-20 + 2 * static_cast<double>(settings.seq_kv) * 0x1p-24;
}

struct Outcome {
  double max_error = 0, allowed = 0;
  std::string failure;

  /// `place`: returns the name, called for the first wrong element only. The error is relative to `size` and limited by
  /// `limit`. `rounding`: of the element type, not counted as an error.
  template <typename Place>
  void compare(const char* array, const Place& place, double found, double expected, double size, double rounding,
               double limit) {
    double error = 0;
    if (!std::isfinite(expected) || !std::isfinite(found))
      error = (std::isnan(expected) && std::isnan(found)) || expected == found ? 0 : INFINITY;
    else if (const double beyond = std::fabs(found - expected) - rounding; beyond > 0)
      error = size > 0 ? beyond / size : INFINITY;
    max_error = std::max(max_error, error);
    allowed = std::max(allowed, limit);
    if (error <= limit || !failure.empty()) return;
    std::ostringstream text;
    text.precision(9);
    text << array << "[" << place() << "] is " << found << ", the reference is " << expected << " (" << error
         << " relative, allowed " << limit << ")";
    failure = text.str();
  }
};

}  // namespace

CheckResult ParsedAttention::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  if (settings_.modified())
    throw Error(ErrorCode::unsupported,
                "score_mod and mask_mod are CUDA functions, which check() cannot evaluate; check_outputs() evaluates them "
                "on a device");
  return check_outputs(arrays, max_rows, {});
}

CheckResult ParsedAttention::check_outputs(std::span<const HostArray> arrays, std::int64_t max_rows,
                                           const Evaluate& evaluate) const {
  const Settings& settings = settings_;
  const Reference reference(settings, arrays);
  const HostArray &o = *find(arrays, "o"), &lse = *find(arrays, "lse");
  CheckResult result;
  result.error_unit = "relative";
  const std::int64_t max_queries = settings.max_queries();
  result.total_rows = settings.batch * settings.heads * max_queries;
  const std::int64_t row_work = settings.seq_kv * (settings.head_dim + settings.head_dim_v);
  // Rows that take some tenths of a second.
  const std::int64_t affordable = std::max<std::int64_t>(64, 100'000'000 / std::max<std::int64_t>(row_work, 1));
  result.checked_rows = std::min({result.total_rows, std::max<std::int64_t>(max_rows, 1), affordable});

  std::mutex mutex;
  std::exception_ptr failure;
  // Kernels that write no lse may compute small capped scores less accurately.
  const double cap_error =
      settings.softcap != 0 && settings.dtype != DType::f32 && lse.data == nullptr ? small_cap_error : 0;
  const UserScores user_scores(settings, arrays, evaluate);
  const std::int64_t at_once = settings.modified() ? user_scores.rows_at_once() : 1;
  if (settings.modified()) result.note = "score_mod and mask_mod as the device evaluates them alone";
  const auto compare_rows = [&](std::int64_t begin, std::int64_t end, Outcome& outcome) {
    std::vector<Reference::Query> queries;
    for (std::int64_t i = begin; i < end; ++i) {
      // Evenly spread, the first and the last row included.
      const std::int64_t at = result.checked_rows > 1 ? (result.total_rows - 1) * i / (result.checked_rows - 1) : 0;
      Reference::Query query;
      query.batch = at / max_queries / settings.heads;
      query.head = at / max_queries % settings.heads;
      query.query = at % max_queries;
      query.bounds = reference.sequence(query.batch);
      if (query.query >= query.bounds.queries) continue;
      reference.compute_scores(query);
      queries.push_back(std::move(query));
    }
    if (settings.modified()) {
      const std::lock_guard lock(mutex);
      user_scores.apply(queries);
    }
    Reference::Row row;
    for (Reference::Query& at : queries) {
      if (at.undecided) continue;
      reference.compute(at, row);
      const auto& [batch, head, query] = std::tie(at.batch, at.head, at.query);
      const std::int64_t position = at.bounds.q_start + query;
      const auto place = [&at] {
        return "batch " + std::to_string(at.batch) + ", head " + std::to_string(at.head) + ", query " +
               std::to_string(at.query);
      };
      // A weight has the error of its exponent twice, because the sum has it, too.
      const double allowed = allowed_relative(settings) + std::expm1(2 * (row.largest_score_error + cap_error));
      const std::int64_t start = settings.element(Side::o, batch, position, head);
      for (std::int64_t c = 0; c < settings.head_dim_v; ++c) {
        const auto column = static_cast<std::size_t>(c);
        const double expected = row.output[column];
        // Of the result, which may be in the next binade.
        const double largest = std::fabs(expected) + row.size[column] * allowed + row.lost[column];
        const double rounding = std::isfinite(largest) ? spacing(settings.dtype, largest) / 2 + row.lost[column] : 0;
        double found = read_element(settings.dtype, o.data, start + c);
        // A mean of the largest numbers may be rounded to infinity.
        if (std::isinf(found) && largest > largest_number(settings.dtype) && (found > 0) == (expected > 0)) found = expected;
        outcome.compare(
            "o", [&] { return place() + ", " + std::to_string(c); }, found, expected, row.size[column], rounding, allowed);
      }
      // Weights in float32 may be 0 or infinite, the largest one too, where the rounding of the largest score, beyond 2^30,
      // exceeds the range of their exponents: nothing is known of o and lse then.
      if (lse.data == nullptr || row.largest_score_error > 80) continue;
      const std::int64_t lse_at =
          settings.varlen ? head * settings.total_q + position : (batch * settings.heads + head) * settings.seq_q + query;
      // The bound of attention.h, and the rounding of the scores.
      const double size = std::max(1.0, std::fabs(row.lse));
      const double lse_error = std::isfinite(row.lse) ? 1e-5 * std::fabs(row.lse) + 1e-6 + row.largest_score_error : 0;
      outcome.compare("lse", place, read_element(DType::f32, lse.data, lse_at), row.lse, size, 0, lse_error / size);
    }
  };
  const auto check_rows = [&](std::int64_t begin, std::int64_t end) {
    Outcome outcome;
    std::exception_ptr thrown;
    try {
      for (std::int64_t i = begin; i < end; i += at_once) compare_rows(i, std::min(end, i + at_once), outcome);
    } catch (...) {  // a launch failed; the caller's thread reports it
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    if (thrown != nullptr) failure = thrown;
    result.max_error = std::max(result.max_error, outcome.max_error);
    result.allowed_error = std::max(result.allowed_error, outcome.allowed);
    if (result.first_failure.empty()) result.first_failure = outcome.failure;
  };
  over_rows(result.checked_rows, row_work, check_rows);
  if (failure != nullptr) std::rethrow_exception(failure);
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
