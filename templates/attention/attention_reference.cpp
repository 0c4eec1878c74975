// Inputs that try attention, and the reference in double that judges it.

#include <algorithm>
#include <cmath>
#include <mutex>
#include <sstream>
#include <vector>

#include "templates/attention/attention_op.h"
#include "templates/attention/attention_problem.h"
#include "templates/half.h"
#include "templates/sampling.h"

namespace tunesmith {

using namespace attention;

namespace {

const HostArray* find(std::span<const HostArray> arrays, std::string_view name) {
  for (const HostArray& array : arrays)
    if (array.info.name == name) return &array;
  return nullptr;
}

/// Lengths that add up to `total`, none above `longest`; awkward ones hold empty sequences and full ones.
void fill_starts(const HostArray& array, std::int64_t total, std::int64_t longest, std::uint64_t seed, bool awkward) {
  const std::int64_t batch = array.info.shape[0] - 1;
  std::int64_t start = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    write_integer(DType::i32, array.data, b, start);
    const std::int64_t left = total - start, after = batch - b - 1;
    const std::int64_t least = std::max<std::int64_t>(0, left - after * longest), most = std::min(left, longest);
    const double share = uniform(scramble(seed + static_cast<std::uint64_t>(b)));
    std::int64_t length =
        std::min(most, static_cast<std::int64_t>(2 * share * static_cast<double>(left) / static_cast<double>(after + 1)));
    if (awkward && b % 5 == 1) length = 0;
    if (awkward && b % 5 == 3) length = most;
    start += std::clamp(length, least, most);
  }
  write_integer(DType::i32, array.data, batch, total);
}

/// Visits every (batch, position, head) of a tensor with the offset of its first element.
template <typename Visit>
void over_positions(const Settings& settings, Side side, const Visit& visit) {
  const Tensor& tensor = settings.tensor(side);
  const std::int64_t batch = settings.varlen ? 1 : settings.batch;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t s = 0; s < settings.positions(side); ++s)
      for (std::int64_t h = 0; h < settings.heads_of(side); ++h)
        visit(b, s, h, b * tensor.batch_stride + s * tensor.seq_stride + h * tensor.head_stride);
}

/// Where something is out of the ordinary. Values stay finite: a tile's NaN reaches queries that do not see its key.
double awkward_value(Side side, std::int64_t position, std::int64_t head, std::int64_t column, double normal) {
  if (side == Side::q) {
    if (position % 37 == 5) return 0;                                 // all scores alike
    if (position % 37 == 11) return normal * 30;                      // one key takes all
    if (position % 61 == 23) return column == 0 ? NAN : normal;       // NaN by definition
    if (position % 61 == 29) return column == 1 ? INFINITY : normal;  // likewise, or where it meets a zero
    if (head % 2 == 1 && position % 37 == 17) return normal * 1e-4;
  }
  if (side == Side::k) {
    if (position % 53 == 7) return 0;
    if (position % 53 == 31) return normal * 20;
  }
  if (side == Side::v) {
    if (position % 41 == 3) return normal * 1e3;
    if (column % 8 == 6) return normal + 100;  // an offset that the weights must add up to
  }
  return normal;
}

/// One problem's arrays, read as doubles.
class Reference {
 public:
  Reference(const Settings& settings, std::span<const HostArray> arrays) : settings_(settings), arrays_(arrays) {}

  struct Bounds {
    std::int64_t q_start = 0, queries = 0, kv_start = 0, keys = 0;
  };
  Bounds sequence(std::int64_t batch) const {
    if (!settings_.varlen) return {0, settings_.seq_q, 0, settings_.seq_kv};
    const auto start = [&](const char* name, std::int64_t b) {
      return read_integer(DType::i32, find(arrays_, name)->data, b);
    };
    const std::int64_t q = start("cu_seqlens_q", batch), kv = start("cu_seqlens_kv", batch);
    return {q, start("cu_seqlens_q", batch + 1) - q, kv, start("cu_seqlens_kv", batch + 1) - kv};
  }

  struct Row {
    std::vector<double> output;  ///< (head_dim_v)
    std::vector<double> size;    ///< sum of |weight * value| for each: what relative errors are relative to
    std::vector<double> lost;    ///< what rounding of weights that are denormal in f16 may take away
    double lse = 0;
    double largest_score_error = 0;  ///< bound of the rounding of any score that takes part
  };

  void compute(std::int64_t batch, std::int64_t head, std::int64_t query, const Bounds& bounds, Row& row) const {
    const std::int64_t kv_head = head / settings_.group();
    const auto width = static_cast<std::size_t>(settings_.head_dim_v);
    row.output.assign(width, 0);
    row.size.assign(width, 0);
    row.lost.assign(width, 0);
    row.largest_score_error = 0;
    std::vector<double> q(static_cast<std::size_t>(settings_.head_dim));
    read_row(Side::q, batch, bounds.q_start + query, head, q);

    const std::int64_t offset = settings_.offset(bounds.queries, bounds.keys);
    const std::int64_t begin =
        settings_.bounded_left() ? std::max<std::int64_t>(0, query + offset - settings_.window_left) : 0;
    const std::int64_t end =
        settings_.bounded_right() ? std::min(bounds.keys, query + offset + settings_.right() + 1) : bounds.keys;
    std::vector<double> scores, k(q.size()), v(width);
    double largest = -INFINITY;
    bool broken = false;
    for (std::int64_t key = begin; key < end; ++key) {
      read_row(Side::k, batch, bounds.kv_start + key, kv_head, k);
      double dot = 0, size = 0;
      for (std::size_t d = 0; d < q.size(); ++d) {
        dot += q[d] * k[d];
        size += std::fabs(q[d] * k[d]);
      }
      double score = settings_.scale * dot,
             error = settings_.scale * size * static_cast<double>(settings_.head_dim + 2) * 0x1p-24;
      if (settings_.softcap != 0) {
        score = settings_.softcap * std::tanh(score / settings_.softcap);
        error += settings_.softcap * 0x1p-21;
      }
      if (settings_.alibi) {
        const double slope = read_element(DType::f32, find(arrays_, "alibi_slopes")->data, head);
        const double bias = slope * static_cast<double>(std::llabs(query + offset - key));
        score -= bias;
        error += std::fabs(bias) * 0x1p-22;
      }
      // The exponent: as a power of two, less the largest.
      error += std::fabs(score) * 0x1p-22;
      broken = broken || std::isnan(score) || score == INFINITY;
      if (std::isfinite(score)) row.largest_score_error = std::max(row.largest_score_error, error);
      largest = std::max(largest, score);
      scores.push_back(score);
    }
    double sum = 0, top = largest;
    const HostArray* const sinks = find(arrays_, "sinks");
    if (sinks != nullptr) {
      const double sink = read_element(DType::f32, sinks->data, head);
      top = std::max(top, sink);
      sum = std::exp(sink - top);
    }
    if (broken) {
      std::ranges::fill(row.output, NAN);
      row.lse = NAN;
      return;
    }
    if (top == -INFINITY) {
      row.lse = -INFINITY;
      return;
    }
    for (const double score : scores) sum += std::exp(score - top);
    // f16 weights are rounded after a factor of 2^7 (weight_exponent in attention_quads.cuh).
    const double lost = settings_.dtype == DType::f16 ? 0x1p-32 * std::exp(largest - top) / sum : 0;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const double weight = std::exp(scores[j] - top) / sum;
      read_row(Side::v, batch, bounds.kv_start + begin + static_cast<std::int64_t>(j), kv_head, v);
      for (std::size_t c = 0; c < width; ++c) {
        row.output[c] += weight * v[c];
        row.size[c] += std::fabs(weight * v[c]);
        row.lost[c] += lost * std::fabs(v[c]);
      }
    }
    row.lse = top + std::log(sum);
  }

 private:
  void read_row(Side side, std::int64_t batch, std::int64_t position, std::int64_t head, std::vector<double>& out) const {
    const std::int64_t at = settings_.element(side, batch, position, head);
    const std::byte* const data = arrays_[static_cast<std::size_t>(side)].data;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = read_element(settings_.dtype, data, at + static_cast<std::int64_t>(i));
  }

  const Settings& settings_;
  const std::span<const HostArray> arrays_;
};

/// The error that is allowed of an output, relative to the sum of its terms' sizes, beside what the scores' rounding moves:
/// half a unit of 16-bit weights, which are rounded before they weigh values; the power of two, rescalings and the quotient,
/// each a few units of float32; and two sums of as many terms as there are keys, each addition off by half a unit at worst.
double allowed_relative(const Settings& settings) noexcept {
  double weight = 0;
  if (settings.dtype == DType::f16) weight = 0x1p-11;
  if (settings.dtype == DType::bf16) weight = 0x1p-8;
  return weight + 0x1p-20 + 2 * static_cast<double>(settings.seq_kv) * 0x1p-24;
}

struct Outcome {
  double max_error = 0, allowed = 0;
  std::string failure;

  /// `size`: what the error is relative to; `rounding`: of what has the element type, which is no error; `limit`: of the
  /// error.
  void compare(const char* array, const std::string& place, double found, double expected, double size, double rounding,
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
    text << array << "[" << place << "] is " << found << ", the reference is " << expected << " (" << error
         << " relative, allowed " << limit << ")";
    failure = text.str();
  }
};

}  // namespace

void AttentionOp::fill_inputs(const Problem& problem, std::uint64_t seed, InputKind kind,
                              std::span<const HostArray> arrays) const {
  const Settings settings = Settings::of(problem);
  const bool awkward = kind == InputKind::awkward;
  for (const Side side : {Side::q, Side::k, Side::v}) {
    const HostArray& array = arrays[static_cast<std::size_t>(side)];
    const std::uint64_t stream = scramble(seed + static_cast<std::uint64_t>(side));
    const std::int64_t width = settings.width(side);
    std::uint64_t number = 0;
    over_positions(settings, side, [&](std::int64_t, std::int64_t position, std::int64_t head, std::int64_t at) {
      for (std::int64_t c = 0; c < width; ++c) {
        const double normal = bell(scramble(stream + number++));
        const double value = awkward ? awkward_value(side, position, head, c, normal) : normal;
        write_element(settings.dtype, array.data, at + c, static_cast<float>(value));
      }
    });
  }
  for (const HostArray& array : arrays) {
    if (array.info.name == "alibi_slopes")
      for (std::int64_t h = 0; h < settings.heads; ++h)
        write_element(
            DType::f32, array.data, h,
            static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(settings.heads))));
    if (array.info.name == "sinks")
      for (std::int64_t h = 0; h < settings.heads; ++h)
        write_element(DType::f32, array.data, h, awkward && h % 3 == 2 ? 40.0f : static_cast<float>(h % 4 - 1));
    if (array.info.name == "cu_seqlens_q") fill_starts(array, settings.total_q, settings.seq_q, seed + 11, awkward);
    if (array.info.name == "cu_seqlens_kv") fill_starts(array, settings.total_kv, settings.seq_kv, seed + 12, awkward);
  }
}

CheckResult AttentionOp::check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const Settings settings = Settings::of(problem);
  const Reference reference(settings, arrays);
  const HostArray &o = *find(arrays, "o"), &lse = *find(arrays, "lse");
  CheckResult result;
  result.error_unit = "relative";
  result.total_rows = settings.batch * settings.heads * settings.seq_q;
  // As many as take some tenths of a second.
  const std::int64_t affordable =
      std::max<std::int64_t>(64, 100'000'000 / (settings.seq_kv * (settings.head_dim + settings.head_dim_v)));
  result.checked_rows = std::min({result.total_rows, std::max<std::int64_t>(max_rows, 1), affordable});

  std::mutex mutex;
  const auto judge = [&](std::int64_t begin, std::int64_t end) {
    Reference::Row row;
    Outcome outcome;
    for (std::int64_t i = begin; i < end; ++i) {
      // Evenly spread, the first and the last row included.
      const std::int64_t at = result.checked_rows > 1 ? (result.total_rows - 1) * i / (result.checked_rows - 1) : 0;
      const std::int64_t query = at % settings.seq_q, head = at / settings.seq_q % settings.heads,
                         batch = at / settings.seq_q / settings.heads;
      const Reference::Bounds bounds = reference.sequence(batch);
      if (query >= bounds.queries) continue;
      reference.compute(batch, head, query, bounds, row);
      const std::int64_t position = bounds.q_start + query;
      const std::string place =
          "batch " + std::to_string(batch) + ", head " + std::to_string(head) + ", query " + std::to_string(query);
      // A weight's error is its exponent's, twice: the sum has it too.
      const double allowed = allowed_relative(settings) + std::expm1(2 * row.largest_score_error);
      const std::int64_t start = settings.element(Side::o, batch, position, head);
      for (std::int64_t c = 0; c < settings.head_dim_v; ++c) {
        const auto column = static_cast<std::size_t>(c);
        const double expected = row.output[column];
        const double rounding = std::isfinite(expected) ? spacing(settings.dtype, expected) / 2 + row.lost[column] : 0;
        outcome.compare("o", place + ", " + std::to_string(c), read_element(settings.dtype, o.data, start + c), expected,
                        row.size[column], rounding, allowed);
      }
      if (lse.data == nullptr) continue;
      const std::int64_t lse_at =
          settings.varlen ? head * settings.total_q + position : (batch * settings.heads + head) * settings.seq_q + query;
      outcome.compare("lse", place, read_element(DType::f32, lse.data, lse_at), row.lse, std::max(1.0, std::fabs(row.lse)),
                      0, allowed);
    }
    const std::lock_guard lock(mutex);
    result.max_error = std::max(result.max_error, outcome.max_error);
    result.allowed_error = std::max(result.allowed_error, outcome.allowed);
    if (result.first_failure.empty()) result.first_failure = outcome.failure;
  };
  over_rows(result.checked_rows, settings.seq_kv * (settings.head_dim + settings.head_dim_v), judge);
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
