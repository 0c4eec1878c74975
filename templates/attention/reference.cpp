// Inputs that try attention, and the reference in double that judges it.

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <sstream>
#include <tuple>
#include <vector>

#include "templates/attention/mask_tiles.h"
#include "templates/attention/modification.h"
#include "templates/attention/op.h"
#include "templates/attention/problem.h"
#include "templates/half.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

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

/// What a user's text may sensibly read: bytes are flags; other integers do not fall and are below `bound`, so that they can
/// be documents, lengths, and places in the shortest of the arrays; the rest is scattered around 0.
void fill_aux(const HostArray& array, std::uint64_t seed, std::int64_t bound) {
  const std::int64_t length = array.info.shape[0];
  for (std::int64_t i = 0; i < length; ++i) {
    const std::uint64_t bits = scramble(seed + static_cast<std::uint64_t>(i));
    if (is_float(array.info.dtype))
      write_element(array.info.dtype, array.data, i, static_cast<float>(bell(bits)));
    else
      write_integer(array.info.dtype, array.data, i,
                    array.info.dtype == DType::u8 ? static_cast<std::int64_t>(bits % 4 != 0) : i * bound / length);
  }
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

  /// A query, and what it makes of the keys that it sees.
  struct Query {
    std::int64_t batch = 0, head = 0, query = 0;
    Bounds bounds;
    std::int64_t first_key = 0;
    std::vector<double> scores, errors;  ///< of each key from there on: natural, and the bound of its rounding
    bool undecided = false;              ///< whether a key counts at all is a matter of rounding
  };

  /// Scaled and capped.
  void compute_scores(Query& at) const {
    const std::int64_t batch = at.batch, head = at.head, query = at.query;
    const Bounds& bounds = at.bounds;
    const std::int64_t kv_head = head / settings_.group();
    std::vector<double> q(static_cast<std::size_t>(settings_.head_dim)), k(q.size());
    read_row(Side::q, batch, bounds.q_start + query, head, q);

    const std::int64_t offset = settings_.offset(bounds.queries, bounds.keys);
    const std::int64_t begin =
        settings_.bounded_left() ? std::max<std::int64_t>(0, query + offset - settings_.window_left) : 0;
    const std::int64_t end =
        settings_.bounded_right() ? std::min(bounds.keys, query + offset + settings_.right() + 1) : bounds.keys;
    at.first_key = begin;
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
        error += settings_.softcap * 0x1p-21 + (settings_.dtype == DType::f32 ? 0 : small_cap_error);
      }
      at.scores.push_back(score);
      at.errors.push_back(error);
    }
  }

  /// From scores, which it completes, to the row.
  void compute(Query& at, Row& row) const {
    const std::int64_t batch = at.batch, head = at.head, query = at.query;
    const Bounds& bounds = at.bounds;
    const std::int64_t kv_head = head / settings_.group(), begin = at.first_key;
    const std::int64_t offset = settings_.offset(bounds.queries, bounds.keys);
    const auto width = static_cast<std::size_t>(settings_.head_dim_v);
    row.output.assign(width, 0);
    row.size.assign(width, 0);
    row.lost.assign(width, 0);
    row.largest_score_error = 0;
    std::vector<double>& scores = at.scores;
    std::vector<double> v(width);
    double largest = -INFINITY;
    bool broken = false;
    for (std::size_t j = 0; j < scores.size(); ++j) {
      double &score = scores[j], &error = at.errors[j];
      const std::int64_t key = begin + static_cast<std::int64_t>(j);
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

/// Asks the device what the user's text makes of the reference's scores, and of both ends of their rounding: how far these
/// lie from it bounds what the rounding of a kernel's score becomes.
class Modifier {
 public:
  Modifier(const Settings& settings, std::span<const HostArray> arrays, const Evaluate& evaluate)
      : settings_(settings), evaluate_(evaluate) {
    for (const Aux& aux : settings.aux)
      if (aux.is_array) arrays_.push_back(*find(arrays, aux.name));
  }

  /// Rows to hand over at once, so that the device has work and the host memory for it.
  std::int64_t rows_at_once() const noexcept { return std::max<std::int64_t>(1, (1 << 20) / (3 * settings_.seq_kv)); }

  /// One at a time.
  void apply(std::span<Reference::Query> queries) const {
    const auto rows = static_cast<std::int64_t>(3 * queries.size());
    std::size_t keys = 0;
    for (const Reference::Query& query : queries) keys = std::max(keys, query.scores.size());
    if (keys == 0) return;
    std::vector<std::int32_t> places;
    std::vector<float> scores(static_cast<std::size_t>(rows) * keys);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      const Reference::Query& query = queries[row / 3];
      for (const std::int64_t word :
           {query.batch, query.head, query.query, query.first_key, static_cast<std::int64_t>(query.scores.size())})
        places.push_back(static_cast<std::int32_t>(word));
      for (std::size_t j = 0; j < query.scores.size(); ++j) {
        const double score = query.scores[j];
        const double shift = std::isfinite(score) ? static_cast<double>(static_cast<int>(row % 3) - 1) * query.errors[j] : 0;
        scores[row * keys + j] = static_cast<float>(score + shift);
      }
    }
    std::vector<HostArray> arrays = arrays_;
    const std::int64_t width = 5, length = static_cast<std::int64_t>(keys);
    arrays.push_back({{.name = "places", .input = true, .dtype = DType::i32, .shape = {rows, width}, .strides = {width, 1}},
                      reinterpret_cast<std::byte*>(places.data())});
    arrays.push_back({{.name = "scores", .input = true, .output = true, .shape = {rows, length}, .strides = {length, 1}},
                      reinterpret_cast<std::byte*>(scores.data())});
    evaluate_(modification_plan(settings_, rows, length), arrays);
    for (std::size_t i = 0; i < queries.size(); ++i)
      for (std::size_t j = 0; j < queries[i].scores.size(); ++j) {
        const float* const low = &scores[3 * i * keys + j];
        take(queries[i], j, low[0], low[keys], low[2 * keys]);
      }
  }

 private:
  static void take(Reference::Query& query, std::size_t at, double low, double middle, double high) {
    if (std::isfinite(low) && std::isfinite(middle) && std::isfinite(high)) {
      // Its own arithmetic, which another kernel may fuse otherwise.
      const double own = (std::fabs(middle) + std::fabs(query.scores[at])) * 0x1p-22;
      query.errors[at] = std::max(std::fabs(low - middle), std::fabs(high - middle)) + own;
    } else if (!same(low, middle) || !same(high, middle)) {
      query.undecided = true;
    }
    query.scores[at] = middle;
  }
  static bool same(double a, double b) noexcept { return a == b || (std::isnan(a) && std::isnan(b)); }

  const Settings& settings_;
  const Evaluate& evaluate_;
  std::vector<HostArray> arrays_;
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
  std::int64_t shortest = 8;
  for (const Aux& aux : settings.aux)
    if (aux.is_array) shortest = std::max<std::int64_t>(1, std::min(shortest, aux.length(settings.dimensions())));
  for (const HostArray& array : arrays) {
    if (array.info.name == "alibi_slopes")
      for (std::int64_t h = 0; h < settings.heads; ++h)
        write_element(
            DType::f32, array.data, h,
            static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(settings.heads))));
    if (array.info.name == "sinks")
      for (std::int64_t h = 0; h < settings.heads; ++h)
        write_element(DType::f32, array.data, h, awkward && h % 3 == 2 ? 40.0f : static_cast<float>(h % 4 - 1));
    for (const Aux& aux : settings.aux)
      if (aux.is_array && aux.name == array.info.name) fill_aux(array, seed + scramble(7), shortest);
    if (array.info.name == "mask_tiles" && array.info.input) fill_mask_tiles(array);
    if (array.info.name == "cu_seqlens_q") fill_starts(array, settings.total_q, settings.seq_q, seed + 11, awkward);
    if (array.info.name == "cu_seqlens_kv") fill_starts(array, settings.total_kv, settings.seq_kv, seed + 12, awkward);
  }
}

CheckResult AttentionOp::check(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows) const {
  if (Settings::of(problem).modified())
    throw Error(ErrorCode::unsupported,
                "score_mod and mask_mod are CUDA text, which check() cannot evaluate; judge() asks a device");
  return judge(problem, arrays, max_rows, {});
}

CheckResult AttentionOp::judge(const Problem& problem, std::span<const HostArray> arrays, std::int64_t max_rows,
                               const Evaluate& evaluate) const {
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
  std::exception_ptr failure;
  const Modifier modifier(settings, arrays, evaluate);
  const std::int64_t at_once = settings.modified() ? modifier.rows_at_once() : 1;
  if (settings.modified()) result.note = "score_mod and mask_mod as the device evaluates them alone";
  const auto compare_rows = [&](std::int64_t begin, std::int64_t end, Outcome& outcome) {
    std::vector<Reference::Query> queries;
    for (std::int64_t i = begin; i < end; ++i) {
      // Evenly spread, the first and the last row included.
      const std::int64_t at = result.checked_rows > 1 ? (result.total_rows - 1) * i / (result.checked_rows - 1) : 0;
      Reference::Query query;
      query.batch = at / settings.seq_q / settings.heads;
      query.head = at / settings.seq_q % settings.heads;
      query.query = at % settings.seq_q;
      query.bounds = reference.sequence(query.batch);
      if (query.query >= query.bounds.queries) continue;
      reference.compute_scores(query);
      queries.push_back(std::move(query));
    }
    if (settings.modified()) {
      const std::lock_guard lock(mutex);
      modifier.apply(queries);
    }
    Reference::Row row;
    for (Reference::Query& at : queries) {
      if (at.undecided) continue;
      reference.compute(at, row);
      const auto& [batch, head, query] = std::tie(at.batch, at.head, at.query);
      const std::int64_t position = at.bounds.q_start + query;
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
  };
  const auto judge_rows = [&](std::int64_t begin, std::int64_t end) {
    Outcome outcome;
    std::exception_ptr thrown;
    try {
      for (std::int64_t i = begin; i < end; i += at_once) compare_rows(i, std::min(end, i + at_once), outcome);
    } catch (...) {  // the device refused; threads hand it on
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    if (thrown != nullptr) failure = thrown;
    result.max_error = std::max(result.max_error, outcome.max_error);
    result.allowed_error = std::max(result.allowed_error, outcome.allowed);
    if (result.first_failure.empty()) result.first_failure = outcome.failure;
  };
  over_rows(result.checked_rows, settings.seq_kv * (settings.head_dim + settings.head_dim_v), judge_rows);
  if (failure != nullptr) std::rethrow_exception(failure);
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
