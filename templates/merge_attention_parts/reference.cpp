// Inputs of merge_attention_parts, and its float64 reference.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "core/half.h"
#include "templates/merge_attention_parts/op.h"
#include "templates/sampling.h"

namespace tunesmith {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Visits sequence, head and query of every `rows` rows, at most `max_rows` of them, evenly spaced.
template <typename Visit>
std::int64_t over_rows(const MergePartsProblem& p, std::int64_t max_rows, const Visit& visit) {
  const std::int64_t rows = p.batch * p.heads * p.seq_q, count = std::min(rows, std::max<std::int64_t>(max_rows, 1));
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t row = count > 1 ? (rows - 1) * n / (count - 1) : 0;
    visit(row / p.seq_q / p.heads, row / p.seq_q % p.heads, row % p.seq_q);
  }
  return count;
}

/// Returns the offset of a row of o in an array whose last three strides but one are those of `strides`, from `first` on.
std::int64_t row_of(const MergePartsProblem& p, const ArrayInfo& info, std::size_t first, std::int64_t sequence,
                    std::int64_t head, std::int64_t query) {
  const bool bshd = p.layout == AttentionLayout::bshd;
  return sequence * info.strides[first] + (bshd ? query : head) * info.strides[first + 1] +
         (bshd ? head : query) * info.strides[first + 2];
}

const HostArray* find_array(std::span<const HostArray> arrays, std::string_view name) {
  const auto found = std::ranges::find(arrays, name, [](const HostArray& array) { return array.info.name; });
  return found == arrays.end() || found->data == nullptr ? nullptr : &*found;
}

std::string place_of(const char* array, std::int64_t sequence, std::int64_t head, std::int64_t query) {
  return std::string(array) + " of sequence " + std::to_string(sequence) + ", head " + std::to_string(head) + ", query " +
         std::to_string(query);
}

/// Compares results and keeps the largest error in units of the allowed one.
class MergeComparison {
 public:
  explicit MergeComparison(CheckResult& result) : result_(result) {}

  void compare(double found, double expected, double allowed, const std::string& where) {
    if (found == expected || (std::isnan(found) && std::isnan(expected))) return;
    const double error = std::fabs(found - expected) / allowed;
    if (std::isfinite(error)) result_.max_error = std::max(result_.max_error, error);
    if (!(error <= 1) && result_.first_failure.empty())
      result_.first_failure = where + " is " + std::to_string(found) + ", reference " + std::to_string(expected) + " (" +
                              std::to_string(error) + " of the allowed error)";
  }

 private:
  CheckResult& result_;
};

}  // namespace

void ParsedMergeParts::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  const bool edge_cases = kind == InputKind::edge_cases;
  const HostArray &outputs = *find_array(arrays, "o_parts"), &logarithms = *find_array(arrays, "lse_parts");
  over_rows(typed_, std::numeric_limits<std::int64_t>::max(), [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t row = (b * typed_.heads + h) * typed_.seq_q + i;
    for (std::int64_t part = 0; part < typed_.parts; ++part) {
      const std::uint64_t stream = scramble(seed + static_cast<std::uint64_t>(row * typed_.parts + part));
      double lse = 3 * bell(scramble(stream + 1));
      bool any_output = false;
      if (edge_cases) {
        if (row % 7 == 1) lse = -infinity;                              // no part has keys
        if (row % 7 == 2 && part != typed_.parts - 1) lse = -infinity;  // only the last one has
        if (row % 7 == 3) lse *= 300;
        if (row % 7 == 4 && part % 2 == 0) lse = -infinity;
        if (row % 11 == 5 && part == 0) lse = row % 2 == 0 ? NAN : infinity;
        any_output = lse == -infinity;
      }
      write_element(DType::f32, logarithms.data, part * logarithms.info.strides[0] + row, lse);
      const std::int64_t first = part * outputs.info.strides[0] + row_of(typed_, outputs.info, 1, b, h, i);
      for (std::int64_t c = 0; c < typed_.head_dim; ++c)
        write_element(typed_.dtype, outputs.data, first + c,
                      any_output && c % 3 == 0 ? NAN : bell(scramble(stream + 2 + static_cast<std::uint64_t>(c))));
    }
  });
}

CheckResult ParsedMergeParts::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  const HostArray &outputs = *find_array(arrays, "o_parts"), &logarithms = *find_array(arrays, "lse_parts"),
                  &o = *find_array(arrays, "o");
  const HostArray* const lse_out = find_array(arrays, "lse");
  CheckResult result;
  result.error_unit = "of the allowed error";
  result.allowed_error = 1;
  result.total_rows = rows();
  MergeComparison comparison(result);
  const double unit = typed_.lse_base == LseBase::e ? 1 : std::numbers::ln2;
  const auto parts = static_cast<std::size_t>(typed_.parts);
  result.checked_rows = over_rows(typed_, max_rows, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
    const std::int64_t row = (b * typed_.heads + h) * typed_.seq_q + i;
    std::vector<double> lse(parts);
    double top = -infinity;
    for (std::size_t part = 0; part < parts; ++part) {
      lse[part] =
          read_element(DType::f32, logarithms.data, static_cast<std::int64_t>(part) * logarithms.info.strides[0] + row);
      top = std::isnan(lse[part]) || std::isnan(top) ? NAN : std::max(top, lse[part]);
    }
    double sum = 0, spread = 0;
    std::vector<double> weights(parts);
    for (std::size_t part = 0; part < parts; ++part) {
      weights[part] = lse[part] == -infinity ? 0 : std::exp((lse[part] - top) * unit);
      sum += weights[part];
      // The exponent is rounded: its error is relative to its size, and shifts with each new maximum.
      if (weights[part] > 0) spread = std::max(spread, weights[part] * std::fabs(lse[part] - top));
    }
    const double total = sum == 0 ? -infinity : top + std::log(sum) / unit;
    // Units of 2^-24, relative to a sum of positive terms: each exponential is within 2 units of its own, as is each
    // rescaling; a sum of `parts` terms, a quotient, a product.
    const double relative = (static_cast<double>(parts) * 4 + 8 + 4 * spread * static_cast<double>(parts)) * 0x1p-24;
    if (lse_out != nullptr)
      comparison.compare(read_element(DType::f32, lse_out->data, row), total,
                         (relative / unit + std::fabs(total) * 0x1p-23 + 0x1p-24), place_of("lse", b, h, i));
    const std::int64_t at = row_of(typed_, o.info, 0, b, h, i);
    for (std::int64_t c = 0; c < typed_.head_dim; ++c) {
      double value = 0, size = 0, largest = 0;
      for (std::size_t part = 0; part < parts; ++part) {
        if (lse[part] == -infinity) continue;
        const double x = read_element(
            typed_.dtype, outputs.data,
            static_cast<std::int64_t>(part) * outputs.info.strides[0] + row_of(typed_, outputs.info, 1, b, h, i) + c);
        value += x * weights[part] / sum;
        size += std::fabs(x) * weights[part] / sum;
        largest += std::fabs(x);  // a weight may have been 1 for a while
      }
      std::byte rounded[4];
      write_element(typed_.output(), rounded, 0, value);
      const double found = read_element(typed_.output(), o.data, at + c);
      if (found == read_element(typed_.output(), rounded, 0)) continue;
      // Sums beyond float32, and outputs that are not finite times weights that float32 cannot hold, are unknown.
      if (!(largest < 0x1p127) && std::isfinite(sum)) continue;
      comparison.compare(found, value, 0.5 * spacing(typed_.output(), value) + 2 * relative * size + 0x1p-120,
                         place_of("o", b, h, i) + ", element " + std::to_string(c));
    }
  });
  result.passed = result.first_failure.empty();
  return result;
}

}  // namespace tunesmith
