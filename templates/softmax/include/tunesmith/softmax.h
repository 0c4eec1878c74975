#pragma once
// Row-wise softmax, log-softmax and their gradients as typed problems.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tunesmith/description.h"
#include "tunesmith/row_fields.h"
#include "tunesmith/softmax_options.h"

namespace tunesmith {

/// Addresses in device memory; mask and valid_cols are those that the options name.
struct SoftmaxArrays {
  const void* x = nullptr;
  void* y = nullptr;                 ///< may be x
  const void* mask = nullptr;        ///< for a mask of any kind but none
  const void* valid_cols = nullptr;  ///< int32; switches valid_cols on
};
struct SoftmaxBackwardArrays {
  const void* dy = nullptr;
  const void* y = nullptr;
  void* dx = nullptr;
  const void* mask = nullptr;  ///< as in SoftmaxArrays
  const void* valid_cols = nullptr;
};

/// y[r,c] = exp(x[r,c] - max_c x[r,:]) / sum_c exp(x[r,:] - max), for every row r; with `logarithm` its natural logarithm,
/// x[r,c] - max - log(sum). Accumulated in float32 whatever the dtypes. A row that holds NaN or +inf, or nothing but -inf,
/// gives NaN in every column, as PyTorch does; SoftmaxOptions::safe changes the last.
struct SoftmaxProblem {
  using Arrays = SoftmaxArrays;

  std::int64_t rows = 0;                       ///< >= 0
  std::int64_t cols = 1;                       ///< >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;                    ///< of x: f32, f16 or bf16
  std::optional<DType> out_dtype{};            ///< of y: f32, f16 or bf16; absent: dtype
  std::optional<std::int64_t> x_row_stride{};  ///< elements between rows of x; absent: cols, 0: one row for all
  std::optional<std::int64_t> y_row_stride{};  ///< elements between rows of y; absent: cols
  std::int64_t x_alignment = 16;  ///< bytes x's address is promised to be a multiple of: a power of two, element size to 16
  std::int64_t y_alignment = 16;  ///< the same for y
  bool in_place = false;          ///< y is x: equal dtypes and strides
  SoftmaxOptions options{};       ///< default: none
  bool logarithm = false;         ///< log_softmax instead of softmax

  static SoftmaxProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    return {.rows = rows, .cols = cols, .dtype = dtype};
  }

  constexpr std::string_view op() const noexcept { return logarithm ? "log_softmax" : "softmax"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  bool operator==(const SoftmaxProblem&) const = default;
};

template <DescribedAs<SoftmaxProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const SoftmaxArrays& arrays, Visitor& v) {
  const SoftmaxRows rows{p.rows, p.cols, p.dtype, false};
  describe_x_to_y(p, v);
  describe(p.options, rows, v);

  v.array(arrays.x, x_facts(p, "scores"));
  v.array(arrays.y, y_facts(p, arrays.x, "probabilities, or their logarithms"));
  describe_arrays(p.options, rows, arrays, v);
}

/// The gradient of a loss with respect to x, from dy (the one with respect to y) and y as the forward operation gave it:
///   softmax:      dx = scale * y * (dy - sum_c dy * y)
///   log_softmax:  dx = scale * (dy - exp(y) * sum_c dy)
/// for every row; accumulated in float32 or better whatever the dtypes. `options` are those of the forward call, but for an
/// add mask, which a gradient knows nothing of (y holds its effect) and refuses. dx of a masked element is 0.
struct SoftmaxBackwardProblem {
  using Arrays = SoftmaxBackwardArrays;

  std::int64_t rows = 0;                        ///< >= 0
  std::int64_t cols = 1;                        ///< >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;                     ///< of dy and y: f32, f16 or bf16
  std::optional<DType> out_dtype{};             ///< of dx: f32, f16 or bf16; absent: dtype
  std::optional<std::int64_t> dy_row_stride{};  ///< elements between rows of dy; absent: cols, 0: one row for all
  std::optional<std::int64_t> y_row_stride{};   ///< the same for y
  std::optional<std::int64_t> dx_row_stride{};  ///< elements between rows of dx; absent: cols
  std::int64_t dy_alignment = 16;  ///< bytes dy's address is promised to be a multiple of, as for SoftmaxProblem
  std::int64_t y_alignment = 16;   ///< the same for y
  std::int64_t dx_alignment = 16;  ///< the same for dx
  bool in_place = false;           ///< dx is dy: equal dtypes and strides
  SoftmaxOptions options{};        ///< default: none
  bool logarithm = false;          ///< the gradient of log_softmax instead of softmax

  static SoftmaxBackwardProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    return {.rows = rows, .cols = cols, .dtype = dtype};
  }

  constexpr std::string_view op() const noexcept { return logarithm ? "log_softmax_backward" : "softmax_backward"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  bool operator==(const SoftmaxBackwardProblem&) const = default;
};

template <DescribedAs<SoftmaxBackwardProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const SoftmaxBackwardArrays& arrays, Visitor& v) {
  const SoftmaxRows rows{p.rows, p.cols, p.dtype, true};
  v.field("rows", p.rows, {.meaning = "number of rows", .range = {0}, .required = true});
  v.field("cols", p.cols,
          {.meaning = "number of columns; kernels are specialized for it", .range = {1, most_cols}, .required = true});
  v.field("dtype", p.dtype, {.meaning = "element type of dy and y", .choices = float_dtypes});
  v.field("out_dtype", p.out_dtype,
          {.meaning = "element type of dx", .choices = float_dtypes, .follows = {"dtype", p.dtype}});
  v.field("dy_row_stride", p.dy_row_stride,
          input_stride("elements from one row of dy to the next; 0: one row for all", p.cols));
  v.field("y_row_stride", p.y_row_stride,
          input_stride("elements from one row of y to the next; 0: one row for all", p.cols));
  v.field("dx_row_stride", p.dx_row_stride, output_stride("elements from one row of dx to the next", p.cols));
  v.field("dy_alignment", p.dy_alignment, alignment_facts("bytes that the address of dy is a multiple of", p.dtype));
  v.field("y_alignment", p.y_alignment, alignment_facts("bytes that the address of y is a multiple of", p.dtype));
  v.field("dx_alignment", p.dx_alignment, alignment_facts("bytes that the address of dx is a multiple of", p.output()));
  v.field("in_place", p.in_place, {.meaning = "dx is dy"});
  describe(p.options, rows, v);

  const auto rows_of = [&](std::string_view name, std::int64_t stride, const std::int64_t& alignment) {
    return ArrayFacts{.name = name,
                      .dtype = p.dtype,
                      .shape = {size(p.rows), size(p.cols)},
                      .strides = {stride, 1},
                      .alignment = &alignment};
  };
  ArrayFacts dy = rows_of("dy", p.dy_row_stride.value_or(p.cols), p.dy_alignment);
  dy.meaning = "gradient with respect to y";
  v.array(arrays.dy, dy);
  ArrayFacts y = rows_of("y", p.y_row_stride.value_or(p.cols), p.y_alignment);
  y.meaning = "result of the forward operation";
  v.array(arrays.y, y);
  ArrayFacts dx = rows_of("dx", p.dx_row_stride.value_or(p.cols), p.dx_alignment);
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
