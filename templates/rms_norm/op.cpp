#include "templates/rms_norm/op.h"

#include "templates/row/columns.h"
#include "templates/row/empty_rows.h"
#include "templates/row/x_to_y.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

row::Columns weight_of(const RmsNormProblem& p) { return {p.weight, p.weight_type(), p.weight_alignment}; }

row::Shape shape_of(const RmsNormProblem& p) {
  row::Shape shape = row::without_empty_rows(row::x_to_y_shape(p));
  shape.more_registers = p.weight ? 12 : 0;  // a vector of weights
  shape.is_norm = true;
  if (shape.wide()) shape.more_smem_bytes = 1024;  // partials of double
  return shape;
}

row::OwnParams params_of(const RmsNormProblem& p) {
  const bool wide = p.dtype == DType::f64;
  return row::OwnParams(wide ? "RmsNormDoubleParams" : "RmsNormParams")
      .address("weight")
      .address("rstd")
      .real("eps", p.eps, wide)
      .real("weight_offset", p.weight_offset, wide);
}

}  // namespace

std::string_view summary_of(const RmsNormProblem&) noexcept {
  return "y[r,:] = x[r,:] / sqrt(mean(x[r,:]^2) + eps) * (weight + weight_offset) for every row r";
}

std::vector<FieldInfo> config_fields_of(const RmsNormProblem&) { return row::config_field_infos(); }

void complete(RmsNormProblem& p) {
  row::check_wide(p.dtype, "out_dtype", p.output());
  row::complete_x_to_y(p);
  if (p.weight_type() != p.dtype && p.weight_type() != DType::f32)
    throw Error(ErrorCode::invalid_argument, "weight_dtype is ", name(p.weight_type()), "; allowed: ", name(p.dtype),
                " (that of x), f32");
  if (p.cols == 0 && p.rstd)
    throw Error(ErrorCode::invalid_argument, "cols is 0 and rstd is 1; allowed: cols of 1 to ", most_cols,
                ", or rstd=0: the mean of no elements is NaN");
}

ParsedRmsNorm::ParsedRmsNorm(const Op& op, const RmsNormProblem& p)
    : RowProblem(op, p, shape_of(p), params_of(p), weight_of(p).problem_class("weight", shape_of(p))), typed_(p) {}

Cost ParsedRmsNorm::cost() const {
  // A square and its addition, two products, and the sum of weight and offset.
  return cost_of_arrays((typed_.weight ? 5.0 : 3.0) * static_cast<double>(typed_.rows) * static_cast<double>(typed_.cols));
}

row::Kernels ParsedRmsNorm::kernels(const row::TypedConfig& config, const row::Shape& shape) const {
  row::Kernels kernels;
  kernels.files = "rms_norm/";
  kernels.function = "rms_norm";
  kernels.steps = "the sum of squares and the result";
  const std::string weight = weight_of(typed_).type(shape);
  kernels.features = {
      {"Weight", typed_.weight && row::loads_columns_early(config, shape) ? row::loaded_early(weight) : weight}};
  if (typed_.weight) kernels.specialized = ", weights of " + std::string(name(typed_.weight_type()));
  return kernels;
}

}  // namespace tunesmith
