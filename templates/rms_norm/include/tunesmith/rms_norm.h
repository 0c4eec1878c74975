#pragma once
// Root mean square normalization of rows as a typed problem.

#include <cstdint>
#include <optional>
#include <string_view>

#include "tunesmith/description.h"
#include "tunesmith/row_fields.h"

namespace tunesmith {

/// Addresses in device memory.
struct RmsNormArrays {
  const void* x = nullptr;
  void* y = nullptr;             ///< may be x
  const void* weight = nullptr;  ///< optional; switches `weight` on
  void* rstd = nullptr;          ///< optional; switches `rstd` on
};

/// RMS normalization of every row, forward:
///
///   rstd[r] = 1 / sqrt(mean_c(x[r,c]^2) + eps)
///   y[r,c]  = x[r,c] * rstd[r] * (weight[c] + weight_offset)
///
/// All arithmetic is float32 (of f64: double) and y is rounded once, as in Gemma. (Llama's implementation in Hugging Face
/// Transformers rounds x * rstd to x's type before it multiplies with the weight.) Source: Zhang and Sennrich,
/// arXiv:1910.07467.
///
/// Special rows, as in PyTorch
///   NaN                    rstd and all of y are NaN
///   +inf or -inf           rstd is 0; y is NaN at the infinity and 0 elsewhere
///   sum of x^2 overflows   the same without NaN. In float32 this is from |x| = 1.8e19 / sqrt(cols), if all are of this size
///                          (double: 1.3e154 / sqrt(cols))
///   zeros, eps is 0        rstd is inf and y is NaN. Squares below 1.4e-45 count as 0, so that without eps rows of numbers
///                          below 1e-22 lose digits (double: below 4.9e-324, and 1e-161)
struct RmsNormProblem {
  using Arrays = RmsNormArrays;

  std::int64_t rows = 0;             ///< >= 0
  std::int64_t cols = 1;             ///< >= 0; a tuned kernel is specialized for it. 0: y is empty, no launch; without rstd
  DType dtype = DType::f32;          ///< of x: f32, f16, bf16 or f64
  std::optional<DType> out_dtype{};  ///< of y: the same, f64 with f64 only; absent: dtype
  std::optional<std::int64_t> x_row_stride{};  ///< elements between rows of x; absent: cols, 0: one row for all
  std::optional<std::int64_t> y_row_stride{};  ///< elements between rows of y; absent: cols
  std::int64_t x_alignment = 16;  ///< bytes x's address is promised to be a multiple of: a power of two, element size to 16
  std::int64_t y_alignment = 16;  ///< the same for y
  bool in_place = false;          ///< y is x: equal dtypes and strides
  double eps = 1e-6;              ///< added to the mean of squares, rounded to float32 unless x is f64: 0 to 1e30
  bool weight = false;            ///< the array `weight` (cols) is given
  std::optional<DType> weight_dtype{};  ///< of weight: dtype or f32; absent: dtype
  double weight_offset = 0;             ///< added to each weight, rounded as eps: 1 for Gemma
  std::int64_t weight_alignment = 16;   ///< as x_alignment, for weight
  bool rstd = false;                    ///< the array `rstd` (rows, f32, or f64 of x) is written, for the backward pass

  constexpr std::string_view op() const noexcept { return "rms_norm"; }
  constexpr DType output() const noexcept { return out_dtype.value_or(dtype); }
  constexpr DType weight_type() const noexcept { return weight_dtype.value_or(dtype); }
  bool operator==(const RmsNormProblem&) const = default;
};

template <DescribedAs<RmsNormProblem> Self, DescriptionVisitor Visitor>
constexpr void describe(Self& p, const RmsNormArrays& arrays, Visitor& v) {
  const Condition with_weight{p.weight, "weight=1"};
  describe_x_to_y(p, v, 0, float_or_double_dtypes);
  v.option("eps", p.eps, {.meaning = "added to the mean of squares", .range = {0.0, 1e30}});
  v.option("weight", p.weight, {.meaning = "columns have weights"});
  v.option("weight_dtype", p.weight_dtype,
           {.meaning = "element type of weight: that of x, or f32",
            .choices = float_or_double_dtypes,
            .follows = {"dtype", p.dtype},
            .only_with = with_weight});
  v.option("weight_offset", p.weight_offset,
           {.meaning = "added to each weight, such as 1", .range = {-1e30, 1e30}, .only_with = with_weight});
  FieldFacts alignment = alignment_facts("bytes that the address of weight is a multiple of", p.weight_type());
  alignment.only_with = with_weight;
  v.option("weight_alignment", p.weight_alignment, alignment);
  v.option("rstd", p.rstd, {.meaning = "rstd is written"});

  v.array(arrays.x, x_facts(p, "rows to normalize"));
  v.array(arrays.y, y_facts(p, arrays.x, "normalized rows"));
  v.array(arrays.weight, {.name = "weight",
                          .dtype = p.weight_type(),
                          .shape = {size(p.cols)},
                          .alignment = &p.weight_alignment,
                          .present = p.weight,
                          .enabled_by = &p.weight,
                          .meaning = "weight of each column"});
  v.array(arrays.rstd, {.name = "rstd",
                        .role = Role::output,
                        .dtype = p.dtype == DType::f64 ? DType::f64 : DType::f32,
                        .shape = {size(p.rows)},
                        .present = p.rstd,
                        .enabled_by = &p.rstd,
                        .meaning = "1 / sqrt(mean(x^2) + eps) of each row, in f64 if x is f64"});
}

}  // namespace tunesmith
