// Inputs of kv_append, and its float64 reference.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "core/half.h"
#include "templates/kv_append/op.h"
#include "templates/kv_append/vector.h"
#include "templates/sampling.h"
#include "tunesmith/error.h"

namespace tunesmith {

using namespace kv_append;

namespace {

const HostArray* find(std::span<const HostArray> arrays, std::string_view name) {
  const auto found = std::ranges::find(arrays, name, [](const HostArray& array) { return array.info.name; });
  return found == arrays.end() ? nullptr : &*found;
}

/// Visits the index of every element of an array and its offset.
template <typename Visit>
void over_elements(const ArrayInfo& info, const Visit& visit) {
  std::int64_t count = 1;
  for (const std::int64_t extent : info.shape) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (std::size_t d = info.shape.size(); d-- > 0; rest /= info.shape[d]) offset += rest % info.shape[d] * info.strides[d];
    visit(i, offset);
  }
}

/// Fills an array with numbers; with edge cases, some tokens hold zeros, large numbers, infinities or NaN.
void fill_elements(const HostArray& array, std::uint64_t seed, bool edge_cases) {
  const std::int64_t width = array.info.shape.back();
  std::int64_t of_token = 1;
  for (std::size_t d = 1; d < array.info.shape.size(); ++d) of_token *= array.info.shape[d];
  over_elements(array.info, [&](std::int64_t i, std::int64_t offset) {
    double value = bell(scramble(seed + static_cast<std::uint64_t>(i)));
    const std::int64_t token = i / std::max<std::int64_t>(of_token, 1), column = i % width;
    if (edge_cases && array.info.shape.size() == 3) {
      if (token % 11 == 3) value = 0;
      if (token % 11 == 5) value *= 1000;
      if (token % 11 == 7 && column == 1) value = INFINITY;
      if (token % 11 == 8 && column == width - 1) value = NAN;
    }
    write_element(array.info.dtype, array.data, offset, value);
  });
}

/// The number that a result is compared with, the size of the terms that it is the sum of, and what the rounding of a
/// denormal number loses. Nothing is known of a finite value whose terms are not finite.
struct Expected {
  double value = 0, size = 0, lost = 0;
};

/// Computes rows in float64.
class Reference {
 public:
  Reference(const KvAppendProblem& problem, std::span<const HostArray> arrays) : p_(problem), arrays_(arrays) {}

  /// Returns head `head` of token `token` of q, k or v before it is quantized.
  std::vector<Expected> row(const char* name, std::int64_t token, std::int64_t head) const {
    const HostArray& from = *find(arrays_, name);
    std::vector<Expected> row(static_cast<std::size_t>(from.info.shape[2]));
    const std::int64_t first = token * from.info.strides[0] + head * from.info.strides[1];
    for (std::size_t c = 0; c < row.size(); ++c) {
      row[c].value = read_element(p_.dtype, from.data, first + static_cast<std::int64_t>(c));
      row[c].size = std::fabs(row[c].value);
    }
    if (*name == 'v') return row;
    if (p_.qk_norm) normalize(*find(arrays_, *name == 'q' ? "q_weight" : "k_weight"), row);
    if (p_.rope != Rope::none) rotate(read_integer(DType::i64, find(arrays_, "positions")->data, token), row);
    return row;
  }

  /// Allowed error of a result in units of 2^-24 of its terms, besides the final rounding: a sum of 16 elements by a lane
  /// and over 5 steps, half of whose error the root leaves, a quotient, a sum, the root itself and 3 products; 3 roundings
  /// of a rotation; the division by a scale.
  double float32_error() const {
    return (p_.qk_norm ? 20 : 0) + (p_.rope != Rope::none ? 3 : 0) + (p_.scales != KvScales::none ? 1 : 0);
  }

 private:
  void normalize(const HostArray& weights, std::vector<Expected>& row) const {
    double squares = 0;
    for (const Expected& x : row) squares += x.value * x.value;
    const double factor =
        1 / std::sqrt(squares / static_cast<double>(row.size()) + static_cast<double>(static_cast<float>(p_.eps)));
    // Squares in float32 are 0 or infinite then.
    const bool unknown = squares >= 0x1p127 || (squares < 0x1p-100 && squares > 0 && p_.eps < 0x1p-100);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const double weight = read_element(p_.weight_type(), weights.data, static_cast<std::int64_t>(c));
      const double offset = static_cast<double>(static_cast<float>(p_.weight_offset));
      row[c].size = unknown ? INFINITY : std::fabs(row[c].value * factor) * (std::fabs(weight) + std::fabs(offset));
      row[c].lost = 0x1p-149 * (std::fabs(weight) + std::fabs(offset));
      row[c].value *= factor * (weight + offset);
    }
  }
  void rotate(std::int64_t position, std::vector<Expected>& row) const {
    const HostArray& table = *find(arrays_, "cos_sin");
    const std::int64_t half = p_.rotary_dim.value() / 2;
    for (std::int64_t i = 0; i < half; ++i) {
      const double c = read_element(p_.cos_sin_dtype, table.data, position * 2 * half + i),
                   s = read_element(p_.cos_sin_dtype, table.data, position * 2 * half + half + i);
      Expected& a = row[static_cast<std::size_t>(p_.rope == Rope::neox ? i : 2 * i)];
      Expected& b = row[static_cast<std::size_t>(p_.rope == Rope::neox ? i + half : 2 * i + 1)];
      const Expected x = a, y = b;
      const auto turned = [c, s](double of_x, double of_y) { return of_x * std::fabs(c) + of_y * std::fabs(s); };
      a = {x.value * c - y.value * s, turned(x.size, y.size), turned(x.lost, y.lost)};
      b = {y.value * c + x.value * s, turned(y.size, x.size), turned(y.lost, x.lost)};
    }
  }

  const KvAppendProblem& p_;
  std::span<const HostArray> arrays_;
};

/// Compares elements and collects the result.
class Comparison {
 public:
  Comparison(CheckResult& result, double float32_error) : result_(result), float32_error_(float32_error) {}

  void compare(const HostArray& array, std::int64_t offset, const Expected& expected, const std::string& where) {
    if (std::isfinite(expected.value) && !std::isfinite(expected.size)) return;
    const DType dtype = array.info.dtype;
    const double found = read_element(dtype, array.data, offset);
    std::byte rounded[4];
    write_element(dtype, rounded, 0, expected.value);
    const double reference = read_element(dtype, rounded, 0);
    if (found == reference || (std::isnan(found) && std::isnan(reference))) return;
    // e4m3 ends at 448.
    const double value = dtype == DType::e4m3 ? std::clamp(expected.value, -448.0, 448.0) : expected.value;
    // Where terms cancel, errors are counted in units of the terms.
    const double unit = spacing(dtype, std::isfinite(expected.size) ? std::max(std::fabs(value), expected.size) : value);
    const double error = std::fabs(found - value) / unit;
    const double allowed =
        (0.5 * spacing(dtype, value) + float32_error_ * 0x1p-24 * expected.size + expected.lost + 0x1p-140) / unit;
    if (std::isfinite(error)) {
      result_.max_error = std::max(result_.max_error, error);
      result_.allowed_error = std::max(result_.allowed_error, allowed);
    }
    if (!(error <= allowed) && result_.first_failure.empty())
      result_.first_failure = where + " is " + std::to_string(found) + ", reference " + std::to_string(expected.value) +
                              " (" + std::to_string(error) + " ULP, allowed " + std::to_string(allowed) + ")";
  }
  void expect_same(const HostArray& array, std::int64_t offset, const std::string& where) {
    const auto bytes = static_cast<std::size_t>(size_of(array.info.dtype));
    const std::size_t at = static_cast<std::size_t>(offset) * bytes;
    if (array.before == nullptr || std::memcmp(array.data + at, array.before + at, bytes) == 0) return;
    if (result_.first_failure.empty()) result_.first_failure = where + " changed, but no slot is there";
  }

 private:
  CheckResult& result_;
  const double float32_error_;
};

std::string place(const std::string& array, std::initializer_list<std::int64_t> indices) {
  std::string text = array;
  for (const std::int64_t index : indices) text += (text == array ? "[" : ",") + std::to_string(index);
  return text + "]";
}

}  // namespace

void ParsedKvAppend::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  const bool edge_cases = kind == InputKind::edge_cases;
  const std::int64_t slots = typed_.pages * typed_.page_size;
  for (const HostArray& array : arrays) {
    if (!array.info.input) continue;
    const std::uint64_t stream = scramble(seed + std::hash<std::string>()(array.info.name));
    const std::int64_t count = array.info.shape[0];
    if (array.info.name == "slot_mapping") {
      // Different slots in any order: multiples of a number without a common divisor.
      std::int64_t step = std::max<std::int64_t>(slots * 5 / 8, 1);
      while (std::gcd(step, slots) > 1) ++step;
      std::int64_t slot = 0;
      for (std::int64_t t = 0; t < count; ++t) {
        const bool skips = t >= slots || (edge_cases && t % 5 == 4);
        write_integer(DType::i64, array.data, t,
                      skips ? (t % 2 == 0 ? -1 : std::numeric_limits<std::int64_t>::min()) : slot);
        if (slots > 0) slot = (slot + step) % slots;
      }
    } else if (array.info.name == "positions") {
      for (std::int64_t t = 0; t < count; ++t) {
        const std::int64_t last = *typed_.max_positions - 1;
        const auto any = static_cast<std::int64_t>(scramble(stream + static_cast<std::uint64_t>(t)) >> 1) % (last + 1);
        write_integer(DType::i64, array.data, t, edge_cases && t < 2 ? t * last : any);
      }
    } else if (array.info.name == "cos_sin") {
      const std::int64_t half = array.info.shape[1] / 2;
      for (std::int64_t position = 0; position < count; ++position)
        for (std::int64_t i = 0; i < half; ++i) {
          const double angle =
              static_cast<double>(position) * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
          write_element(array.info.dtype, array.data, position * 2 * half + i, std::cos(angle));
          write_element(array.info.dtype, array.data, position * 2 * half + half + i, std::sin(angle));
        }
    } else if (array.info.name == "k_scale" || array.info.name == "v_scale") {
      for (std::int64_t i = 0; i < count; ++i)
        write_element(DType::f32, array.data, i, 0.01 + 0.03 * uniform(scramble(stream + static_cast<std::uint64_t>(i))));
    } else {
      fill_elements(array, stream, edge_cases);
    }
  }
}

CheckResult ParsedKvAppend::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const Reference reference(typed_, arrays);
  CheckResult result;
  result.error_unit = "ULP";
  result.allowed_error = 0.5;
  result.total_rows = typed_.tokens;
  result.checked_rows = std::min(typed_.tokens, std::max<std::int64_t>(max_rows, 1));
  Comparison comparison(result, reference.float32_error());
  const HostArray& slots = *find(arrays, "slot_mapping");
  for (std::int64_t n = 0; n < result.checked_rows; ++n) {
    const std::int64_t t = result.checked_rows > 1 ? (typed_.tokens - 1) * n / (result.checked_rows - 1) : 0;
    for (std::int64_t h = 0; h < typed_.heads; ++h) {
      const std::vector<Expected> row = reference.row("q", t, h);
      const HostArray& out = *find(arrays, "q_out");
      for (std::size_t c = 0; c < row.size(); ++c) {
        const auto column = static_cast<std::int64_t>(c);
        comparison.compare(out, t * out.info.strides[0] + h * out.info.strides[1] + column, row[c],
                           place("q_out", {t, h, column}));
      }
    }
    const std::int64_t slot = read_integer(DType::i64, slots.data, t);
    if (slot < 0) continue;
    for (const char* name : {"k", "v"}) {
      const HostArray &cache = *find(arrays, std::string(name) + "_cache"), *const scale =
                                                                                find(arrays, std::string(name) + "_scale");
      for (std::int64_t g = 0; g < typed_.kv_heads; ++g) {
        std::vector<Expected> row = reference.row(name, t, g);
        for (std::size_t c = 0; c < row.size(); ++c) {
          if (scale != nullptr) {
            const double by = read_element(DType::f32, scale->data, typed_.scales == KvScales::head ? g : 0);
            row[c] = {row[c].value / by, row[c].size / by, row[c].lost / by};
          }
          const std::int64_t page = slot / typed_.page_size, in_page = slot % typed_.page_size,
                             column = static_cast<std::int64_t>(c);
          const bool bshd = typed_.layout == AttentionLayout::bshd;
          const std::int64_t offset = page * cache.info.strides[0] + (bshd ? in_page : g) * cache.info.strides[1] +
                                      (bshd ? g : in_page) * cache.info.strides[2] + column;
          comparison.compare(cache, offset, row[c], place(cache.info.name, {page, in_page, g, column}));
        }
      }
    }
  }
  // Slots without a token are as before.
  std::vector<bool> written(static_cast<std::size_t>(typed_.pages * typed_.page_size));
  for (std::int64_t t = 0; t < typed_.tokens; ++t)
    if (const std::int64_t slot = read_integer(DType::i64, slots.data, t); slot >= 0)
      written[static_cast<std::size_t>(slot)] = true;
  for (const char* name : {"k_cache", "v_cache"}) {
    const HostArray& cache = *find(arrays, name);
    if (cache.before == nullptr) continue;
    const bool bshd = typed_.layout == AttentionLayout::bshd;
    const std::int64_t rows = cache.info.shape[1], columns = cache.info.shape[2], width = cache.info.shape[3];
    over_elements(cache.info, [&](std::int64_t i, std::int64_t offset) {
      const std::int64_t inner = i / width % columns, outer = i / width / columns % rows, page = i / width / columns / rows;
      if (written[static_cast<std::size_t>(page * typed_.page_size + (bshd ? outer : inner))]) return;
      comparison.expect_same(cache, offset, place(name, {page, bshd ? outer : inner, bshd ? inner : outer, i % width}));
    });
  }
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
