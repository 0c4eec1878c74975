#pragma once
// Options of softmax beyond the plain formula: scale, masks, variable row lengths, fully masked rows.

#include <cstdint>
#include <optional>

#include "tunesmith/describe.h"

namespace tunesmith {

/// A mask array over the elements of x. Rows are numbered (outer, middle, inner); for attention scores of shape (batch,
/// heads, queries, keys) these are batch, head and query:
///   row = (o * middle + m) * inner + i
///   mask element of (row, column) = mask[o * outer_stride + m * middle_stride + i * row_stride + column]
/// Strides are in elements of the mask; 0 broadcasts. A mask of shape (rows, cols) needs no other field than its kind; one
/// row for all rows: row_stride 0; (batch, 1, queries, keys): inner = queries, middle = heads, outer_stride = queries *
/// keys.
struct SoftmaxMask {
  enum class Kind : std::uint8_t {
    none,  ///< no mask; no other field here may be set
    add,   ///< adds floats to scale * x, rounded to float32 (f64: to f64); -inf masks. Forward operations only
    keep,  ///< bytes (DType::u8): 0 masks an element. Forward and backward
  };
  Kind kind = Kind::none;
  std::optional<DType> dtype{};              ///< of an additive mask: f32, f16, bf16, or f64 if x is f64; absent: as x
  std::optional<std::int64_t> inner{};       ///< number of inner rows, >= 1; absent: all rows
  std::int64_t middle = 1;                   ///< number of middle entries per outer entry, >= 1
  std::optional<std::int64_t> row_stride{};  ///< elements between inner rows, >= 0; absent: cols
  std::int64_t middle_stride = 0;            ///< elements between middle entries, >= 0
  std::int64_t outer_stride = 0;             ///< elements between outer entries, >= 0
  /// Promised alignment of the mask in bytes: a power of two, element size to 16. One-shot calls use the address's alignment
  /// instead.
  std::int64_t alignment = 16;

  bool operator==(const SoftmaxMask&) const = default;
};

template <>
inline constexpr std::array<std::string_view, 3> enum_names<SoftmaxMask::Kind>{"none", "add", "keep"};

/// Options of softmax, log_softmax and their gradients; the defaults are the plain formula. A masked element is excluded
/// from its row, by whichever option: 0 in softmax, -inf in log_softmax, 0 in a gradient. Its x may have any value, NaN
/// included (except under an additive mask, where NaN gives NaN). A fully masked row gives NaN unless `safe`.
struct SoftmaxOptions {
  /// y = softmax(scale * x), the factor rounded to float32 unless x is f64; gradients include it. 1e-30 to 1e30.
  double scale = 1;
  /// For square score matrices: masks columns after r % cols in row r.
  bool causal = false;
  /// Reads the number of valid leading columns of each row from the int32 array SoftmaxArrays::valid_cols; values are
  /// clamped to 0 and cols. It has ceil(rows / valid_cols_group) entries and is aligned to 4 bytes.
  bool valid_cols = false;
  /// Neighbouring rows per entry: row r has entry r / valid_cols_group. >= 1, e.g. heads * queries for one length per
  /// sequence. Requires valid_cols.
  std::int64_t valid_cols_group = 1;
  /// Default: no mask.
  SoftmaxMask mask{};
  /// A row whose elements are all masked or -inf gives zeros (also in its gradient) instead of NaN. Costs almost nothing.
  bool safe = false;

  bool operator==(const SoftmaxOptions&) const = default;
};

inline constexpr double min_softmax_scale = 1e-30, max_softmax_scale = 1e30;

/// Returns the element type of a mask over elements of `dtype`.
constexpr DType mask_dtype(const SoftmaxMask& mask, DType dtype) noexcept {
  return mask.kind == SoftmaxMask::Kind::keep ? DType::u8 : mask.dtype.value_or(dtype);
}

/// Properties of the problem that its options refer to.
struct SoftmaxRows {
  const std::int64_t& rows;
  const std::int64_t& cols;
  DType dtype;
  bool backward;
};

template <DescribedAs<SoftmaxOptions> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& o, const SoftmaxRows& of, Visitor& v) {
  using Kind = SoftmaxMask::Kind;
  auto& mask = o.mask;
  const Condition with_mask{mask.kind != Kind::none, of.backward ? "mask=keep" : "mask=add or mask=keep"};
  constexpr std::int64_t max_stride = std::int64_t{1} << 50;
  v.option("scale", o.scale, {.meaning = "positive factor of x", .range = {min_softmax_scale, max_softmax_scale}});
  v.option("causal", o.causal, {.meaning = "mask columns after r % cols in row r of square matrices"});
  v.option("valid_cols", o.valid_cols,
           {.meaning = "read the number of valid leading columns of each row from an int32 array"});
  v.option("valid_cols_group", o.valid_cols_group,
           {.meaning = "neighbouring rows that share an entry of valid_cols",
            .range = {1},
            .only_with = {o.valid_cols, "valid_cols=1"}});
  v.option("mask", mask.kind,
           {.meaning = of.backward ? "keep: a uint8 array, 0 masks an element"
                                   : "add: an array added to scale * x; keep: a uint8 array, 0 masks an element",
            .choices = of.backward ? one_of(Kind::none, Kind::keep) : any_choice});
  if (!of.backward)
    v.option("mask_dtype", mask.dtype,
             {.meaning = "element type of an additive mask",
              .choices = float_or_double_dtypes,
              .follows = {"dtype", of.dtype},
              .only_with = {mask.kind == Kind::add, "mask=add"}});
  v.option(
      "mask_inner", mask.inner,
      {.meaning = "rows of the mask's innermost level", .range = {1}, .follows = {"rows", of.rows}, .only_with = with_mask});
  v.option("mask_middle", mask.middle,
           {.meaning = "inner groups in one outer entry of the mask", .range = {1}, .only_with = with_mask});
  v.option("mask_row_stride", mask.row_stride,
           {.meaning = "mask elements between inner rows; 0: the same for all",
            .range = {0, max_stride},
            .follows = {"cols", of.cols},
            .only_with = with_mask});
  v.option("mask_middle_stride", mask.middle_stride,
           {.meaning = "mask elements between middle entries", .range = {0, max_stride}, .only_with = with_mask});
  v.option("mask_outer_stride", mask.outer_stride,
           {.meaning = "mask elements between outer entries", .range = {0, max_stride}, .only_with = with_mask});
  FieldFacts alignment = alignment_facts("bytes that the address of the mask is a multiple of", mask_dtype(mask, of.dtype));
  alignment.only_with = with_mask;
  v.option("mask_alignment", mask.alignment, alignment);
  v.option("safe", o.safe, {.meaning = "fully masked rows give zeros instead of NaN"});
}

/// Sets shape and strides of the mask: (outer, middle, inner), without unused levels. A broadcast level has extent 1.
constexpr void set_mask_shape(const SoftmaxMask& mask, const SoftmaxRows& of, ArrayFacts& facts) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return a <= 0 || b <= 0 ? 0 : (a - 1) / b + 1; };
  const auto level = [&](const Extent& extent, std::int64_t stride) {
    facts.shape.add(stride == 0 && extent.value > 1 ? fixed(1) : extent);
    facts.strides.add(stride);
  };
  const bool whole = !mask.inner || *mask.inner >= of.rows;
  const std::int64_t groups = whole ? 1 : ceil_div(of.rows, *mask.inner);
  if (groups > 1) {
    level(fixed(ceil_div(groups, mask.middle), "outer entries"), mask.outer_stride);
    level(size(mask.middle), mask.middle_stride);
  }
  level(whole ? (of.rows == 0 ? fixed(1, "rows") : size(of.rows)) : size(mask.inner, of.rows),
        mask.row_stride.value_or(of.cols));
  facts.shape.add(of.rows == 0 ? fixed(0, "cols") : size(of.cols));
  facts.strides.add(1);
}

/// Describes the arrays of the options.
template <typename Arrays, DescriptionVisitor Visitor>
constexpr void describe_arrays(const SoftmaxOptions& o, const SoftmaxRows& of, const Arrays& arrays, Visitor& v) {
  ArrayFacts mask{.name = "mask",
                  .dtype = mask_dtype(o.mask, of.dtype),
                  .alignment = &o.mask.alignment,
                  .present = o.mask.kind != SoftmaxMask::Kind::none,
                  .meaning = "added to scale * x, or 0 where an element is masked"};
  set_mask_shape(o.mask, of, mask);
  v.array(arrays.mask, mask);
  const std::int64_t groups = of.rows <= 0 || o.valid_cols_group <= 0 ? 0 : (of.rows - 1) / o.valid_cols_group + 1;
  v.array(arrays.valid_cols, {.name = "valid_cols",
                              .dtype = DType::i32,
                              .shape = {o.valid_cols_group == 1 ? size(of.rows) : fixed(groups, "row groups")},
                              .present = o.valid_cols,
                              .enabled_by = &o.valid_cols,
                              .meaning = "number of valid leading columns of each row"});
}

}  // namespace tunesmith
