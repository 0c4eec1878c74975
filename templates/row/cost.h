#pragma once
// What a program over rows costs: all that schedules, default rules and the search know of an operation. Internal to
// templates/.

#include <cstdint>

namespace tunesmith::row {

struct ProgramCost {
  int stages = 1;               ///< reductions of a row one after another
  bool reduces = true;          ///< values of a row depend on all of its columns
  bool writes = true;           ///< writes rows; otherwise only a few numbers per row, and Shape::out equals Shape::in[0]
  bool composed = false;        ///< functions of expressions (program.cuh) instead of kernels of its own
  bool terms_once = false;      ///< the term of an element is computed once: it is only summed, or replaces the element
  bool logarithm = false;       ///< results are computed from the logarithm of a sum
  int sorted_columns = 0;       ///< of a row, which are chosen from sorted lists of each thread
  int exchanged_floats = 2;     ///< largest partial result that threads exchange
  int lanes_of_group = 1;       ///< neighbouring threads that reduce a group of columns together
  int column_bytes = 0;         ///< bytes of a column in shared memory over all arrays [col]
  int column_sums = 0;          ///< values of each column that a thread adds up over the rows, in registers
  int totals = 0;               ///< values that a thread adds up over its rows and columns, in two numbers
  int more_registers = 0;       ///< additional registers per thread
  int more_smem_bytes = 0;      ///< static shared memory in addition to two exchanges of two floats
  int streamed_part_bytes = 0;  ///< of a warp's partial where rows stream (schedules/pipeline.h); 0: they do not
  std::int64_t min_streamed_cols = 0;  ///< fewest columns for which that is the fastest, as measured on an H200

  /// Returns whether terms replace resident float elements.
  bool keeps_terms() const noexcept { return terms_once && writes; }
  /// Returns whether elements are read once and nothing but sums of their terms is kept.
  bool sums_once() const noexcept { return terms_once && !writes; }
  bool sums_rows() const noexcept { return column_sums > 0 || totals > 0; }
  /// Returns whether each row is combined with arrays [col], such as weights.
  bool reads_columns() const noexcept { return column_bytes > 0; }
};

}  // namespace tunesmith::row
