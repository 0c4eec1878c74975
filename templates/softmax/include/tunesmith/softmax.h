#pragma once
// Row-wise softmax, log_softmax and their gradients as typed problems.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tunesmith/description.h"
#include "tunesmith/row_fields.h"
#include "tunesmith/softmax_options.h"
#include "tunesmith/strided_fields.h"

namespace tunesmith {

/// Device addresses, in launch order. The options enable mask and valid_cols.
struct SoftmaxArrays {
  const void* x = nullptr;
  void* y = nullptr;                 ///< may be x
  const void* mask = nullptr;        ///< for a mask of any kind except none
  const void* valid_cols = nullptr;  ///< int32; non-null enables valid_cols
};
struct SoftmaxBackwardArrays {
  const void* dy = nullptr;
  const void* y = nullptr;
  void* dx = nullptr;
  const void* mask = nullptr;  ///< as in SoftmaxArrays
  const void* valid_cols = nullptr;
};

/// Softmax of every row r: y[r,c] = exp(x[r,c] - max) / sum_c exp(x[r,c] - max) with max = max_c x[r,c]; with `logarithm`
/// its natural logarithm, x[r,c] - max - log(sum). Accumulated in float32, f64 in double. A row with NaN or +inf, or with
/// -inf only, gives NaN in every column, as in PyTorch; SoftmaxOptions::safe changes the latter.
///
/// Over a dimension that is not the last, x is (rows, cols, inner), such as (batch, class, height * width): each of the
/// rows * inner positions is a row of the formula. Strides may be in any order. Of the options, masks, causal and
/// valid_cols need adjacent columns.
struct SoftmaxProblem {
  using Arrays = SoftmaxArrays;

  std::int64_t rows = 0;                       ///< >= 0
  std::int64_t cols = 1;                       ///< >= 0; kernels are specialized for it. 0: y is empty, no launch
  DType dtype = DType::f32;                    ///< of x: f32, f16, bf16 or f64
  std::optional<DType> out_dtype{};            ///< of y: the same, f64 with f64 only; absent: dtype
  std::optional<std::int64_t> x_row_stride{};  ///< elements between rows of x; absent: cols * inner, 0: one row for all
  std::optional<std::int64_t> y_row_stride{};  ///< elements between rows of y; absent: cols * inner
  std::int64_t x_alignment = 16;               ///< promised alignment of x in bytes: a power of two, element size to 16
  std::int64_t y_alignment = 16;               ///< the same for y
  bool in_place = false;                       ///< y is x: equal dtypes and strides
  SoftmaxOptions options{};                    ///< default: none
  bool logarithm = false;                      ///< log_softmax instead of softmax
  std::int64_t inner = 1;                      ///< positions of each column, >= 1
  std::optional<std::int64_t> x_col_stride{};  ///< elements between columns of x, >= 0; absent: inner
  std::int64_t x_inner_stride = 1;             ///< elements between positions of x, >= 0
  std::optional<std::int64_t> y_col_stride{};  ///< the same for y; no two elements of y may share an address
  std::int64_t y_inner_stride = 1;

  static SoftmaxProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    return {.rows = rows, .cols = cols, .dtype = dtype};
  }

  constexpr std::string_view op() const noexcept { return logarithm ? "log_softmax" : "softmax"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  /// Returns whether the columns of an array are not adjacent.
  constexpr bool strided() const noexcept {
    return inner != 1 || x_col_stride.value_or(1) != 1 || y_col_stride.value_or(1) != 1;
  }
  bool operator==(const SoftmaxProblem&) const = default;
};

template <DescribedAs<SoftmaxProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const SoftmaxArrays& arrays, Visitor& v) {
  const SoftmaxRows rows{p.rows, p.cols, p.dtype, false};
  describe_x_to_y(p, v, 0, float_or_double_dtypes);
  describe(p.options, rows, v);
  v.option("inner", p.inner, inner_facts());
  v.option("x_col_stride", p.x_col_stride, col_stride("elements from one column of x to the next", p.inner));
  v.option("x_inner_stride", p.x_inner_stride, inner_stride("elements from one position of x to the next"));
  v.option("y_col_stride", p.y_col_stride, col_stride("elements from one column of y to the next", p.inner));
  v.option("y_inner_stride", p.y_inner_stride, inner_stride("elements from one position of y to the next"));

  ArrayFacts x = x_facts(p, "scores"), y = y_facts(p, arrays.x, "probabilities, or their logarithms");
  if (p.strided()) {
    set_strided_shape(x, p.rows, p.cols, p.inner, {p.x_row_stride, p.x_col_stride, p.x_inner_stride});
    set_strided_shape(y, p.rows, p.cols, p.inner, {p.y_row_stride, p.y_col_stride, p.y_inner_stride});
  }
  v.array(arrays.x, x);
  v.array(arrays.y, y);
  describe_arrays(p.options, rows, arrays, v);
}

/// Gradient of a loss with respect to x, from dy (with respect to y) and the forward operation's y, for every row:
///   softmax:      dx = scale * y * (dy - sum_c dy * y)
///   log_softmax:  dx = scale * (dy - exp(y) * sum_c dy)
/// Accumulated in float32 or better, f64 in double or better. `options` must equal the forward call's, but without an
/// additive mask: it is rejected, because y already contains its effect. dx of a masked element is 0. `inner` and the
/// strides are as in SoftmaxProblem.
struct SoftmaxBackwardProblem {
  using Arrays = SoftmaxBackwardArrays;

  std::int64_t rows = 0;                        ///< >= 0
  std::int64_t cols = 1;                        ///< >= 0; kernels are specialized for it. 0: dx is empty, no launch
  DType dtype = DType::f32;                     ///< of dy and y: f32, f16, bf16 or f64
  std::optional<DType> out_dtype{};             ///< of dx: the same, f64 with f64 only; absent: dtype
  std::optional<std::int64_t> dy_row_stride{};  ///< elements between rows of dy; absent: cols * inner, 0: one row for all
  std::optional<std::int64_t> y_row_stride{};   ///< the same for y
  std::optional<std::int64_t> dx_row_stride{};  ///< elements between rows of dx; absent: cols * inner
  std::int64_t dy_alignment = 16;               ///< promised alignment of dy in bytes, as in SoftmaxProblem
  std::int64_t y_alignment = 16;                ///< the same for y
  std::int64_t dx_alignment = 16;               ///< the same for dx
  bool in_place = false;                        ///< dx is dy: equal dtypes and strides
  SoftmaxOptions options{};                     ///< default: none
  bool logarithm = false;                       ///< the gradient of log_softmax instead of softmax
  std::int64_t inner = 1;                       ///< positions of each column, >= 1
  std::optional<std::int64_t> dy_col_stride{};  ///< elements between columns of dy, >= 0; absent: inner
  std::int64_t dy_inner_stride = 1;             ///< elements between positions of dy, >= 0
  std::optional<std::int64_t> y_col_stride{};   ///< the same for y
  std::int64_t y_inner_stride = 1;
  std::optional<std::int64_t> dx_col_stride{};  ///< the same for dx; no two elements of dx may share an address
  std::int64_t dx_inner_stride = 1;

  static SoftmaxBackwardProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    return {.rows = rows, .cols = cols, .dtype = dtype};
  }

  constexpr std::string_view op() const noexcept { return logarithm ? "log_softmax_backward" : "softmax_backward"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  /// Returns whether the columns of an array are not adjacent.
  constexpr bool strided() const noexcept {
    return inner != 1 || dy_col_stride.value_or(1) != 1 || y_col_stride.value_or(1) != 1 || dx_col_stride.value_or(1) != 1;
  }
  bool operator==(const SoftmaxBackwardProblem&) const = default;
};

template <DescribedAs<SoftmaxBackwardProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const SoftmaxBackwardArrays& arrays, Visitor& v) {
  const SoftmaxRows rows{p.rows, p.cols, p.dtype, true};
  v.field("rows", p.rows, {.meaning = "number of rows", .range = {0}, .required = true, .runtime = true});
  v.field("cols", p.cols,
          {.meaning = "number of columns; kernels are specialized for it", .range = {0, max_cols}, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type of dy and y", .choices = float_or_double_dtypes});
  v.field("out_dtype", p.out_dtype,
          {.meaning = "element type of dx", .choices = float_or_double_dtypes, .follows = {"dtype", p.dtype}});
  const auto row_stride = [&](const FieldFacts& facts) { return p.strided() ? strided_row(facts, p.cols, p.inner) : facts; };
  v.field("dy_row_stride", p.dy_row_stride,
          row_stride(input_stride("elements from one row of dy to the next; 0: one row for all", p.cols)));
  v.field("y_row_stride", p.y_row_stride,
          row_stride(input_stride("elements from one row of y to the next; 0: one row for all", p.cols)));
  v.field("dx_row_stride", p.dx_row_stride, row_stride(output_stride("elements from one row of dx to the next", p.cols)));
  v.field("dy_alignment", p.dy_alignment, alignment_facts("bytes that the address of dy is a multiple of", p.dtype));
  v.field("y_alignment", p.y_alignment, alignment_facts("bytes that the address of y is a multiple of", p.dtype));
  v.field("dx_alignment", p.dx_alignment, alignment_facts("bytes that the address of dx is a multiple of", p.output()));
  v.field("in_place", p.in_place, {.meaning = "dx is dy"});
  describe(p.options, rows, v);
  v.option("inner", p.inner, inner_facts());
  v.option("dy_col_stride", p.dy_col_stride, col_stride("elements from one column of dy to the next", p.inner));
  v.option("dy_inner_stride", p.dy_inner_stride, inner_stride("elements from one position of dy to the next"));
  v.option("y_col_stride", p.y_col_stride, col_stride("elements from one column of y to the next", p.inner));
  v.option("y_inner_stride", p.y_inner_stride, inner_stride("elements from one position of y to the next"));
  v.option("dx_col_stride", p.dx_col_stride, col_stride("elements from one column of dx to the next", p.inner));
  v.option("dx_inner_stride", p.dx_inner_stride, inner_stride("elements from one position of dx to the next"));

  const auto rows_of = [&](std::string_view name, const ColumnStrides& strides, const std::int64_t& alignment) {
    ArrayFacts facts{.name = name,
                     .dtype = p.dtype,
                     .shape = {size(p.rows), size(p.cols)},
                     .strides = {strides.row.value_or(p.cols), 1},
                     .alignment = &alignment};
    if (p.strided()) set_strided_shape(facts, p.rows, p.cols, p.inner, strides);
    return facts;
  };
  ArrayFacts dy = rows_of("dy", {p.dy_row_stride, p.dy_col_stride, p.dy_inner_stride}, p.dy_alignment);
  dy.meaning = "gradient with respect to y";
  v.array(arrays.dy, dy);
  ArrayFacts y = rows_of("y", {p.y_row_stride, p.y_col_stride, p.y_inner_stride}, p.y_alignment);
  y.meaning = "result of the forward operation";
  v.array(arrays.y, y);
  ArrayFacts dx = rows_of("dx", {p.dx_row_stride, p.dx_col_stride, p.dx_inner_stride}, p.dx_alignment);
  dx.role = Role::output;
  dx.dtype = p.output();
  dx.in_place_of = p.in_place ? "dy" : "";
  dx.in_place = &p.in_place;
  dx.shares = arrays.dy;
  dx.meaning = "gradient with respect to x";
  v.array(arrays.dx, dx);
  describe_arrays(p.options, rows, arrays, v);
}

}  // namespace tunesmith
