// Inputs of cross-entropy for tests and measurements: random ones, and rows with edge cases.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.h"
#include "templates/cross_entropy/reference.h"
#include "templates/row/check.h"
#include "templates/sampling.h"

namespace tunesmith::cross_entropy {
namespace {

/// Number of rows with edge cases in their logits, their target, or both. If losses are summed, rows without a finite loss
/// are ignored, so that they cannot poison the sum.
constexpr std::int64_t edge_case_rows = 22;

bool has_no_finite_loss(std::int64_t row) {
  return (row >= 1 && row <= 3) || row == 15 || row == 16 || row == 17 || row == 18;
}

double edge_case_logit(std::int64_t row, std::int64_t column, std::int64_t cols, std::int64_t target, DType dtype,
                       bool sums_logits, std::uint64_t bits) {
  const double normal = bell(bits);
  const bool wide = dtype == DType::f64;
  const double huge = dtype == DType::f16 ? 3e4 : wide ? (sums_logits ? 1e302 : 5e307) : (sums_logits ? 1e32 : 1e38);
  switch (row) {
    case 0: return 3.0;                                     // equal values
    case 1: return -INFINITY;                               // NaN by definition
    case 2: return column == cols / 2 ? INFINITY : normal;  // NaN by definition
    case 3: return column == cols - 1 ? NAN : normal;       // NaN in the last column only
    case 4: return normal + 1e4;                            // large common offset
    case 5: return normal - 1e4;
    case 6: return column % 2 == 0 && column != target ? -INFINITY : normal;  // masked half
    case 7: return normal * (wide ? 1e-310 : 1e-40);                          // denormals
    case 8: return column == target ? 24 : normal;                            // confident
    case 9: return (uniform(bits) - 0.5) * (wide ? 1480 : 200);               // wide range
    case 10: return (uniform(bits) - 0.5) * 2 * huge;                         // widest range
    case 11: return column == (target + 1) % cols ? 30 : normal;              // confident, and wrong
    case 12: return column < cols / 2 ? -INFINITY : normal;                   // threads and tiles with -inf only
    case 14: return column % 3 == 0 ? NAN : normal;                           // ignored
    case 18: return column == target ? -INFINITY : normal;                    // the target is masked
    case 19: return column == target ? 1e4 + 21 : 1e4 + normal;
    case 20: return column == target ? 0 : normal - 60;     // p is 1 - 1e-26
    case 21: return column == target ? normal : -INFINITY;  // all classes except the target are masked
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
      write_element(settings.number(), weight->data, c, none ? 0.0 : 0.25 + 1.5 * uniform(bits));
    }
  if (const HostArray* const dloss = find(arrays, "dloss"); dloss != nullptr)
    for (std::int64_t r = 0; r < dloss->info.elements(); ++r)
      write_element(settings.number(), dloss->data, r, 0.5 + bell(bits_at(seed, 3, r)));
  if (const HostArray* const dlse = find(arrays, "dlse"); dlse != nullptr)
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      const std::uint64_t bits = bits_at(seed, 5, r);
      write_element(settings.number(), dlse->data, r, bits % 4 == 1 ? 0.0 : bell(bits));
    }
  const bool smooths = settings.label_smoothing != 0;
  // Edge cases belong to rows with certain targets; rows that share elements are random.
  const HostArray* const logits = find(arrays, "logits");
  const bool broadcast = logits != nullptr && std::ranges::count(logits->info.strides, 0) > 0;
  if (logits != nullptr)
    row::fill_rows(*logits, [&](std::int64_t r, std::vector<double>& values) {
      const std::int64_t target =
          std::max<std::int64_t>(read_integer(settings.target, targets->data, r), -1) - settings.vocab_start;
      for (std::int64_t c = 0; c < shape.cols; ++c) {
        const std::uint64_t bits = bits_at(seed, 4, r * shape.cols + c);
        values[static_cast<std::size_t>(c)] = edge_cases && !broadcast && r < edge_case_rows
                                                  ? edge_case_logit(r, c, shape.cols, target, shape.input, smooths, bits)
                                                  : bell(bits) * 2;
      }
    });
  // Fill lse, lse_low and nll as the forward operation would.
  if (settings.kind == Kind::backward)
    over_rows(shape.rows, shape.cols, [&](std::int64_t begin, std::int64_t end) {
      const auto fill = [&]<typename Real>(Real) {
        for (std::int64_t r = begin; r < end; ++r) {
          const auto reference = reference_of<Real>(settings, arrays, r, row_of(settings, arrays, r));
          const HostArray& lse = *find(arrays, "lse");
          write_element(settings.number(), lse.data, r, static_cast<double>(reference.lse));
          if (const HostArray* const low = find(arrays, "lse_low"); low != nullptr) {
            const Real rounded = read_element(settings.number(), lse.data, r);
            const Real lost = std::isfinite(rounded) ? reference.largest - rounded + reference.log_sum : 0;
            write_element(settings.number(), low->data, r, static_cast<double>(lost));
          }
          if (const HostArray* const nll = find(arrays, "nll"); nll != nullptr)
            write_element(settings.number(), nll->data, r, static_cast<double>(reference.nll));
        }
      };
      settings.wide() ? fill(0.0L) : fill(0.0);
    });
  if (settings.kind == Kind::combine) {
    const HostArray& parts = *find(arrays, "partials");
    for (std::int64_t s = 0; s < settings.shards; ++s)
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        const std::int64_t first = (s * shape.rows + r) * 8;
        const auto rounded = [&](double value) { return settings.wide() ? value : static_cast<float>(value); };
        const auto put = [&](int field, double value) {
          write_element(settings.number(), parts.data, first + field, rounded(value));
        };
        const std::uint64_t bits = bits_at(seed, 5, s * shape.rows + r);
        const bool empty = edge_cases && bits % 5 == 1 && settings.shards > 1;
        const double offset = edge_cases && r % 4 == 1 ? 1e4 : 0;
        const double largest = empty ? -INFINITY : rounded(offset + 3 * bell(bits));
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
        if (settings.wide())
          put(7, index);
        else
          std::memcpy(parts.data + (first + 7) * 4, &index, 4);
      }
  }
}

}  // namespace tunesmith::cross_entropy
