// Inputs that try row programs.

#include <algorithm>
#include <cmath>

#include "core/half.h"
#include "templates/row/check.h"
#include "templates/row_program/op.h"
#include "templates/sampling.h"

namespace tunesmith {
namespace {

/// Element of an edge-case row; random in other rows. `summed`: columns are added up over the rows, where one infinite or
/// huge row would leave nothing to check in any other.
double element(std::int64_t row, std::int64_t column, std::int64_t cols, DType dtype, bool summed,
               std::uint64_t bits) noexcept {
  const bool wide = dtype == DType::f64;
  const double normal = bell(bits), huge = dtype == DType::f16 ? 6e4 : wide ? 1.7e308 : 3e38;
  switch (summed && row >= 1 && row <= 5 ? -1 : row) {
    case 0: return 0;
    case 1: return column == cols / 2 ? INFINITY : normal;
    case 2: return column == 0 ? -INFINITY : normal;
    case 3: return column == cols - 1 ? NAN : normal;
    case 4: return huge * (uniform(bits) - 0.5) * 2;
    case 5: return -INFINITY;
    case 6: return 1e4 + normal;                                          // a large common offset
    case 7: return normal * (wide ? 1e-156 : 1e-21);                      // squares near the smallest normal numbers
    case 8: return normal * (wide ? 1e-310 : 1e-40);                      // denormals
    case 9: return column == cols / 3 ? 1e4 : normal * 1e-3;              // one dominates
    case 10: return -7.25;                                                // all alike
    case 11: return std::exp((wide ? 200 : 20) * (uniform(bits) - 0.5));  // of all sizes
    case 12: return column == cols - 1 ? 0x1.0p-10 : 0;                   // whole threads see nothing but zeros
    case 13: return std::floor(4 * uniform(bits)) - 2;                    // ties
    case 14: return 100 * normal;
    case 15: return column == 0 ? 1e4 : normal * 1e-3;  // the first one dominates
    default: return normal * 2;
  }
}

double of_column(std::int64_t column, std::uint64_t bits, bool edge_cases, bool summed) noexcept {
  if (edge_cases && column % 101 == 7) return 0;
  if (edge_cases && column % 101 == 9) return 1e4;
  edge_cases = edge_cases && !summed;
  if (edge_cases && column % 1009 == 10) return INFINITY;
  if (edge_cases && column % 1009 == 11) return NAN;
  return 1 + bell(bits) / 4;
}

void fill_integers(const HostArray& array, std::int64_t cols, std::uint64_t seed) {
  for (std::int64_t i = 0; i < array.info.elements(); ++i)
    write_integer(array.info.dtype, array.data, i,
                  static_cast<std::int64_t>(scramble(seed + static_cast<std::uint64_t>(i)) %
                                            static_cast<std::uint64_t>(std::max<std::int64_t>(cols, 1))));
}

/// An i32 of an array [row, col]: a column; in edge-case rows also numbers that f32 does not represent, and bits that are
/// NaN and denormal numbers as f32.
std::int64_t integer(std::int64_t row, std::int64_t column, std::int64_t cols, std::uint64_t bits) noexcept {
  constexpr std::int64_t most = 0x7fffffff, odd = (1 << 24) + 1;
  const auto usual = static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(cols));
  switch (row) {
    case 0: return 0;
    case 1: return column == cols / 2 ? most : usual;
    case 2: return column == 0 ? -most - 1 : -usual;
    case 3: return odd + static_cast<std::int64_t>(bits % 4);  // neighbours
    case 4: return 0x7f800001 + static_cast<std::int64_t>(bits % 0x7ffffe);
    case 5: return -1 - static_cast<std::int64_t>(bits % 0x7ffffe);
    case 6: return static_cast<std::int64_t>(bits % 4) - 2;  // ties
    case 7: return static_cast<std::int64_t>(bits & 0xffffffffU) - most - 1;
    default: return usual;
  }
}

/// Fills an array of i32 or of booleans.
void fill_exact(const HostArray& array, RowProgramDims dims, std::int64_t cols, std::int64_t turn, std::uint64_t seed) {
  const bool boolean = array.info.dtype == DType::u8;
  if (dims != RowProgramDims::full) {
    fill_integers(array, boolean ? 2 : cols, seed);
    return;
  }
  const row::Elements elements{array.info};
  for (std::int64_t row = 0; row < elements.rows(); ++row) {
    const std::uint64_t own = scramble(seed + static_cast<std::uint64_t>(row));
    for (std::int64_t column = 0; column < array.info.shape[1]; ++column) {
      const std::int64_t at = elements.at(row, column);
      const std::uint64_t bits = scramble(own + static_cast<std::uint64_t>(column));
      if (boolean)  // rows without and with true alone
        write_integer(DType::u8, array.data, at,
                      row - turn < 2 && row >= turn ? row - turn : static_cast<std::int64_t>(bits & 1));
      else
        write_integer(DType::i32, array.data, at, integer(row - turn, column, cols, bits));
    }
  }
}

}  // namespace

void fill_row_program_inputs(const RowProgramProblem& problem, bool summed, std::uint64_t seed, InputKind kind,
                             std::span<const HostArray> arrays) {
  const bool edge_cases = kind == InputKind::edge_cases;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    const HostArray& array = arrays[a];
    if (!array.info.input) continue;
    const std::uint64_t own = scramble(seed + a);
    const RowProgramDims dims = problem.program.arrays()[a].dims;
    // A second input has its edge cases in other rows, so that most rows have one array of ordinary numbers.
    const std::int64_t turn = static_cast<std::int64_t>(a) * 4;
    if (array.info.dtype == DType::i32 || array.info.dtype == DType::u8) {
      constexpr std::int64_t none = std::int64_t{1} << 40;
      fill_exact(array, dims, problem.cols, edge_cases ? turn : none, own);
      continue;
    }
    row::fill_rows(array, [&](std::int64_t row, std::vector<double>& values) {
      for (std::size_t column = 0; column < values.size(); ++column) {
        const auto at = static_cast<std::int64_t>(column);
        const std::uint64_t bits = scramble(own + static_cast<std::uint64_t>(row * problem.cols + at));
        if (dims == RowProgramDims::full)
          values[column] = element(edge_cases ? row - turn : -1, at, problem.cols, array.info.dtype, summed, bits);
        else if (dims == RowProgramDims::row)
          values[column] = edge_cases && at % 37 == 5 ? 0 : 0.5 + uniform(bits);
        else
          values[column] = of_column(at, bits, edge_cases, summed);
      }
    });
  }
}

}  // namespace tunesmith
