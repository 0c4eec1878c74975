#include "templates/rms_norm/op.h"

#include "templates/row/x_to_y.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Returns the program. Its arrays have the names of the operation's.
std::string text_of(const RmsNormProblem& p) {
  const std::string y(name(p.output())), w(name(p.weight_type()));
  std::string text = "in x : float[row, col]\n";
  if (p.weight) text += "in weight : " + w + "[col]\nnum weight_offset : f32\n";
  text += "num eps : f32\nmean squares = x * x\nscale = rsqrt(squares + eps)\nout y : " + y + "[row, col] = x * scale";
  text += p.weight ? " * (weight + weight_offset)\n" : "\n";
  if (p.rstd) text += p.dtype == DType::f64 ? "out rstd : f64[row] = scale\n" : "out rstd : f32[row] = scale\n";
  return text;
}

RowProgramProblem program_of(const RmsNormProblem& p) {
  RowProgramProblem program{.program = text_of(p), .rows = p.rows, .cols = p.cols, .dtype = p.dtype};
  program.numbers = {{"eps", p.eps}};
  program.row_strides = {{"x", *p.x_row_stride}, {"y", *p.y_row_stride}};
  program.alignments = {{"x", p.x_alignment}, {"y", p.y_alignment}};
  if (p.weight) {
    program.numbers.push_back({"weight_offset", p.weight_offset});
    program.alignments.push_back({"weight", p.weight_alignment});
  }
  if (p.in_place) program.in_place = {{"y", "x"}};
  Description(program).resolve();
  complete(program);
  return program;
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
    throw Error(ErrorCode::invalid_argument, "cols is 0 and rstd is 1; allowed: cols of 1 to ", max_cols,
                ", or rstd=0: the mean of no elements is NaN");
}

ParsedProblemPtr ParsedRmsNorm::of(const Op& op, const RmsNormProblem& problem) {
  return std::make_shared<const ParsedRowProgram>(op, problem, program_of(problem));
}

}  // namespace tunesmith
