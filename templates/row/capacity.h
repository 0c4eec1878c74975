#pragma once
// Buckets of widths whose rows run in one kernel. Internal to templates/.

#include "core/half_octave.h"

namespace tunesmith::row {

/// Columns of the first bucket, and the end of the range with one bucket an octave: the lanes of a row are a power of two.
inline constexpr std::int64_t max_cols_of_first_bucket = 8, max_cols_of_octaves = 16;
/// Columns up to which there are two buckets an octave. Beyond, there are four: a multiprocessor holds few such rows, and
/// room for columns that a row does not have would cost one of them.
inline constexpr std::int64_t max_cols_of_wide_buckets = 2048;

/// Columns up to which there are at most 40 buckets, of unaligned rows, too: their last one ends here.
inline constexpr std::int64_t max_cols_of_buckets = 131072;

/// The end of the last bucket: more columns than a row can have.
inline constexpr std::int64_t max_cols_of_all = std::int64_t{1} << 31;

/// Returns the most columns of the bucket of `cols`: 40 buckets up to 131072 columns.
constexpr std::int64_t capacity_of(std::int64_t cols) noexcept {
  if (cols <= max_cols_of_first_bucket) return max_cols_of_first_bucket;
  const auto octave = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(cols)));
  if (cols <= max_cols_of_octaves) return octave;
  if (cols <= max_cols_of_wide_buckets) return half_octave(cols);
  const std::int64_t step = octave / 8;
  return (cols + step - 1) / step * step;
}

/// Returns the fewest columns of the bucket that ends at `capacity`.
constexpr std::int64_t min_cols_of(std::int64_t capacity) noexcept {
  if (capacity <= max_cols_of_first_bucket) return 1;
  const auto octave = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(capacity)));
  if (capacity <= max_cols_of_octaves) return octave / 2 + 1;
  if (capacity > max_cols_of_wide_buckets) return capacity - octave / 8 + 1;
  return (capacity == octave ? octave / 4 * 3 : octave / 2) + 1;
}

}  // namespace tunesmith::row
