#pragma once
// Sums with one term that is not 0, such as sum(select(col == target, x, 0)). Internal to templates/.

#include <cstdint>
#include <vector>

#include "templates/row_program/language/program.h"
#include "tunesmith/row_program.h"

namespace tunesmith::row_program {

/// The kernels that a program is generated for.
struct GatherLimits {
  std::int64_t cols = 0;         ///< of a row; the fewest, in kernels for a bucket of widths
  std::int64_t max_cols = 0;     ///< the most of them
  bool keeps_exchanges = false;  ///< each stage of the program must have a reduction
};

/// Returns an equal program for kernels, in which a sum over the columns of a row is marked (Reduction::gathered_at) if its
/// terms are 0 in all columns but one: threads load the inputs of that column, and compute its term alone. The column is a
/// value of the row, of any type; the sum is 0 if it is no column of the row. Other programs are returned as they are.
///
/// Two kinds of sums are not marked: in rows of less than a KiB, because it is not faster, and of inputs that an output
/// overwrites, because another thread may have stored the element.
Program with_gathers(const Program& program, const GatherLimits& limits, const std::vector<RowProgramInPlace>& in_place);

/// Returns the indices of the marked reductions, in the order of their stages.
std::vector<std::size_t> gathers_of(const Program& program);

}  // namespace tunesmith::row_program
