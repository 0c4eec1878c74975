#pragma once
// Options of operations over rows: scale, masks, safe rows. Internal to templates/.

#include <cstdint>

#include "tunesmith/types.h"

namespace tunesmith::row {

enum class Mask : std::uint8_t { none, add, keep };

/// The public header of options over rows has their meaning.
struct Options {
  double scale = 1;
  bool causal = false;
  bool valid_cols = false;
  std::int64_t valid_cols_group = 1;
  Mask mask = Mask::none;
  DType mask_dtype = DType::f32;
  std::int64_t mask_inner = 0, mask_middle = 1;  ///< inner 0: all rows
  std::int64_t mask_row_stride = 0, mask_middle_stride = 0, mask_outer_stride = 0;
  std::int64_t mask_alignment = 16;
  bool safe = false;

  bool scaled() const noexcept { return scale != 1; }
  /// Returns the widest aligned load from a row of the mask, in elements: every row starts at a multiple of it.
  std::int64_t mask_vector(int widest) const noexcept;
  bool operator==(const Options&) const = default;
};

}  // namespace tunesmith::row
