#pragma once
// What a softmax may do beyond the plain formula: scale, masks, rows of different lengths, rows with nothing in them.

#include <cstdint>

#include "tunesmith/types.h"

namespace tunesmith {

/// A mask over the elements of x, in an array of its own. Rows are numbered as (outer, middle, inner), which for attention
/// scores of shape (batch, heads, queries, keys) are (batch, head, query):
///   row = (o * middle + m) * inner + i,
///   the mask's element for (row, column) = mask[o * outer_stride + m * middle_stride + i * row_stride + column].
/// Strides are in elements of the mask; 0 reads the same elements again (broadcast). A mask of shape (rows, cols) needs
/// nothing but its kind; one row for all rows: row_stride 0; (batch, 1, queries, keys): inner = queries, middle = heads,
/// outer_stride = queries * keys.
struct SoftmaxMask {
  enum class Kind : std::uint8_t {
    none,  ///< no mask, and every other field here counts for nothing
    add,   ///< floats that are added to scale * x, the sum rounded to float32; -inf masks. Forward operations only
    keep,  ///< bytes (DType::u8): 0 is masked, anything else takes part. Forward and backward
  };
  Kind kind = Kind::none;
  DType dtype = DType::f32;        ///< of an add mask: f32, f16 or bf16. A keep mask is u8 whatever stands here
  std::int64_t inner = 0;          ///< rows of the innermost level, from 1; 0: all rows
  std::int64_t middle = 1;         ///< how many times `inner` rows make one outer entry, from 1
  std::int64_t row_stride = -1;    ///< elements from one inner row to the next, from 0; -1: cols
  std::int64_t middle_stride = 0;  ///< elements from one middle entry to the next, from 0
  std::int64_t outer_stride = 0;   ///< elements from one outer entry to the next, from 0
  /// Bytes that the mask's address is promised to be a multiple of: a power of two, element size to 16. One-shot calls look
  /// at the address instead.
  std::int64_t alignment = 16;

  bool operator==(const SoftmaxMask&) const = default;
};

/// Options of softmax, log_softmax and their gradients; the defaults are the plain formula. An element that is masked, by
/// whichever option, is as if it were not in its row: 0 in softmax, -inf in log_softmax, 0 in a gradient; x may be anything
/// there, NaN included (but under an add mask: -inf and NaN make NaN). A row with no element left gives NaN, unless `safe`.
struct SoftmaxOptions {
  /// y = softmax(scale * x), the product rounded to float32; a gradient has the factor as well. 1e-30 to 1e30.
  double scale = 1;
  /// Square matrices of scores: row r takes part in columns 0 .. r % cols.
  bool causal = false;
  /// An int32 array (SoftmaxArrays::valid_cols) says how many leading columns a row has; below 0 counts as 0, above cols as
  /// cols. ceil(rows / valid_cols_group) entries, aligned to 4 bytes.
  bool valid_cols = false;
  /// Neighbouring rows that share an entry: row r has entry r / valid_cols_group. From 1, e.g. heads * queries for one
  /// length a sequence. Counts only with valid_cols.
  std::int64_t valid_cols_group = 1;
  /// Default: no mask.
  SoftmaxMask mask{};
  /// A row in which every element is masked or -inf gives zeros (its gradient too) instead of NaN. Costs next to nothing.
  bool safe = false;

  bool operator==(const SoftmaxOptions&) const = default;
};

/// The addresses of what the options name, in device memory; each is looked at only when its option is set.
struct SoftmaxArrays {
  const void* mask = nullptr;        ///< for a mask of any kind but none
  const void* valid_cols = nullptr;  ///< int32, for valid_cols
};

}  // namespace tunesmith
